"""A finished input needs a final checkpoint, which is taken even if something delays it."""

from __future__ import annotations

from typing import Any

from flykka.actors.machines.checkpoint import events
from flykka.actors.machines.effects import Ignore
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from flykka.messages.control.checkpoint_coordination import (
    AbortPendingCheckpoints,
    FinalCheckpointRequest,
    StartCheckpointScheduler,
    StopCheckpointScheduler,
)
from flykka.messages.tasks.task import ExecutionState
from tests.actors.machines.checkpoint.coordinating import JOB, Coordination, planned_task


def at_the_end(**changed: Any) -> Coordination:
    world = Coordination(planned_task("a"), **{"max_concurrent": 1, **changed})
    world.handle(StartCheckpointScheduler(job_id=JOB))
    return world


def test_it_is_taken_at_once_without_interval_and_without_pause() -> None:
    world = at_the_end(min_pause_ms=60_000)
    world.trigger()
    world.acknowledge("a", 1)

    world.handle(FinalCheckpointRequest(job_id=JOB))

    assert list(world.machine.pending) == [2]


def test_it_waits_for_the_one_that_is_pending() -> None:
    world = at_the_end()
    world.trigger()

    world.handle(FinalCheckpointRequest(job_id=JOB))
    while_pending = list(world.machine.pending)
    world.acknowledge("a", 1)

    assert while_pending == [1]
    assert list(world.machine.pending) == [2]


def test_it_waits_for_a_request_whose_id_is_on_its_way() -> None:
    world = at_the_end()
    world.while_an_id_is_drawn = lambda: _once(world, FinalCheckpointRequest(job_id=JOB))
    world.trigger()

    world.acknowledge("a", 1)

    assert world.completed() == [1]
    assert list(world.machine.pending) == [2]


def test_a_request_begins_if_the_earlier_one_was_declined_too_late() -> None:
    world = at_the_end(interval_ms=100)

    def meanwhile() -> None:
        world.while_an_id_is_drawn = lambda: None
        world.handle(StopCheckpointScheduler(job_id=JOB))
        world.handle(FinalCheckpointRequest(job_id=JOB))

    world.while_an_id_is_drawn = meanwhile
    world.advance(100)

    assert events.TriggerDeclined(reason=CheckpointDeclineReason.PERIODIC_SCHEDULER_SHUTDOWN) in world.log
    assert list(world.machine.pending) == [2]


def test_no_checkpoint_is_triggered_after_it() -> None:
    world = at_the_end(interval_ms=100)
    world.handle(FinalCheckpointRequest(job_id=JOB))

    world.acknowledge("a", 1)
    world.advance(10_000)
    again = world.handle(FinalCheckpointRequest(job_id=JOB))

    assert world.completed() == [1]
    assert world.timers == {}
    assert [type(effect) for effect in again] == [Ignore]


def test_it_is_tried_again_after_a_while_when_it_fails() -> None:
    world = at_the_end(tolerable_failures=9)
    world.handle(FinalCheckpointRequest(job_id=JOB))

    world.decline("a", 1)
    at_once = list(world.machine.pending)
    world.advance(1_000)

    assert at_once == []
    assert list(world.machine.pending) == [2]


def test_it_is_tried_again_when_all_tasks_run() -> None:
    world = Coordination(planned_task("a", ExecutionState.DEPLOYING))

    world.handle(FinalCheckpointRequest(job_id=JOB))
    world.set_state("a", ExecutionState.RUNNING)

    assert list(world.machine.pending) == [1]


def test_new_attempts_have_not_asked_for_it() -> None:
    world = at_the_end(tolerable_failures=9)
    world.handle(FinalCheckpointRequest(job_id=JOB))
    world.decline("a", 1)

    world.handle(AbortPendingCheckpoints(job_id=JOB, reason=CheckpointDeclineReason.JOB_FAILOVER_REGION))
    world.handle(events.TasksChanged(tasks=(planned_task("a 2"),)))
    world.advance(10_000)
    not_asked = list(world.machine.pending)
    world.handle(FinalCheckpointRequest(job_id=JOB))

    assert "final-retry" not in world.timers
    assert not_asked == []
    assert list(world.machine.pending) == [2]


def test_a_scheduler_that_is_stopped_late_only_delays_it() -> None:
    world = at_the_end()
    world.handle(FinalCheckpointRequest(job_id=JOB))

    world.handle(StopCheckpointScheduler(job_id=JOB))
    world.advance(1_000)
    world.acknowledge("a", 2)

    assert world.completed() == [2]


def _once(world: Coordination, event: FinalCheckpointRequest) -> None:
    world.while_an_id_is_drawn = lambda: None
    world.handle(event)
