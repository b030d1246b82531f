"""The machine of an attempt: which work its engine is given, in which order, and what the Task is told of it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.machines.bridge.attempt import AttemptEvent
from flykka.actors.machines.bridge.effects import (
    AdvanceTo,
    CancelWork,
    CloseChain,
    Commit,
    FireTimers,
    InterruptWork,
    Open,
    PrepareCommit,
    Process,
    Release,
    TellTask,
    UpdateState,
    Work,
    WriteSnapshot,
)
from flykka.messages.tasks.bridge import (
    ChainClosed,
    CommitPrepared,
    EngineFailed,
    OutputCommitted,
    RowsMoved,
    SnapshotWritten,
    WorkDone,
)
from flykka.messages.tasks.stage import (
    AbortCheckpoint,
    AdvanceProcessingTime,
    AdvanceWatermark,
    BridgeClosed,
    BridgeOpened,
    CloseBridge,
    CommitCheckpoint,
    OpenBridge,
    ReleaseBatches,
    StageFailed,
    StageFinished,
)
from flykka.messages.wire.ids import BatchId
from flykka.messages.wire.message import Message, Value
from tests.actors.machines.bridge.attempt_machine import (
    BOOM,
    BOTH,
    SINKS,
    STATELESS,
    WINDOWS,
    Harness,
    begun,
    run,
    snapshot,
    staged,
    told,
)
from tests.actors.machines.task.task_machine import ATTEMPT

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


def test_timers_are_fired_between_the_stages_before_and_behind_them() -> None:
    attempt = Harness(WINDOWS)
    attempt.feed(run(0), AdvanceProcessingTime(stage=1, processing_time_ms=70, watermark_ms=9), run(2))
    early = attempt.work

    (before,) = told(attempt.answer(Process, RowsMoved(next_timer_ms=60)))
    fired = attempt.answer(FireTimers, RowsMoved(next_timer_ms=90))

    assert not any(isinstance(work, FireTimers) for work in early)
    assert before == StageFinished(stage=0, next_timer_ms=60)
    assert told(fired) == [StageFinished(stage=1, next_timer_ms=90)]


def test_a_chain_without_state_has_nothing_to_write() -> None:
    attempt = Harness(STATELESS)

    (finished,) = told(attempt.feed(snapshot(1, checkpoint_id=4)))

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
        case AdvanceTo() | FireTimers():
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
    kinds=st.lists(st.sampled_from(["run", "watermark", "time", "snapshot", "commit", "abort"]), max_size=12),
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
            "time": AdvanceProcessingTime(stage=stage, processing_time_ms=stage, watermark_ms=stage),
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
    assert len(finished) == len([kind for kind in [*kinds, "snapshot"] if kind not in ("commit", "abort")])
    assert prepared == [f"of {stage}" for stage, kind in enumerate(kinds) if kind == "run"]
    assert answers[-1] == BridgeClosed()
