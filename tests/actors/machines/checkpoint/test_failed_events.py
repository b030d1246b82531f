"""If an event makes the coordinator raise, only the checkpoint of that event fails, and the job continues."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flykka.actors.machines.checkpoint import events
from flykka.actors.machines.checkpoint.events import CoordinatorEffect
from flykka.actors.machines.checkpoint.properties import for_savepoint
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint, CheckpointDeclineReason
from flykka.messages.control.checkpoint_coordination import (
    CheckpointFailuresExceeded,
    Disposed,
    FinalCheckpointRequest,
    SavepointFailed,
    StartCheckpointScheduler,
)
from flykka.messages.control.job import CheckpointAborted
from flykka.messages.state.handles import OperatorSubtaskState, TaskStateSnapshot
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import OperatorId
from tests.actors.machines.checkpoint.coordinating import (
    JOB,
    Coordination,
    acknowledgement,
    complete_checkpoint,
    snapshot,
    two_tasks,
)


def invalid(checkpoint_id: int) -> AcknowledgeCheckpoint:
    handles = (None,)
    state = OperatorSubtaskState(operator_id=OperatorId("operator"), shared=handles)  # type: ignore[arg-type]
    return acknowledgement("sink", checkpoint_id, TaskStateSnapshot(operators=(state,)))


def acknowledge_wrongly(harness: Coordination) -> None:
    harness.trigger()
    harness.acknowledge("source", max(harness.machine.pending), snapshot(exclusive=["s"]))
    harness.handle(invalid(max(harness.machine.pending)))


def trigger_with_a_used_id(harness: Coordination) -> None:
    next_id, harness.ids.next = harness.ids.next, 1
    harness.trigger()
    harness.ids.next = next_id


def failures(harness: Coordination) -> list[str]:
    return [str(aborted.failure) for aborted in harness.effects(CheckpointAborted)]


def test_an_invalid_acknowledgement_fails_only_its_checkpoint() -> None:
    harness = two_tasks()
    harness.trigger()
    harness.acknowledge("source", 1, snapshot(exclusive=["s"]))
    harness.trigger()

    harness.handle(invalid(1))

    assert failures(harness) == ["EXCEPTION at sink: AttributeError: 'NoneType' object has no attribute 'state_id'"]
    assert (list(harness.machine.pending), harness.disposed()) == ([2], ["s"])
    assert list(harness.timers) == ["timeout-2"]


@pytest.mark.parametrize("fault", [acknowledge_wrongly, trigger_with_a_used_id])
def test_three_events_that_raise_do_not_fail_the_job(fault: Callable[[Coordination], None]) -> None:
    harness = two_tasks(tolerable_failures=0)
    complete_checkpoint(harness, 1)

    for _ in range(3):
        fault(harness)
    complete_checkpoint(harness, harness.ids.next)

    assert len(harness.effects(events.EventFailed)) >= 3
    assert harness.effects(CheckpointFailuresExceeded) == []
    assert (harness.machine.pending, harness.timers) == ({}, {})
    assert harness.completed() == [harness.ids.next - 1]


def test_the_requester_of_a_checkpoint_whose_trigger_raises_gets_a_reply() -> None:
    harness = two_tasks()
    complete_checkpoint(harness, 1)
    harness.ids.next = 1

    harness.handle(events.TriggerRequested(properties=for_savepoint("there"), request_id="wish"))

    (failed,) = harness.effects(SavepointFailed)
    assert (failed.request_id, failed.reason) == ("wish", CheckpointDeclineReason.TRIGGER_CHECKPOINT_FAILURE)
    assert failed.cause is not None
    assert "the checkpoint id 1 is not above 1" in failed.cause.message


def test_the_scheduler_continues_after_a_trigger_that_raises() -> None:
    harness = two_tasks(interval_ms=100, max_concurrent=1)
    complete_checkpoint(harness, 1)
    harness.handle(StartCheckpointScheduler(job_id=JOB))
    harness.ids.next = 1

    harness.advance(100)
    harness.ids.next = 2
    harness.advance(100)

    assert len(harness.effects(events.EventFailed)) == 1
    assert list(harness.machine.pending) == [2]


def test_the_final_checkpoint_is_retried_if_its_trigger_raises() -> None:
    harness = two_tasks()
    complete_checkpoint(harness, 1)
    harness.ids.next = 1
    harness.handle(FinalCheckpointRequest(job_id=JOB))

    harness.ids.next = 2
    harness.advance(1_000)

    assert harness.machine.pending[2].properties.is_final


def test_repeating_an_event_that_raised_has_the_same_result() -> None:
    def run() -> list[CoordinatorEffect]:
        harness = two_tasks(tolerable_failures=9)
        complete_checkpoint(harness, 1)
        acknowledge_wrongly(harness)
        trigger_with_a_used_id(harness)
        return [effect for effect in harness.log if not isinstance(effect, events.EventFailed)]

    assert run() == run()


def test_a_failing_effect_fails_only_its_checkpoint() -> None:
    harness = two_tasks()
    harness.trigger()
    harness.trigger()

    cause = SerializedThrowable(type_name="KeyError", message="'sink'")
    harness.handle(events.EffectFailed(checkpoint_id=1, cause=cause))

    assert failures(harness) == ["TRIGGER_CHECKPOINT_FAILURE: KeyError: 'sink'"]
    assert list(harness.machine.pending) == [2]


def test_an_event_without_a_checkpoint_still_raises() -> None:
    harness = two_tasks()

    with pytest.raises(AssertionError, match="no deletion is running"):
        harness.machine.handle(Disposed(), harness.now)
