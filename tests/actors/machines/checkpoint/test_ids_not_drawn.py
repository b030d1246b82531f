"""If drawing a checkpoint id fails, the requests for a checkpoint are refused with the cause, and the job continues."""

from __future__ import annotations

from flykka.actors.machines.checkpoint import events
from flykka.actors.machines.checkpoint.properties import for_savepoint
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from flykka.messages.control.checkpoint_coordination import (
    CheckpointFailuresExceeded,
    FinalCheckpointRequest,
    SavepointFailed,
    StartCheckpointScheduler,
    StopCheckpointFailed,
    StopCheckpointRequest,
)
from flykka.messages.wire.failure import SerializedThrowable
from tests.actors.machines.checkpoint.coordinating import JOB, Coordination, planned_task


def without_ids(interval_ms: int = 100) -> Coordination:
    harness = Coordination(planned_task("a"), max_concurrent=1, interval_ms=interval_ms)
    harness.counter_fails = True
    return harness


REASON = CheckpointDeclineReason.TRIGGER_CHECKPOINT_FAILURE


def cause(times: str = "") -> SerializedThrowable:
    message = f"its id could not be drawn{times}: the store cannot be reached"
    return SerializedThrowable(type_name="StoreUnavailableError", message=message)


def want_savepoint(harness: Coordination, request_id: str) -> None:
    harness.handle(events.TriggerRequested(properties=for_savepoint(f"at {request_id}"), request_id=request_id))


def test_a_savepoint_request_is_refused_with_the_cause_and_failure_count() -> None:
    harness = without_ids()

    want_savepoint(harness, "first")
    want_savepoint(harness, "second")

    assert harness.effects(SavepointFailed) == [
        SavepointFailed(job_id=JOB, request_id="first", reason=REASON, cause=cause()),
        SavepointFailed(job_id=JOB, request_id="second", reason=REASON, cause=cause(", 2 times in a row")),
    ]


def test_a_drawn_id_resets_the_failure_count() -> None:
    harness = without_ids()
    want_savepoint(harness, "first")
    harness.counter_fails = False
    harness.trigger()
    harness.acknowledge("a", 1)
    harness.counter_fails = True

    want_savepoint(harness, "second")

    assert [each.cause for each in harness.effects(SavepointFailed)] == [cause()] * 2


def test_the_scheduler_retries_at_its_next_tick_without_failing_the_job() -> None:
    harness = without_ids()
    harness.handle(StartCheckpointScheduler(job_id=JOB))

    harness.advance(350)
    failed = harness.effects(events.TriggerDeclined)
    harness.counter_fails = False
    harness.advance(100)

    assert [declined.cause for declined in failed][-1] == cause(", 3 times in a row")
    assert list(harness.machine.pending) == [1]
    assert harness.effects(CheckpointFailuresExceeded) == []


def test_a_stop_without_a_checkpoint_id_is_refused_and_the_job_continues() -> None:
    harness = without_ids()

    harness.handle(StopCheckpointRequest(job_id=JOB, request_id="stop"))
    harness.counter_fails = False
    harness.advance(10_000)

    assert harness.effects(StopCheckpointFailed) == [
        StopCheckpointFailed(job_id=JOB, checkpoint_id=None, reason=REASON, cause=cause(), request_id="stop")
    ]
    assert not harness.machine.pending


def test_the_final_checkpoint_is_retried_later_if_drawing_an_id_fails() -> None:
    harness = without_ids()

    harness.handle(FinalCheckpointRequest(job_id=JOB))
    timers = list(harness.timers)
    harness.counter_fails = False
    harness.advance(1_000)

    assert timers == ["final-retry"]
    assert [pending.properties.is_final for pending in harness.machine.pending.values()] == [True]
