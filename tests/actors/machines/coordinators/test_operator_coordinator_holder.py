"""Calls of a coordinator are ordered, and a checkpoint is a consistent cut of the coordinator and its subtasks."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.machines.coordinators.operator_coordinator_holder import (
    AttemptReady,
    AttemptTerminated,
    CoordinatorReset,
    CoordinatorSnapshotted,
    FailJob,
)
from flykka.actors.machines.effects import Ignore, Role, Tell
from flykka.actors.machines.sources.source_events import SubtaskReset
from flykka.messages.checkpointing.checkpoint import (
    OperatorCoordinatorState,
    OperatorEventInFlight,
)
from flykka.messages.tasks.accumulator import AccumulatorSnapshot, AccumulatorType
from flykka.messages.tasks.operator_event import (
    CheckpointComplete,
    CheckpointOperatorCoordinator,
    CheckpointWasAborted,
    CoordinatorAnswer,
    HandleEventFromOperator,
    OperatorCoordinatorAnswered,
    OperatorCoordinatorMetricsReported,
    OperatorCoordinatorWoken,
    ResetSubtask,
    ResetToCheckpoint,
    RunActions,
    StartCoordinator,
    SubtaskFailed,
    SubtaskReady,
)
from tests.actors.machines.coordinators.coordinating import (
    CAUSE,
    JOB,
    OPERATOR,
    VERTEX,
    Harness,
    acknowledged,
    attempt,
    checkpoint_aborted,
    checkpoint_completed,
    events_sent,
    handled,
    snapshot,
)


def test_a_coordinator_start_and_its_notifications_are_batched() -> None:
    harness = Harness()

    assert harness.calls == (StartCoordinator(),)
    harness.tell(
        AttemptReady(attempt=attempt(0)), events_sent(b"a"), AttemptReady(attempt=attempt(1)), events_sent(b"b", 1)
    )
    harness.answer()

    assert harness.calls == (
        SubtaskReady(subtask=0, attempt_number=0),
        handled(b"a"),
        SubtaskReady(subtask=1, attempt_number=0),
        handled(b"b", 1),
    )


def test_events_of_a_coordinator_reach_their_target_attempts() -> None:
    harness = Harness().run()
    harness.tell(events_sent(b"a"))

    harness.answer((0, b"x"), (1, b"y"), (0, b"z"))

    assert harness.received == [(attempt(0), (b"x", b"z")), (attempt(1), (b"y",))]


def test_events_for_an_ended_attempt_are_dropped() -> None:
    harness = Harness().run()
    harness.tell(events_sent(b"a"), AttemptTerminated(attempt=attempt(0), is_failed=True, reason=CAUSE))

    harness.answer((0, b"x"))

    assert harness.received == []
    assert harness.calls == (SubtaskFailed(subtask=0, attempt_number=0, reason=CAUSE),)
    assert harness.tell(events_sent(b"late")) == [Ignore(reason=f"{attempt(0)} does not run")]


def test_a_subtask_restarted_alone_is_reported_failed_reset_and_ready() -> None:
    harness = Harness().run()

    harness.tell(
        events_sent(b"a"),
        AttemptTerminated(attempt=attempt(1), is_failed=True),
        SubtaskReset(vertex_id=VERTEX, subtask=1, checkpoint_id=4),
        AttemptReady(attempt=attempt(1, 1)),
    )
    harness.answer()

    assert harness.calls == (
        SubtaskFailed(subtask=1, attempt_number=0),
        ResetSubtask(subtask=1, checkpoint_id=4),
        SubtaskReady(subtask=1, attempt_number=1),
    )


def test_a_finished_subtask_is_not_reported_as_failed() -> None:
    harness = Harness().run()

    harness.tell(AttemptTerminated(attempt=attempt(0), is_failed=False))

    assert harness.at_work is None


def test_a_checkpoint_ends_a_batch_of_coordinator_calls() -> None:
    harness = Harness().run()
    harness.tell(events_sent(b"a"), events_sent(b"b"), snapshot(1), events_sent(b"c"))

    harness.answer()

    assert harness.calls == (handled(b"b"), CheckpointOperatorCoordinator(checkpoint_id=1))
    assert harness.answer() == [CoordinatorSnapshotted(operator_id=OPERATOR, checkpoint_id=1, state=b"state")]
    assert harness.calls == (handled(b"c"),)


def test_events_after_the_coordinator_state_wait_for_each_subtasks_barrier() -> None:
    harness = Harness().run()
    harness.tell(snapshot(1), events_sent(b"a"))
    harness.answer((0, b"before"))

    harness.answer((0, b"behind"), (1, b"behind"))

    assert harness.received == [(attempt(0), (b"before",))]
    harness.tell(acknowledged(1, 1))
    assert harness.received[1:] == [(attempt(1), (b"behind",))]
    harness.tell(acknowledged(1, 0))
    assert harness.received[2:] == [(attempt(0), (b"behind",))]


def test_held_back_events_are_sent_when_the_checkpoint_is_aborted() -> None:
    harness = Harness().run()
    harness.tell(snapshot(1), events_sent(b"a"))
    harness.answer()
    harness.answer((0, b"x"))

    harness.tell(checkpoint_aborted(1))

    assert harness.received == [(attempt(0), (b"x",))]
    assert harness.calls == (CheckpointWasAborted(checkpoint_id=1),)


def test_a_coordinator_is_notified_of_complete_checkpoints() -> None:
    harness = Harness().run()

    harness.tell(checkpoint_completed(1), checkpoint_completed(2, is_retained=False))

    assert harness.calls == (CheckpointComplete(checkpoint_id=1),)
    harness.answer()
    assert harness.at_work is None, "nothing is to be committed for a savepoint"


def test_events_before_the_barrier_but_received_after_the_state_are_in_flight() -> None:
    harness = Harness().run()
    harness.tell(events_sent(b"in the state"), snapshot(1))
    harness.answer()
    harness.tell(events_sent(b"in flight"), events_sent(b"of another", 1), events_sent(b"behind the barrier", behind=1))

    in_flight = OperatorEventInFlight(operator_id=OPERATOR, subtask=0, attempt_number=0, event=b"in flight")
    assert harness.holder.in_flight(attempt(0), 1) == (in_flight,)
    harness.tell(checkpoint_completed(1))
    assert harness.holder.in_flight(attempt(0), 1) == ()


def test_a_checkpoint_waits_while_an_earlier_one_holds_back_events() -> None:
    harness = Harness().run()
    harness.tell(snapshot(1), snapshot(2))
    harness.answer()

    assert harness.at_work is None
    harness.tell(acknowledged(1, 0), acknowledged(1, 1))
    assert harness.calls == (CheckpointOperatorCoordinator(checkpoint_id=2),)


def test_a_checkpoint_aborted_before_its_request_is_not_taken() -> None:
    harness = Harness().run()
    harness.tell(events_sent(b"a"), snapshot(1), checkpoint_aborted(1))

    harness.answer()

    assert harness.calls == (CheckpointWasAborted(checkpoint_id=1),)


def test_the_state_of_an_aborted_checkpoint_is_released() -> None:
    harness = Harness().run()
    harness.tell(snapshot(1), checkpoint_aborted(1))

    assert harness.answer((0, b"x")) == []
    assert harness.received == [(attempt(0), (b"x",))]


STATE = OperatorCoordinatorState(
    operator_id=OPERATOR,
    data=b"state",
    events=(OperatorEventInFlight(operator_id=OPERATOR, subtask=1, attempt_number=2, event=b"in flight"),),
)


def test_a_job_starts_with_the_checkpoints_coordinator_state_and_events() -> None:
    harness = Harness(CoordinatorReset(checkpoint_id=3, state=STATE))

    assert harness.calls == (
        ResetToCheckpoint(checkpoint_id=3, state=b"state"),
        StartCoordinator(),
        handled(b"in flight", 1, 2),
    )


def test_a_reset_discards_pending_calls_and_events() -> None:
    harness = Harness().run()
    harness.tell(
        events_sent(b"at work"),
        events_sent(b"waits"),
        snapshot(1),
        AttemptTerminated(attempt=attempt(0), is_failed=True),
    )
    harness.tell(AttemptTerminated(attempt=attempt(1), is_failed=True), CoordinatorReset(checkpoint_id=3, state=STATE))
    harness.tell(AttemptReady(attempt=attempt(0, 1)))

    ignored = harness.answer((0, b"x"), (0, b"y"), number=1)

    assert ignored == [Ignore(reason="call 3 was made before the coordinator was reset")]
    assert harness.received == []
    assert harness.calls == (
        SubtaskFailed(subtask=0, attempt_number=0),
        SubtaskFailed(subtask=1, attempt_number=0),
        ResetToCheckpoint(checkpoint_id=3, state=b"state"),
        handled(b"in flight", 1, 2),
        SubtaskReady(subtask=0, attempt_number=1),
    )


def test_a_failure_from_before_a_reset_does_not_fail_the_job() -> None:
    harness = Harness().run()
    harness.tell(events_sent(b"a"))

    assert harness.fail(CAUSE) == [FailJob(cause=CAUSE)]
    harness.tell(events_sent(b"b"), CoordinatorReset(checkpoint_id=None, state=None))
    assert harness.fail(CAUSE) == []
    assert harness.calls == (ResetToCheckpoint(checkpoint_id=None, state=None),)


def test_a_coordinator_may_fail_the_job_and_reports_changed_metrics() -> None:
    harness = Harness().run()
    metrics = (AccumulatorSnapshot(name="given", type=AccumulatorType.LONG_COUNTER, count=1),)
    answer = CoordinatorAnswer(failure=CAUSE, metrics=metrics)
    harness.tell(events_sent(b"a"))
    assert harness.at_work is not None

    effects = harness.tell(OperatorCoordinatorAnswered(operator_id=OPERATOR, call=harness.at_work.call, answer=answer))

    report = OperatorCoordinatorMetricsReported(job_id=JOB, vertex_id=VERTEX, operator_id=OPERATOR, metrics=metrics)
    assert effects == [Tell(to=Role.JOB_LISTENERS, message=report), FailJob(cause=CAUSE)]


def test_repeated_wake_ups_run_pending_actions_once() -> None:
    harness = Harness().run()
    woken = OperatorCoordinatorWoken(operator_id=OPERATOR)

    harness.tell(woken, woken, woken)
    harness.answer()

    assert harness.calls == (RunActions(),)
    harness.answer()
    assert harness.at_work is None


@given(
    st.lists(st.sampled_from(["event", "answer", "snapshot", "ack", "abort", "reset", "fail", "ready"]), max_size=60)
)
def test_under_any_events_calls_complete_and_no_event_is_duplicated(steps: Sequence[str]) -> None:
    harness, checkpoint, numbers, events = Harness().run(), 0, [0, 0], 0
    called: list[bytes] = []
    for step in steps:
        subtask = events % 2
        match step:
            case "event":
                events += 1
                harness.tell(events_sent(b"%d" % events, subtask, number=numbers[subtask]))
            case "answer" if harness.at_work is not None:
                called += [call.event for call in harness.calls if isinstance(call, HandleEventFromOperator)]
                harness.answer((0, b"x"), (1, b"y"))
            case "snapshot":
                checkpoint += 1
                harness.tell(snapshot(checkpoint))
            case "ack":
                harness.tell(acknowledged(checkpoint, subtask))
            case "abort":
                harness.tell(checkpoint_aborted(checkpoint))
            case "reset":
                harness.tell(CoordinatorReset(checkpoint_id=None, state=None))
            case "fail":
                harness.tell(AttemptTerminated(attempt=attempt(subtask, numbers[subtask]), is_failed=True))
            case "ready":
                numbers[subtask] += 1
                harness.tell(AttemptReady(attempt=attempt(subtask, numbers[subtask])))
    assert len(called) == len(set(called))
    harness.tell(checkpoint_aborted(checkpoint))
    for _ in range(200):
        if harness.at_work is None:
            return
        harness.answer()
    raise AssertionError("the coordinator is called without end")
