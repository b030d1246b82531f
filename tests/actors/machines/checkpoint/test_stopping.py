"""A job is stopped with a final checkpoint, which is retained; if that checkpoint fails, the job continues, as in
Flink.
"""

from __future__ import annotations

from typing import Any

import pytest

from flykka.actors.machines.checkpoint import events
from flykka.actors.machines.checkpoint.events import CoordinatorEvent
from flykka.actors.machines.effects import Ignore
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, TriggerCheckpoint
from flykka.messages.control.checkpoint_coordination import (
    AbortPendingCheckpoints,
    CheckpointFailuresExceeded,
    CheckpointingStopped,
    FinalCheckpointRequest,
    RequestRestoreState,
    StartCheckpointScheduler,
    StopCheckpointFailed,
    StopCheckpointing,
    StopCheckpointRequest,
)
from flykka.messages.control.job import JobStatus
from flykka.messages.graph.job_graph import ExternalizedCheckpointRetention
from flykka.messages.tasks.task import ExecutionState
from tests.actors.machines.checkpoint.coordinating import JOB, Coordination, planned_task, snapshot

FAILOVER = CheckpointDeclineReason.JOB_FAILOVER_REGION


def scheduled_coordination(**changed: Any) -> Coordination:
    world = Coordination(planned_task("a"), **{"max_concurrent": 1, **changed})
    world.handle(StartCheckpointScheduler(job_id=JOB))
    return world


def stop_checkpointing(world: Coordination) -> None:
    world.handle(StopCheckpointRequest(job_id=JOB))


def checkpoints_retained(world: Coordination, status: JobStatus = JobStatus.FINISHED) -> tuple[str, ...]:
    """The checkpoints that are retained after the job has ended with this status."""
    world.handle(StopCheckpointing(job_id=JOB, job_status=status))
    [report] = world.effects(CheckpointingStopped)
    return report.retained


def test_the_last_checkpoint_is_final_for_the_tasks() -> None:
    world = scheduled_coordination()

    stop_checkpointing(world)

    [trigger] = world.effects(TriggerCheckpoint)
    assert (trigger.checkpoint_id, trigger.options.is_final) == (1, True)


def test_it_is_taken_at_once_without_interval_and_without_pause() -> None:
    world = scheduled_coordination(min_pause_ms=60_000)
    world.trigger()
    world.acknowledge("a", 1)

    stop_checkpointing(world)

    assert list(world.machine.pending) == [2]


def test_it_waits_until_all_tasks_run_but_for_no_checkpoint_that_is_pending() -> None:
    starting = Coordination(planned_task("a", ExecutionState.DEPLOYING))
    busy = scheduled_coordination()
    busy.trigger()

    stop_checkpointing(starting)
    stop_checkpointing(busy)
    starting.set_state("a", ExecutionState.RUNNING)
    pending = list(busy.machine.pending)
    busy.acknowledge("a", 1)

    assert list(starting.machine.pending) == [1]
    assert (pending, list(busy.machine.pending)) == ([1, 2], [2])


@pytest.mark.parametrize("demand", [StopCheckpointRequest(job_id=JOB), FinalCheckpointRequest(job_id=JOB)])
def test_a_savepoint_gets_its_turn_if_checkpoints_overlap(demand: CoordinatorEvent) -> None:
    world = scheduled_coordination(interval_ms=100, max_concurrent=2)
    world.advance(200)
    world.acknowledge("a", 1)

    world.handle(demand)
    world.advance(150)
    world.acknowledge("a", 2)

    [last] = world.machine.pending.values()
    assert last.properties.is_final


def test_a_stop_requested_before_the_tasks_are_known_is_not_lost() -> None:
    world = Coordination()

    stop_checkpointing(world)
    world.handle(RequestRestoreState(job_id=JOB, version=1))
    world.handle(events.TasksChanged(tasks=(planned_task("a"),)))

    assert list(world.machine.pending) == [1]


@pytest.mark.parametrize("max_concurrent", [1, 2])
def test_the_scheduler_pauses_during_a_stop_and_resumes_if_it_fails(max_concurrent: int) -> None:
    world = scheduled_coordination(interval_ms=100, max_concurrent=max_concurrent, timeout_ms=450)
    stop_checkpointing(world)

    world.advance(440)
    while_stopping = list(world.machine.pending)
    world.advance(100)

    assert while_stopping == [1]
    (failed,) = world.effects(StopCheckpointFailed)
    assert (failed.checkpoint_id, failed.reason) == (1, CheckpointDeclineReason.EXPIRED)
    assert list(world.machine.pending) == [2]


def test_a_stop_that_fails_is_not_tried_again_and_does_not_fail_the_job() -> None:
    world = scheduled_coordination(tolerable_failures=0)
    stop_checkpointing(world)

    world.decline("a", 1)
    world.advance(10_000)

    assert len(world.effects(StopCheckpointFailed)) == 1
    assert world.effects(CheckpointFailuresExceeded) == []
    assert list(world.machine.pending) == []


def test_a_job_may_be_stopped_again_after_a_stop_that_failed() -> None:
    world = scheduled_coordination()
    stop_checkpointing(world)
    world.decline("a", 1)

    stop_checkpointing(world)
    world.acknowledge("a", 2)

    assert checkpoints_retained(world) == ("chk-2",)


@pytest.mark.parametrize("retention", ExternalizedCheckpointRetention)
def test_the_last_checkpoint_is_kept_whatever_the_retention_and_the_others_go(
    retention: ExternalizedCheckpointRetention,
) -> None:
    world = scheduled_coordination(retention=retention, retained=3)
    world.trigger()
    world.acknowledge("a", 1, snapshot(shared=["old", "both"], exclusive=["own"]))

    stop_checkpointing(world)
    world.acknowledge("a", 2, snapshot(shared=["both"]))

    assert checkpoints_retained(world) == ("chk-2",)
    assert world.disposed() == ["chk-1", "own", "old"]
    assert world.effects(events.DeleteJob) == []


def test_no_checkpoint_is_triggered_after_it() -> None:
    world = scheduled_coordination(interval_ms=100)
    stop_checkpointing(world)

    world.acknowledge("a", 1)
    world.advance(10_000)
    world.handle(StopCheckpointRequest(job_id=JOB))

    assert world.completed() == [1]
    assert world.timers == {}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (FinalCheckpointRequest(job_id=JOB), StopCheckpointRequest(job_id=JOB)),
        (StopCheckpointRequest(job_id=JOB), FinalCheckpointRequest(job_id=JOB)),
    ],
)
def test_a_job_at_its_end_is_stopped_with_the_checkpoint_that_it_takes_anyway(
    first: CoordinatorEvent, second: CoordinatorEvent
) -> None:
    world = scheduled_coordination()

    world.handle(first)
    made = world.handle(second)
    world.acknowledge("a", 1)

    assert [type(effect) for effect in made] == [Ignore]
    assert checkpoints_retained(world) == ("chk-1",)


def test_a_job_at_the_end_of_its_input_finishes_if_the_stop_fails() -> None:
    world = scheduled_coordination(tolerable_failures=9)
    stop_checkpointing(world)
    world.handle(FinalCheckpointRequest(job_id=JOB))

    world.decline("a", 1)
    world.advance(1_000)
    world.acknowledge("a", 2)

    assert len(world.effects(StopCheckpointFailed)) == 1
    assert checkpoints_retained(world) == ()


def test_tasks_that_are_restarted_meanwhile_are_not_stopped() -> None:
    world = scheduled_coordination(tolerable_failures=9)
    stop_checkpointing(world)

    world.handle(AbortPendingCheckpoints(job_id=JOB, reason=FAILOVER))
    world.handle(events.TasksChanged(tasks=(planned_task("a 2"),)))
    world.advance(10_000)

    assert list(world.machine.pending) == []
    assert world.effects(StopCheckpointFailed) == []


def test_a_job_that_restarts_from_its_last_checkpoint_keeps_it_no_longer() -> None:
    world = scheduled_coordination()
    stop_checkpointing(world)
    world.acknowledge("a", 1)

    world.handle(AbortPendingCheckpoints(job_id=JOB, reason=FAILOVER))
    world.handle(events.TasksChanged(tasks=(planned_task("a 2"),)))
    world.trigger()
    world.acknowledge("a 2", 2)

    assert world.disposed() == ["chk-1"]
    assert checkpoints_retained(world) == ()


def test_a_stopping_job_that_is_cancelled_follows_its_retention_policy() -> None:
    world = scheduled_coordination(retention=ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION)
    stop_checkpointing(world)
    world.acknowledge("a", 1)

    assert checkpoints_retained(world, JobStatus.CANCELED) == ()
