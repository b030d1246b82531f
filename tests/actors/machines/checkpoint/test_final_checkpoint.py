"""A finished input needs a final checkpoint, which is taken even after delays."""

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
    harness = Coordination(planned_task("a"), **{"max_concurrent": 1, **changed})
    harness.handle(StartCheckpointScheduler(job_id=JOB))
    return harness


def test_the_final_checkpoint_ignores_interval_and_minimum_pause() -> None:
    harness = at_the_end(min_pause_ms=60_000)
    harness.trigger()
    harness.acknowledge("a", 1)

    harness.handle(FinalCheckpointRequest(job_id=JOB))

    assert list(harness.machine.pending) == [2]


def test_the_final_checkpoint_waits_for_a_pending_one() -> None:
    harness = at_the_end()
    harness.trigger()

    harness.handle(FinalCheckpointRequest(job_id=JOB))
    while_pending = list(harness.machine.pending)
    harness.acknowledge("a", 1)

    assert while_pending == [1]
    assert list(harness.machine.pending) == [2]


def test_the_final_checkpoint_waits_for_a_request_that_draws_its_id() -> None:
    harness = at_the_end()
    harness.while_an_id_is_drawn = lambda: _once(harness, FinalCheckpointRequest(job_id=JOB))
    harness.trigger()

    harness.acknowledge("a", 1)

    assert harness.completed() == [1]
    assert list(harness.machine.pending) == [2]


def test_a_request_is_served_if_the_scheduler_stops_before_the_earlier_one() -> None:
    harness = at_the_end(interval_ms=100)

    def meanwhile() -> None:
        harness.while_an_id_is_drawn = lambda: None
        harness.handle(StopCheckpointScheduler(job_id=JOB))
        harness.handle(FinalCheckpointRequest(job_id=JOB))

    harness.while_an_id_is_drawn = meanwhile
    harness.advance(100)

    assert events.TriggerDeclined(reason=CheckpointDeclineReason.PERIODIC_SCHEDULER_SHUTDOWN) in harness.log
    assert list(harness.machine.pending) == [2]


def test_no_checkpoint_is_triggered_after_the_final_one() -> None:
    harness = at_the_end(interval_ms=100)
    harness.handle(FinalCheckpointRequest(job_id=JOB))

    harness.acknowledge("a", 1)
    harness.advance(10_000)
    again = harness.handle(FinalCheckpointRequest(job_id=JOB))

    assert harness.completed() == [1]
    assert harness.timers == {}
    assert [type(effect) for effect in again] == [Ignore]


def test_a_failed_final_checkpoint_is_retried_after_a_delay() -> None:
    harness = at_the_end(tolerable_failures=9)
    harness.handle(FinalCheckpointRequest(job_id=JOB))

    harness.decline("a", 1)
    at_once = list(harness.machine.pending)
    harness.advance(1_000)

    assert at_once == []
    assert list(harness.machine.pending) == [2]


def test_a_final_checkpoint_is_retried_when_all_tasks_run() -> None:
    harness = Coordination(planned_task("a", ExecutionState.DEPLOYING))

    harness.handle(FinalCheckpointRequest(job_id=JOB))
    harness.set_state("a", ExecutionState.RUNNING)

    assert list(harness.machine.pending) == [1]


def test_new_attempts_have_not_requested_the_final_checkpoint() -> None:
    harness = at_the_end(tolerable_failures=9)
    harness.handle(FinalCheckpointRequest(job_id=JOB))
    harness.decline("a", 1)

    harness.handle(AbortPendingCheckpoints(job_id=JOB, reason=CheckpointDeclineReason.JOB_FAILOVER_REGION))
    harness.handle(events.TasksChanged(tasks=(planned_task("a 2"),)))
    harness.advance(10_000)
    not_asked = list(harness.machine.pending)
    harness.handle(FinalCheckpointRequest(job_id=JOB))

    assert "final-retry" not in harness.timers
    assert not_asked == []
    assert list(harness.machine.pending) == [2]


def test_stopping_the_scheduler_late_only_delays_the_final_checkpoint() -> None:
    harness = at_the_end()
    harness.handle(FinalCheckpointRequest(job_id=JOB))

    harness.handle(StopCheckpointScheduler(job_id=JOB))
    harness.advance(1_000)
    harness.acknowledge("a", 2)

    assert harness.completed() == [2]


def _once(harness: Coordination, event: FinalCheckpointRequest) -> None:
    harness.while_an_id_is_drawn = lambda: None
    harness.handle(event)
