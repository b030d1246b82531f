"""If an event makes the coordinator raise, only the checkpoint of the event fails, and the job continues."""

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
    """An acknowledgement with an invalid handle."""
    handles = (None,)
    state = OperatorSubtaskState(operator_id=OperatorId("operator"), shared=handles)  # type: ignore[arg-type]
    return acknowledgement("sink", checkpoint_id, TaskStateSnapshot(operators=(state,)))


def acknowledge_wrongly(world: Coordination) -> None:
    world.trigger()
    world.acknowledge("source", max(world.machine.pending), snapshot(exclusive=["s"]))
    world.handle(invalid(max(world.machine.pending)))


def trigger_with_a_used_id(world: Coordination) -> None:
    next_id, world.ids.next = world.ids.next, 1
    world.trigger()
    world.ids.next = next_id


def failures(world: Coordination) -> list[str]:
    return [str(aborted.failure) for aborted in world.effects(CheckpointAborted)]


def test_an_invalid_acknowledgement_costs_its_checkpoint_only() -> None:
    world = two_tasks()
    world.trigger()
    world.acknowledge("source", 1, snapshot(exclusive=["s"]))
    world.trigger()

    world.handle(invalid(1))

    assert failures(world) == ["EXCEPTION at sink: AttributeError: 'NoneType' object has no attribute 'state_id'"]
    assert (list(world.machine.pending), world.disposed()) == ([2], ["s"])
    assert list(world.timers) == ["timeout-2"]


@pytest.mark.parametrize("fault", [acknowledge_wrongly, trigger_with_a_used_id])
def test_three_events_that_raise_do_not_fail_the_job(fault: Callable[[Coordination], None]) -> None:
    world = two_tasks(tolerable_failures=0)
    complete_checkpoint(world, 1)

    for _ in range(3):
        fault(world)
    complete_checkpoint(world, world.ids.next)

    assert len(world.effects(events.EventFailed)) >= 3
    assert world.effects(CheckpointFailuresExceeded) == []
    assert (world.machine.pending, world.timers) == ({}, {})
    assert world.completed() == [world.ids.next - 1]


def test_the_requester_of_a_checkpoint_whose_trigger_raises_gets_an_answer() -> None:
    world = two_tasks()
    complete_checkpoint(world, 1)
    world.ids.next = 1

    world.handle(events.TriggerRequested(properties=for_savepoint("there"), request_id="wish"))

    (failed,) = world.effects(SavepointFailed)
    assert (failed.request_id, failed.reason) == ("wish", CheckpointDeclineReason.TRIGGER_CHECKPOINT_FAILURE)
    assert failed.cause is not None
    assert "1 comes after 1" in failed.cause.message


def test_the_scheduler_continues_after_a_trigger_that_raises() -> None:
    world = two_tasks(interval_ms=100, max_concurrent=1)
    complete_checkpoint(world, 1)
    world.handle(StartCheckpointScheduler(job_id=JOB))
    world.ids.next = 1

    world.advance(100)
    world.ids.next = 2
    world.advance(100)

    assert len(world.effects(events.EventFailed)) == 1
    assert list(world.machine.pending) == [2]


def test_the_final_checkpoint_is_tried_again_after_a_trigger_that_raises() -> None:
    world = two_tasks()
    complete_checkpoint(world, 1)
    world.ids.next = 1
    world.handle(FinalCheckpointRequest(job_id=JOB))

    world.ids.next = 2
    world.advance(1_000)

    assert world.machine.pending[2].properties.is_final


def test_a_raising_event_is_handled_in_the_same_way_again() -> None:
    def run() -> list[CoordinatorEffect]:
        world = two_tasks(tolerable_failures=9)
        complete_checkpoint(world, 1)
        acknowledge_wrongly(world)
        trigger_with_a_used_id(world)
        return [effect for effect in world.log if not isinstance(effect, events.EventFailed)]

    assert run() == run()


def test_an_effect_that_fails_costs_its_checkpoint_only() -> None:
    world = two_tasks()
    world.trigger()
    world.trigger()

    cause = SerializedThrowable(type_name="KeyError", message="'sink'")
    world.handle(events.EffectFailed(checkpoint_id=1, cause=cause))

    assert failures(world) == ["TRIGGER_CHECKPOINT_FAILURE: KeyError: 'sink'"]
    assert list(world.machine.pending) == [2]


def test_an_event_that_is_not_of_one_checkpoint_still_raises() -> None:
    world = two_tasks()

    with pytest.raises(AssertionError, match="a deletion ends once"):
        world.machine.handle(Disposed(), world.now)
