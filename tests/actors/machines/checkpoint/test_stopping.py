"""A job is stopped with a final checkpoint, which is retained. If that checkpoint fails, the job continues, as in
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
    harness = Coordination(planned_task("a"), **{"max_concurrent": 1, **changed})
    harness.handle(StartCheckpointScheduler(job_id=JOB))
    return harness


def stop_checkpointing(harness: Coordination) -> None:
    harness.handle(StopCheckpointRequest(job_id=JOB))


def checkpoints_retained(harness: Coordination, status: JobStatus = JobStatus.FINISHED) -> tuple[str, ...]:
    harness.handle(StopCheckpointing(job_id=JOB, job_status=status))
    [report] = harness.effects(CheckpointingStopped)
    return report.retained


def test_the_last_checkpoint_is_final_for_the_tasks() -> None:
    harness = scheduled_coordination()

    stop_checkpointing(harness)

    [trigger] = harness.effects(TriggerCheckpoint)
    assert (trigger.checkpoint_id, trigger.options.is_final) == (1, True)


def test_the_final_checkpoint_of_a_stop_ignores_interval_and_pause() -> None:
    harness = scheduled_coordination(min_pause_ms=60_000)
    harness.trigger()
    harness.acknowledge("a", 1)

    stop_checkpointing(harness)

    assert list(harness.machine.pending) == [2]


def test_a_stop_waits_for_running_tasks_but_not_for_pending_checkpoints() -> None:
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
def test_a_savepoint_is_taken_even_if_periodic_checkpoints_overlap(demand: CoordinatorEvent) -> None:
    harness = scheduled_coordination(interval_ms=100, max_concurrent=2)
    harness.advance(200)
    harness.acknowledge("a", 1)

    harness.handle(demand)
    harness.advance(150)
    harness.acknowledge("a", 2)

    [last] = harness.machine.pending.values()
    assert last.properties.is_final


def test_a_stop_requested_before_the_tasks_are_known_is_not_lost() -> None:
    harness = Coordination()

    stop_checkpointing(harness)
    harness.handle(RequestRestoreState(job_id=JOB, version=1))
    harness.handle(events.TasksChanged(tasks=(planned_task("a"),)))

    assert list(harness.machine.pending) == [1]


@pytest.mark.parametrize("max_concurrent", [1, 2])
def test_the_scheduler_pauses_during_a_stop_and_resumes_if_it_fails(max_concurrent: int) -> None:
    harness = scheduled_coordination(interval_ms=100, max_concurrent=max_concurrent, timeout_ms=450)
    stop_checkpointing(harness)

    harness.advance(440)
    while_stopping = list(harness.machine.pending)
    harness.advance(100)

    assert while_stopping == [1]
    (failed,) = harness.effects(StopCheckpointFailed)
    assert (failed.checkpoint_id, failed.reason) == (1, CheckpointDeclineReason.EXPIRED)
    assert list(harness.machine.pending) == [2]


def test_a_failed_stop_is_not_retried_and_does_not_fail_the_job() -> None:
    harness = scheduled_coordination(tolerable_failures=0)
    stop_checkpointing(harness)

    harness.decline("a", 1)
    harness.advance(10_000)

    assert len(harness.effects(StopCheckpointFailed)) == 1
    assert harness.effects(CheckpointFailuresExceeded) == []
    assert list(harness.machine.pending) == []


def test_a_job_may_be_stopped_again_after_a_failed_stop() -> None:
    harness = scheduled_coordination()
    stop_checkpointing(harness)
    harness.decline("a", 1)

    stop_checkpointing(harness)
    harness.acknowledge("a", 2)

    assert checkpoints_retained(harness) == ("chk-2",)


@pytest.mark.parametrize("retention", ExternalizedCheckpointRetention)
def test_the_final_checkpoint_is_retained_whatever_the_retention_policy(
    retention: ExternalizedCheckpointRetention,
) -> None:
    harness = scheduled_coordination(retention=retention, retained=3)
    harness.trigger()
    harness.acknowledge("a", 1, snapshot(shared=["old", "both"], exclusive=["own"]))

    stop_checkpointing(harness)
    harness.acknowledge("a", 2, snapshot(shared=["both"]))

    assert checkpoints_retained(harness) == ("chk-2",)
    assert harness.disposed() == ["chk-1", "own", "old"]
    assert harness.effects(events.DeleteJob) == []


def test_no_checkpoint_is_triggered_after_the_final_checkpoint_of_a_stop() -> None:
    harness = scheduled_coordination(interval_ms=100)
    stop_checkpointing(harness)

    harness.acknowledge("a", 1)
    harness.advance(10_000)
    harness.handle(StopCheckpointRequest(job_id=JOB))

    assert harness.completed() == [1]
    assert harness.timers == {}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (FinalCheckpointRequest(job_id=JOB), StopCheckpointRequest(job_id=JOB)),
        (StopCheckpointRequest(job_id=JOB), FinalCheckpointRequest(job_id=JOB)),
    ],
)
def test_a_job_at_its_end_is_stopped_with_its_own_final_checkpoint(
    first: CoordinatorEvent, second: CoordinatorEvent
) -> None:
    harness = scheduled_coordination()

    harness.handle(first)
    made = harness.handle(second)
    harness.acknowledge("a", 1)

    assert [type(effect) for effect in made] == [Ignore]
    assert checkpoints_retained(harness) == ("chk-1",)


def test_a_job_without_further_input_finishes_if_the_stop_fails() -> None:
    harness = scheduled_coordination(tolerable_failures=9)
    stop_checkpointing(harness)
    harness.handle(FinalCheckpointRequest(job_id=JOB))

    harness.decline("a", 1)
    harness.advance(1_000)
    harness.acknowledge("a", 2)

    assert len(harness.effects(StopCheckpointFailed)) == 1
    assert checkpoints_retained(harness) == ()


def test_tasks_restarted_during_a_stop_are_not_stopped() -> None:
    harness = scheduled_coordination(tolerable_failures=9)
    stop_checkpointing(harness)

    harness.handle(AbortPendingCheckpoints(job_id=JOB, reason=FAILOVER))
    harness.handle(events.TasksChanged(tasks=(planned_task("a 2"),)))
    harness.advance(10_000)

    assert list(harness.machine.pending) == []
    assert harness.effects(StopCheckpointFailed) == []


def test_a_job_that_restarts_after_its_final_checkpoint_may_delete_it() -> None:
    harness = scheduled_coordination()
    stop_checkpointing(harness)
    harness.acknowledge("a", 1)

    harness.handle(AbortPendingCheckpoints(job_id=JOB, reason=FAILOVER))
    harness.handle(events.TasksChanged(tasks=(planned_task("a 2"),)))
    harness.trigger()
    harness.acknowledge("a 2", 2)

    assert harness.disposed() == ["chk-1"]
    assert checkpoints_retained(harness) == ()


def test_a_cancelled_stopping_job_follows_its_retention_policy() -> None:
    harness = scheduled_coordination(retention=ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION)
    stop_checkpointing(harness)
    harness.acknowledge("a", 1)

    assert checkpoints_retained(harness, JobStatus.CANCELED) == ()
