"""The machine of an attempt: which work its engine is given, in which order, and what the Task is told of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.attempt.attempt import Attempt, AttemptEvent
from flykka.actors.attempt.effects import (
    AdvanceTo,
    AttemptEffect,
    Begin,
    CancelWork,
    CloseChain,
    Commit,
    DiscardSnapshot,
    InterruptWork,
    NoteState,
    Open,
    PrepareCommit,
    Process,
    Release,
    ReleaseHeldBy,
    TellTask,
    UpdateState,
    Work,
    WriteInFlight,
    WriteSnapshot,
)
from flykka.messages.batch import BatchRef
from flykka.messages.bridge import (
    ChainClosed,
    ChainOpened,
    CommitPrepared,
    EngineFailed,
    InFlightWritten,
    OutputCommitted,
    RowsMoved,
    SnapshotWritten,
    StagedOutput,
    WorkDone,
    WorkFailed,
)
from flykka.messages.checkpoint import CheckpointOptions
from flykka.messages.failure import SerializedThrowable
from flykka.messages.ids import BatchId, OperatorId
from flykka.messages.job_graph import FiringMode, OperatorKind
from flykka.messages.message import Message, Value
from flykka.messages.stage import (
    AbortCheckpoint,
    AdvanceWatermark,
    BridgeClosed,
    BridgeOpened,
    ChannelStateWritten,
    CheckpointCommitted,
    CloseBridge,
    CommitCheckpoint,
    HoldInFlight,
    InputInFlight,
    OpenBridge,
    ReleaseBatches,
    RunStage,
    SnapshotFailed,
    SnapshotState,
    StageFailed,
    StageFinished,
    StateSnapshotted,
    WriteChannelState,
)
from flykka.messages.state import ExclusiveStateHandle
from tests.actors.execution.task_machine import ATTEMPT, descriptor

SINK = OperatorId("sink")
BOOM = SerializedThrowable(type_name="OSError", message="boom")
STATELESS = ChainOpened(name="chain", stages_in_flight=2)
WINDOWS = ChainOpened(name="chain", stages_in_flight=2, has_state=True)
SINKS = ChainOpened(name="chain", stages_in_flight=2, has_sinks=True)
BOTH = ChainOpened(name="chain", stages_in_flight=2, has_state=True, has_sinks=True)


class Harness:
    """A machine that is fed events, and what the engine has in hand."""

    def __init__(self, chain: ChainOpened | None = STATELESS, *, outputs: int = 0, **vertex: Any) -> None:
        self.machine = Attempt(descriptor(OperatorKind.STATELESS, channels=1, outputs=outputs, **vertex))
        self.now = 1_000
        self.at_work: list[Begin] = []
        if chain is not None:
            self.feed(OpenBridge(restore=None, restored_checkpoint_id=None))
            self.answer(Open, chain)

    def feed(self, *events: AttemptEvent) -> list[AttemptEffect]:
        effects: list[AttemptEffect] = []
        for event in events:
            made = self.machine.handle(event, self.now)
            self.machine.check()
            self.at_work += [effect for effect in made if isinstance(effect, Begin)]
            effects += made
        return effects

    def answer(self, kind: type[Work], answer: Value | None = None) -> list[AttemptEffect]:
        """The oldest work of this kind is done."""
        begin = self._taken(kind)
        return self.feed(WorkDone(work=begin.key, answer=answer))

    def refuse(self, kind: type[Work], *, ends_attempt: bool = True) -> list[AttemptEffect]:
        """The oldest work of this kind has failed."""
        begin = self._taken(kind)
        return self.feed(WorkFailed(work=begin.key, cause=BOOM, ends_attempt=ends_attempt))

    @property
    def work(self) -> list[Work]:
        """What the engine has in hand."""
        return [begin.work for begin in self.at_work]

    def _taken(self, kind: type[Work]) -> Begin:
        begin = next(begin for begin in self.at_work if isinstance(begin.work, kind))
        self.at_work.remove(begin)
        return begin


def told(effects: list[AttemptEffect]) -> list[Message]:
    return [effect.message for effect in effects if isinstance(effect, TellTask)]


def begun(effects: list[AttemptEffect]) -> list[Work]:
    return [effect.work for effect in effects if isinstance(effect, Begin)]


def run(stage: int) -> RunStage:
    return RunStage(stage=stage, gate=0, batch=batch(f"batch-{stage}"), watermark_ms=0)


def batch(name: str) -> BatchRef:
    return BatchRef(batch_id=BatchId(name), rows=1, size_bytes=1)


def snapshot(stage: int, checkpoint_id: int, target: str | None = None) -> SnapshotState:
    options = CheckpointOptions(target_location=target)
    return SnapshotState(stage=stage, checkpoint_id=checkpoint_id, options=options, watermark_ms=500)


def staged(*names: str) -> tuple[StagedOutput, ...]:
    return (StagedOutput(operator_id=SINK, names=names, rows=len(names)),)


# Stages


def test_the_rows_of_as_many_stages_are_moved_at_once_as_the_chain_says() -> None:
    attempt = Harness(STATELESS)

    attempt.feed(run(0), run(1), run(2))

    assert attempt.work == [Process(command=run(0)), Process(command=run(1))]


def test_stages_are_answered_in_their_order_whichever_is_moved_first() -> None:
    attempt = Harness(STATELESS)
    attempt.feed(run(0), run(1))
    first, second = attempt.at_work

    early = attempt.feed(WorkDone(work=second.key, answer=RowsMoved(rows_in=2)))
    both = attempt.feed(WorkDone(work=first.key, answer=RowsMoved(rows_in=1)))

    assert told(early) == []
    assert told(both) == [StageFinished(stage=0, rows_in=1), StageFinished(stage=1, rows_in=2)]


def test_state_is_updated_in_the_order_of_the_stages() -> None:
    attempt = Harness(WINDOWS)
    attempt.feed(run(0), run(1))
    first, second = attempt.at_work
    changes = RowsMoved(updates_state=True)

    attempt.feed(WorkDone(work=second.key, answer=changes), WorkDone(work=first.key, answer=changes))
    updating_first = attempt.work[2:]
    attempt.answer(UpdateState)

    assert updating_first == [UpdateState(stage=0)]
    assert attempt.work[2:] == [UpdateState(stage=1)]


def test_a_batch_is_let_go_of_when_its_stage_is_over_and_not_before() -> None:
    attempt = Harness(WINDOWS)
    attempt.feed(run(0))

    moved = attempt.answer(Process, RowsMoved(updates_state=True))
    over = attempt.answer(UpdateState)

    release = Release(batch_ids=(BatchId("batch-0"),), holder=ATTEMPT)
    assert release not in moved
    assert over == [release, TellTask(message=StageFinished(stage=0))]


def test_a_stage_takes_from_when_its_work_begins_until_it_is_answered() -> None:
    attempt = Harness(STATELESS)
    attempt.feed(run(0))
    attempt.now += 70

    answered = attempt.answer(Process, RowsMoved())

    assert told(answered) == [StageFinished(stage=0, duration_ms=70)]


def test_a_chain_without_state_fires_nothing_and_has_nothing_to_write() -> None:
    attempt = Harness(STATELESS)

    effects = attempt.feed(AdvanceWatermark(stage=0, watermark_ms=9), snapshot(1, checkpoint_id=4))

    fired, finished = told(effects)
    assert fired == StageFinished(stage=0)
    assert isinstance(finished, StageFinished)
    assert finished.snapshot is not None
    assert (finished.snapshot.checkpoint_id, finished.snapshot.awaits_commit) == (4, False)
    assert attempt.work == []


def test_no_stage_is_answered_behind_one_that_has_failed() -> None:
    attempt = Harness(STATELESS)
    attempt.feed(run(0), run(1))

    failed = attempt.refuse(Process)
    late = attempt.answer(Process, RowsMoved())
    refused = attempt.feed(run(2))

    assert told(failed) == [StageFailed(cause=BOOM)]
    assert told(late) + told(refused) == []


# Snapshots


def test_what_fires_with_a_checkpoint_goes_down_before_the_barrier() -> None:
    attempt = Harness(WINDOWS, outputs=1, firing_mode=FiringMode.ON_CHECKPOINT)

    fires = begun(attempt.feed(snapshot(0, checkpoint_id=1)))
    notes = begun(attempt.answer(AdvanceTo, RowsMoved(rows_out=3)))
    finished = attempt.answer(NoteState)

    assert fires == [AdvanceTo(stage=0, watermark_ms=500)]
    assert notes == [NoteState(stage=0, checkpoint_id=1, watermark_ms=None, is_savepoint=False)]
    assert told(finished) == [StageFinished(stage=0, rows_out=3)]


def test_where_nothing_leaves_the_chain_what_fires_is_computed_in_the_background() -> None:
    attempt = Harness(WINDOWS, firing_mode=FiringMode.ON_CHECKPOINT)

    attempt.feed(snapshot(0, checkpoint_id=1))

    assert attempt.work == [NoteState(stage=0, checkpoint_id=1, watermark_ms=500, is_savepoint=False)]


def test_a_checkpoint_has_what_was_staged_before_its_barrier_and_nothing_behind() -> None:
    attempt = Harness(SINKS)
    attempt.feed(run(0), snapshot(1, checkpoint_id=1), run(2))
    before, behind = attempt.at_work[0], None
    attempt.feed(WorkDone(work=before.key, answer=RowsMoved(staged=staged("a"))))
    behind = next(begin for begin in attempt.at_work if begin.work == Process(command=run(2)))
    attempt.feed(WorkDone(work=behind.key, answer=RowsMoved(staged=staged("b"))))

    first = attempt.answer(PrepareCommit, CommitPrepared())
    attempt.feed(snapshot(3, checkpoint_id=2))
    attempt.answer(WriteSnapshot, SnapshotWritten())

    assert begun(first) == [WriteSnapshot(checkpoint_id=1, savepoint=None, sinks=())]
    assert attempt.work[-1] == PrepareCommit(checkpoint_id=2, staged=staged("b"))


def test_a_snapshot_is_told_when_it_is_durable() -> None:
    attempt = Harness(SINKS)
    attempt.feed(snapshot(0, checkpoint_id=1))
    attempt.now += 30
    attempt.answer(PrepareCommit, CommitPrepared(rows_out=7))

    durable = attempt.answer(WriteSnapshot, SnapshotWritten(incremental_bytes=5))

    (message,) = told(durable)
    assert isinstance(message, StateSnapshotted)
    assert (message.checkpoint_id, message.rows_out, message.incremental_bytes, message.async_ms) == (1, 7, 5, 30)


@pytest.mark.parametrize(("chain", "then"), [(BOTH, [DiscardSnapshot(checkpoint_id=1)]), (SINKS, [])])
def test_an_aborted_snapshot_is_prepared_and_not_written(chain: ChainOpened, then: list[Work]) -> None:
    attempt = Harness(chain)
    attempt.feed(snapshot(0, checkpoint_id=1))
    if chain.has_state:
        attempt.answer(NoteState)

    attempt.feed(AbortCheckpoint(checkpoint_id=1))
    prepared = attempt.answer(PrepareCommit, CommitPrepared())

    assert begun(prepared) == then


def test_a_snapshot_that_cannot_be_written_is_declined_and_the_next_one_is_taken() -> None:
    attempt = Harness(SINKS)
    attempt.feed(snapshot(0, checkpoint_id=1), snapshot(1, checkpoint_id=2))
    attempt.answer(PrepareCommit, CommitPrepared())

    declined = attempt.refuse(WriteSnapshot, ends_attempt=False)

    assert told(declined) == [SnapshotFailed(checkpoint_id=1, cause=BOOM)]
    assert attempt.work == [PrepareCommit(checkpoint_id=2, staged=())]


def test_an_attempt_whose_state_is_lost_fails_of_its_snapshot() -> None:
    attempt = Harness(SINKS)
    attempt.feed(snapshot(0, checkpoint_id=1))
    attempt.answer(PrepareCommit, CommitPrepared())

    failed = attempt.refuse(WriteSnapshot, ends_attempt=True)

    assert told(failed) == [StageFailed(cause=BOOM)]


def test_what_could_not_be_prepared_fails_the_attempt_for_it_has_left_the_state() -> None:
    attempt = Harness(SINKS)
    attempt.feed(snapshot(0, checkpoint_id=1))

    failed = attempt.refuse(PrepareCommit, ends_attempt=True)

    assert told(failed) == [StageFailed(cause=BOOM)]


def test_a_commit_waits_for_the_snapshots_before_it() -> None:
    attempt = Harness(SINKS)
    attempt.feed(snapshot(0, checkpoint_id=2), CommitCheckpoint(checkpoint_id=1))
    waiting = attempt.work
    attempt.answer(PrepareCommit, CommitPrepared())
    attempt.answer(WriteSnapshot, SnapshotWritten())

    committed = attempt.answer(Commit, OutputCommitted(files=("a",)))

    assert waiting == [PrepareCommit(checkpoint_id=2, staged=())]
    assert told(committed) == [CheckpointCommitted(checkpoint_id=1, files=("a",))]


# Batches in flight


def in_flight(checkpoint_id: int) -> WriteChannelState:
    inputs = (InputInFlight(gate=0, batch=batch("a")), InputInFlight(gate=0, batch=batch("b")))
    return WriteChannelState(checkpoint_id=checkpoint_id, inputs=inputs, outputs=())


def test_batches_in_flight_are_held_until_they_are_written() -> None:
    attempt = Harness(STATELESS)
    attempt.feed(HoldInFlight(checkpoint_id=1, batch_ids=(BatchId("a"), BatchId("b"))), in_flight(1))
    held, writing = attempt.work
    folder = ExclusiveStateHandle(path="/checkpoints/part", size_bytes=8)

    written = attempt.answer(WriteInFlight, InFlightWritten(folders=(folder,)))

    (message,) = told(written)
    assert isinstance(writing, WriteInFlight)
    assert [[each.batch_id for each in part.batches] for part in writing.parts] == [["a", "b"]]
    assert written[0] == ReleaseHeldBy(holder=f"{ATTEMPT} checkpoint 1")
    assert isinstance(message, ChannelStateWritten)
    assert [part.in_flight.rows for part in message.state.input_channels] == [2]
    assert getattr(held, "holder", None) == f"{ATTEMPT} checkpoint 1"


def test_a_batch_that_is_gone_before_it_is_held_declines_its_checkpoint() -> None:
    attempt = Harness(STATELESS)
    attempt.feed(HoldInFlight(checkpoint_id=1, batch_ids=(BatchId("a"),)))

    declined = attempt.refuse(type(attempt.work[0]), ends_attempt=False)

    assert told(declined) == [SnapshotFailed(checkpoint_id=1, cause=BOOM)]


@pytest.mark.parametrize("how", ["aborted", "failed"])
def test_what_is_held_is_let_go_of_when_the_checkpoint_is_given_up(how: str) -> None:
    attempt = Harness(STATELESS)
    attempt.feed(in_flight(1))

    if how == "aborted":
        effects = attempt.feed(AbortCheckpoint(checkpoint_id=1))
    else:
        effects = attempt.refuse(WriteInFlight, ends_attempt=False)

    assert ReleaseHeldBy(holder=f"{ATTEMPT} checkpoint 1") in effects


# The end


def test_an_attempt_that_finishes_does_first_what_it_has_begun() -> None:
    attempt = Harness(SINKS)
    attempt.feed(run(0), CommitCheckpoint(checkpoint_id=1))

    attempt.feed(CloseBridge(cancel=False))
    attempt.answer(Process, RowsMoved())
    before = attempt.work
    attempt.answer(Commit, OutputCommitted())
    closed = attempt.answer(CloseChain, ChainClosed())

    assert before == [Commit(checkpoint_id=1)]
    assert told(closed) == [BridgeClosed()]


def test_an_attempt_that_is_cancelled_waits_for_nothing_but_its_end() -> None:
    attempt = Harness(SINKS)
    attempt.feed(run(0), CommitCheckpoint(checkpoint_id=1))

    cancelled = attempt.feed(CloseBridge(cancel=True))
    late = attempt.answer(Process, RowsMoved())
    closed = attempt.answer(CloseChain, ChainClosed())

    assert cancelled[0] == CancelWork()
    assert begun(cancelled) == [CloseChain(cancel=True)]
    assert told(late) == []
    assert told(closed) == [BridgeClosed()]


def test_a_cancellation_behind_the_end_cancels_what_is_closing() -> None:
    attempt = Harness(STATELESS)
    attempt.feed(CloseBridge(cancel=False))

    again = attempt.feed(CloseBridge(cancel=True), CloseBridge(cancel=True, interrupt=True))

    assert again == [CancelWork(), CancelWork(), InterruptWork()]
    assert attempt.work == [CloseChain(cancel=False)]


def test_an_engine_that_cannot_go_on_fails_the_attempt_once() -> None:
    attempt = Harness(STATELESS)

    effects = attempt.feed(EngineFailed(cause=BOOM), EngineFailed(cause=BOOM))

    assert told(effects) == [StageFailed(cause=BOOM)]


def test_functions_that_fail_when_they_are_closed_fail_the_attempt_before_its_end_is_told() -> None:
    attempt = Harness(STATELESS)
    attempt.feed(CloseBridge(cancel=False))

    closed = attempt.answer(CloseChain, ChainClosed(failure=BOOM))

    assert told(closed) == [StageFailed(cause=BOOM), BridgeClosed()]


def test_batches_are_let_go_of_whatever_has_become_of_the_attempt() -> None:
    attempt = Harness(STATELESS)
    attempt.feed(EngineFailed(cause=BOOM))

    effects = attempt.feed(ReleaseBatches(batch_ids=(BatchId("a"),)))

    assert effects == [Release(batch_ids=(BatchId("a"),), holder="in transit")]


def test_the_bridge_is_open_when_the_chain_is() -> None:
    attempt = Harness(None)

    attempt.feed(OpenBridge(restore=None, restored_checkpoint_id=None))
    opened = attempt.answer(Open, STATELESS)

    assert told(opened) == [BridgeOpened()]


# Any order of answers


def answer_for(work: Work) -> Value | None:
    match work:
        case Process(command=command):
            return RowsMoved(updates_state=command.stage % 2 == 0, staged=staged(f"of {command.stage}"))
        case AdvanceTo():
            return RowsMoved()
        case PrepareCommit():
            return CommitPrepared()
        case WriteSnapshot():
            return SnapshotWritten()
        case Commit():
            return OutputCommitted()
        case CloseChain():
            return ChainClosed()
        case _:
            return None


@given(
    kinds=st.lists(st.sampled_from(["run", "watermark", "snapshot", "commit", "abort"]), max_size=12),
    order=st.randoms(use_true_random=False),
)
def test_whatever_is_done_first_stages_are_answered_in_order_and_nothing_staged_is_lost(
    kinds: list[str], order: Any
) -> None:
    attempt, answers, prepared = Harness(BOTH), list[Message](), list[str]()

    def do_some(left: int) -> None:
        while len(attempt.at_work) > left:
            begin = attempt.at_work.pop(order.randrange(len(attempt.at_work)))
            if isinstance(begin.work, PrepareCommit):
                prepared.extend(name for each in begin.work.staged for name in each.names)
            answers.extend(told(attempt.feed(WorkDone(work=begin.key, answer=answer_for(begin.work)))))

    for stage, kind in enumerate([*kinds, "snapshot"]):
        commands: dict[str, AttemptEvent] = {
            "run": run(stage),
            "watermark": AdvanceWatermark(stage=stage, watermark_ms=stage),
            "snapshot": snapshot(stage, checkpoint_id=stage),
            "commit": CommitCheckpoint(checkpoint_id=stage),
            "abort": AbortCheckpoint(checkpoint_id=stage - 1),
        }
        answers += told(attempt.feed(commands[kind]))
        do_some(order.randrange(3))
    answers += told(attempt.feed(CloseBridge(cancel=False)))
    do_some(0)

    finished = [each.stage for each in answers if isinstance(each, StageFinished)]
    assert finished == sorted(finished)
    assert len(finished) == len([kind for kind in [*kinds, "snapshot"] if kind in ("run", "watermark", "snapshot")])
    assert prepared == [f"of {stage}" for stage, kind in enumerate(kinds) if kind == "run"]
    assert answers[-1] == BridgeClosed()
