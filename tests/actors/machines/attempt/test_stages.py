"""The order of stages: which stages run concurrently, which stages wait, and which messages follow them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.machines.attempt.events import StartTask
from flykka.actors.machines.attempt.stages import STAGES_IN_FLIGHT, Stage, StageLine
from flykka.actors.machines.effects import Role, Tell
from flykka.messages.attempt.answers import (
    ChainClosed,
    ChainOpened,
    ChannelStateWritten,
    CheckpointCommitted,
    CommitPrepared,
    EngineFailed,
    SnapshotWritten,
    StageResult,
    WorkDone,
)
from flykka.messages.attempt.commands import (
    AdvanceWatermark,
    CancelWork,
    CloseChain,
    Command,
    CommitCheckpoint,
    PrepareCommit,
    ProcessBatch,
    ReadSplits,
    SnapshotState,
    StageCommand,
    UpdateState,
    WriteSnapshot,
)
from flykka.messages.graph.job_graph import FiringMode, OperatorKind
from flykka.messages.tasks.exchange import EndOfPartition, Watermark
from flykka.messages.tasks.task import CancelTask, ExecutionState, UpdateTaskExecutionState
from tests.actors.machines.attempt.attempt_machine import (
    ATTEMPT,
    BOOM,
    BOTH,
    STATELESS,
    WINDOWS,
    Harness,
    aborted,
    barrier,
    batch,
    complete,
    descriptor,
    durable,
    finished,
    source,
    splits,
    staged,
    to_bridge,
    to_job_master,
    trigger,
    window,
)

END = EndOfPartition()


def line(*stages: int) -> StageLine:
    made = StageLine()
    for stage in stages:
        made.add(Stage(command=ReadSplits(stage=stage, splits=())), 0)
    return made


def operator(chain: ChainOpened = STATELESS) -> Harness:
    task = Harness(descriptor(OperatorKind.SINK, channels=1))
    task.feed(StartTask(), chain)
    task.at_work.clear()
    return task


def at_work(task: Harness) -> list[tuple[type[Command], int]]:
    return [(type(each), each.stage) for each in task.at_work if isinstance(each, StageCommand)]


# The queue of stages


def test_stages_start_up_to_the_limit_in_flight() -> None:
    made = line(*range(STAGES_IN_FLIGHT - 1))
    before = made.has_room

    made.add(Stage(command=ReadSplits(stage=STAGES_IN_FLIGHT - 1, splits=())), 0)

    assert (before, made.has_room) == (True, False)


def test_a_message_without_an_earlier_stage_is_released_at_once() -> None:
    made = line()

    made.add_follower(END)

    assert made.released() == [END]
    assert made.released() == []


def test_a_message_waits_only_for_the_stages_before_it() -> None:
    made = line(0, 1)
    made.add_follower(END)
    made.add(Stage(command=ReadSplits(stage=2, splits=())), 0)
    released = []

    for stage in range(3):
        made.begin_work(0)
        made.on_answer(StageResult(stage=stage))
        made.pop_ended()
        released.append(made.released())
        made.check()

    assert released == [[], [END], []]


def test_a_result_that_no_stage_expects_is_refused() -> None:
    made = line(0)
    early = made.on_answer(StageResult(stage=0))
    made.begin_work(0)

    assert (early, made.on_answer(StageResult(stage=1)), made.on_answer(UpdateState(stage=1))) == (False, False, False)
    assert made.on_answer(StageResult(stage=0))
    assert not made.on_answer(StageResult(stage=0))


# Order


def test_rows_of_at_most_two_stages_are_moved_concurrently() -> None:
    task = operator()

    task.arrive(0, batch("a"), batch("b"), batch("c"))

    assert at_work(task) == [(ProcessBatch, 0), (ProcessBatch, 1)]


def test_an_ordered_chain_processes_one_batch_at_a_time() -> None:
    task = operator(ChainOpened(is_ordered=True))
    task.arrive(0, batch("a"), batch("b"))
    first = at_work(task)

    task.answer(ProcessBatch)

    assert (first, at_work(task)) == ([(ProcessBatch, 0)], [(ProcessBatch, 1)])


def test_stages_complete_in_start_order_whichever_result_arrives_first() -> None:
    task = operator()
    task.arrive(0, batch("a"), Watermark(timestamp_ms=5), batch("b"))

    early = task.feed(finished(1))
    task.at_work.clear()
    both = to_bridge(task.feed(finished(0)) + task.arrive(0, batch("c")))

    assert to_bridge(early) == []
    assert [each.stage for each in both if isinstance(each, ProcessBatch)] == [2]


def test_state_is_updated_in_the_order_of_the_stages() -> None:
    task = operator(WINDOWS)
    task.arrive(0, batch("a"), batch("b"))

    task.answer(ProcessBatch, 1, updates_state=True)
    early = at_work(task)
    task.answer(ProcessBatch, 0, updates_state=True)
    first = at_work(task)
    task.done(UpdateState)

    assert early == [(ProcessBatch, 0)]
    assert first == [(UpdateState, 0)]
    assert at_work(task) == [(UpdateState, 1)]


def test_a_watermark_fires_between_the_stages_before_and_after_it() -> None:
    task = window(FiringMode.ON_WATERMARK)
    task.arrive(0, batch("a"), Watermark(timestamp_ms=9), batch("b"))
    early = at_work(task)

    task.answer(ProcessBatch, updates_state=True)
    moved = at_work(task)
    task.done(UpdateState)

    assert early == [(ProcessBatch, 0)]
    assert moved == [(UpdateState, 0)]
    assert at_work(task) == [(AdvanceWatermark, 1), (ProcessBatch, 2)]


def test_the_result_of_a_stage_after_a_failed_one_is_ignored() -> None:
    task = operator()
    task.arrive(0, batch("a"), batch("b"))

    failed = task.refuse(ProcessBatch)
    late = task.feed(finished(1))

    assert to_bridge(failed) == [CancelWork(), CloseChain(cancel=True)]
    assert to_bridge(late) == []
    assert to_bridge(task.arrive(0, batch("c"))) == []


# The end of an attempt


def finishing() -> Harness:
    """Return a source whose final checkpoint has completed, while a later savepoint has not been written yet."""
    task = source(BOTH)
    task.feed(splits("a"), StageResult(stage=0, staged=staged("a")))
    task.feed(trigger(1, is_final=True), finished(1), durable(1), complete(1), trigger(2))
    task.at_work = [each for each in task.at_work if not isinstance(each, ReadSplits)]
    return task


def test_an_attempt_completes_its_pending_work_before_it_finishes() -> None:
    task = finishing()
    before = to_bridge(task.feed(CheckpointCommitted(checkpoint_id=1)))
    stage = to_bridge(task.feed(finished(2)))
    closing = to_bridge(task.feed(durable(2)))

    closed = task.feed(ChainClosed())

    assert CloseChain(cancel=False) not in before + stage
    assert closing[-1] == CloseChain(cancel=False)
    assert reported_states(closed) == [ExecutionState.FINISHED]


def test_a_cancelled_attempt_waits_only_for_the_chain_to_close() -> None:
    task = finishing()

    cancelled = to_bridge(task.feed(CancelTask(attempt=ATTEMPT)))
    late = task.feed(finished(2), durable(2))
    closed = task.feed(ChainClosed())

    assert cancelled == [CancelWork(), CloseChain(cancel=True)]
    assert to_bridge(late) == []
    assert reported_states(closed) == [ExecutionState.CANCELED]


def test_an_engine_that_cannot_continue_fails_the_attempt_once() -> None:
    task = operator()

    effects = to_bridge(task.feed(EngineFailed(cause=BOOM), EngineFailed(cause=BOOM)))

    assert effects == [CancelWork(), CloseChain(cancel=True)]


def test_an_engine_failure_while_closing_is_ignored() -> None:
    task = finishing()
    task.feed(CheckpointCommitted(checkpoint_id=1), finished(2), durable(2))

    assert to_bridge(task.feed(EngineFailed(cause=BOOM))) == []
    assert reported_states(task.feed(ChainClosed())) == [ExecutionState.FINISHED]


def test_a_chain_that_cannot_be_closed_fails_the_attempt() -> None:
    task = finishing()
    task.feed(CheckpointCommitted(checkpoint_id=1), finished(2), durable(2))

    assert reported_states(task.refuse(CloseChain)) == [ExecutionState.FAILED]


def reported_states(effects: Any) -> list[ExecutionState]:
    return [each.state.state for each in to_job_master(effects) if isinstance(each, UpdateTaskExecutionState)]


# Results in any order


def answer_for(command: Command) -> Any:
    match command:
        case ProcessBatch(stage=stage):
            return StageResult(stage=stage, updates_state=stage % 2 == 0, staged=staged(f"of {stage}"))
        case StageCommand(stage=stage) if not isinstance(command, UpdateState):
            return StageResult(stage=stage)
        case PrepareCommit(checkpoint_id=checkpoint_id):
            return CommitPrepared(checkpoint_id=checkpoint_id)
        case WriteSnapshot(checkpoint_id=checkpoint_id):
            return SnapshotWritten(checkpoint_id=checkpoint_id)
        case CommitCheckpoint(checkpoint_id=checkpoint_id):
            return CheckpointCommitted(checkpoint_id=checkpoint_id)
        case _:
            return WorkDone(command=command)


@given(
    kinds=st.lists(st.sampled_from(["batch", "watermark", "barrier", "complete", "abort"]), max_size=12),
    order=st.randoms(use_true_random=False),
)
def test_stages_end_in_order_without_lost_output_for_any_result_order(kinds: list[str], order: Any) -> None:
    task = Harness(descriptor(OperatorKind.KEYED_PROCESS, channels=1))
    task.feed(StartTask(), BOTH)
    task.at_work.clear()
    sees_state, prepared, processed = list[int](), list[str](), list[str]()

    def answer_some(left: int) -> None:
        while len(task.at_work) > left:
            command = task.at_work.pop(order.randrange(len(task.at_work)))
            if isinstance(command, PrepareCommit):
                prepared.extend(name for each in command.staged for name in each.names)
            if isinstance(command, ProcessBatch):
                processed.append(f"of {command.stage}")
            elif isinstance(command, StageCommand):
                sees_state.append(command.stage)
            task.feed(answer_for(command))

    for number, kind in enumerate([*kinds, "barrier"], 1):
        match kind:
            case "batch":
                if kinds[:number].count("batch") - len(processed) > 2:
                    answer_some(0)  # The credit is used up.
                task.arrive(0, batch(f"batch-{number}"))
            case "watermark":
                task.arrive(0, Watermark(timestamp_ms=number))
            case "barrier":
                task.arrive(0, barrier(number))
            case "complete":
                task.feed(complete(number - 1))
            case "abort":
                task.feed(aborted(number - 1))
        answer_some(order.randrange(3))
    answer_some(0)

    assert sees_state == sorted(sees_state)
    assert sorted(prepared) == sorted(processed)


def test_duplicate_results_have_no_effect() -> None:
    task = operator(BOTH)
    task.arrive(0, batch("a"), barrier(1))
    task.feed(finished(0), finished(1), durable(1))

    again = task.feed(finished(0), finished(1), durable(1), ChannelStateWritten(checkpoint_id=1, folders=()))

    assert [effect for effect in again if isinstance(effect, Tell) and effect.to is Role.BRIDGE] == []
    assert to_job_master(again) == []


def test_the_snapshot_is_a_stage_of_every_chain() -> None:
    task = operator(STATELESS)

    task.arrive(0, barrier(1))

    assert at_work(task) == [(SnapshotState, 0)]
