"""The state from which new attempts start, and the checkpoints that are retained when a job ends."""

from __future__ import annotations

import pytest

from flykka.actors.machines.checkpoint import events
from flykka.actors.machines.effects import Ignore
from flykka.messages.checkpointing.checkpoint import (
    CheckpointDeclineReason,
    NotifyCheckpointComplete,
)
from flykka.messages.control.checkpoint_coordination import (
    AbortPendingCheckpoints,
    CheckpointingStopped,
    CoordinatedTaskStateChanged,
    Disposed,
    MetadataRead,
    RequestRestoreState,
    RestoreState,
    StartCheckpointScheduler,
    StopCheckpointing,
)
from flykka.messages.control.job import CheckpointAborted, JobStatus
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId
from tests.actors.machines.checkpoint.coordinating import (
    JOB,
    SINK,
    SOURCE,
    complete_checkpoint,
    planned_task,
    snapshot,
    two_tasks,
)


def test_replaced_tasks_cannot_complete_a_checkpoint() -> None:
    harness = two_tasks(storage_answers=False)
    harness.trigger()
    harness.acknowledge("source", 1)

    harness.handle(AbortPendingCheckpoints(job_id=JOB, reason=CheckpointDeclineReason.JOB_FAILOVER_REGION))
    refused = harness.trigger()
    harness.acknowledge("sink", 1)
    harness.handle(events.TasksChanged(tasks=(planned_task("source 2"), planned_task("sink 2", is_source=False))))
    harness.trigger()

    assert harness.completed() == []
    assert refused == [events.TriggerDeclined(reason=CheckpointDeclineReason.NOT_ALL_REQUIRED_TASKS_RUNNING)]
    assert harness.machine.pending[2].awaited == {"source 2", "sink 2"}


def test_new_attempts_wait_until_the_checkpoint_being_written_has_ended() -> None:
    harness = two_tasks(storage_answers=False, retained=2)
    complete_checkpoint(harness, 1)
    harness.written(1)
    complete_checkpoint(harness, 2)

    asked = harness.handle(RequestRestoreState(job_id=JOB, version=5))
    answered = harness.written(2)

    assert not [effect for effect in asked if isinstance(effect, RestoreState)]
    [restore] = [effect for effect in answered if isinstance(effect, RestoreState)]
    assert (restore.version, restore.checkpoint.checkpoint_id if restore.checkpoint else None) == (5, 2)
    assert not [effect for effect in answered if isinstance(effect, NotifyCheckpointComplete)]


def test_a_job_without_checkpoints_starts_from_the_beginning() -> None:
    harness = two_tasks()

    made = harness.handle(RequestRestoreState(job_id=JOB, version=0))

    assert made == [RestoreState(job_id=JOB, version=0, checkpoint=None)]


def test_the_initial_checkpoint_of_an_earlier_job_is_restored_and_never_deleted() -> None:
    earlier = two_tasks()
    complete_checkpoint(earlier, 1, exclusive=["s"], shared=["x"])
    [adopted] = earlier.machine.completed
    harness = two_tasks()
    harness.ids.skip_to(2)

    made = harness.handle(MetadataRead(version=1, checkpoint=adopted))
    harness.handle(events.TasksChanged(tasks=(SOURCE, SINK)))
    complete_checkpoint(harness, 2, shared=["x", "y"])
    complete_checkpoint(harness, 3, shared=["y"])

    assert made == [RestoreState(job_id=JOB, version=1, checkpoint=adopted)]
    assert harness.disposed() == ["chk-2"]


def test_checkpoint_ids_continue_across_restarts_of_the_tasks() -> None:
    harness = two_tasks()
    complete_checkpoint(harness, 1)

    harness.handle(AbortPendingCheckpoints(job_id=JOB, reason=CheckpointDeclineReason.JOB_FAILOVER_REGION))
    harness.handle(events.TasksChanged(tasks=(SOURCE, SINK)))
    harness.trigger()

    assert list(harness.machine.pending) == [2]


@pytest.mark.parametrize(("status", "delete_checkpoints"), [(JobStatus.FINISHED, False), (JobStatus.CANCELED, True)])
def test_a_finished_job_without_retention_leaves_no_files(status: JobStatus, delete_checkpoints: bool) -> None:
    harness = two_tasks()
    complete_checkpoint(harness, 1, shared=["x"])
    harness.trigger()

    made = harness.handle(StopCheckpointing(job_id=JOB, job_status=status, delete_checkpoints=delete_checkpoints))

    assert made[-2:] == [events.DeleteJob(), CheckpointingStopped(job_id=JOB, retained=())]
    assert list(harness.machine.pending) == []


@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.CANCELED])
def test_a_failed_or_cancelled_job_retains_only_its_checkpoints(status: JobStatus) -> None:
    harness = two_tasks(retained=2)
    complete_checkpoint(harness, 1, shared=["x"])
    harness.trigger()
    harness.acknowledge("sink", 2, snapshot(shared=["x", "y"], exclusive=["s"]))

    made = harness.handle(StopCheckpointing(job_id=JOB, job_status=status))

    assert harness.disposed() == ["s", "y"]
    assert made[-1] == CheckpointingStopped(job_id=JOB, retained=("chk-1",))


def test_checkpointing_stops_after_all_writes_and_deletions() -> None:
    harness = two_tasks(storage_answers=False)
    complete_checkpoint(harness, 1)

    stopped = [harness.handle(StopCheckpointing(job_id=JOB, job_status=JobStatus.FINISHED))]
    stopped.append(harness.written(1))
    stopped.append(harness.handle(Disposed()))

    assert events.DeleteJob() not in stopped[0]
    assert stopped[1][-1] == events.DeleteJob()
    assert stopped[2] == [CheckpointingStopped(job_id=JOB, retained=())]


@pytest.mark.parametrize("status", [JobStatus.SUSPENDED, JobStatus.FAILED, JobStatus.FINISHED])
def test_pending_checkpoints_are_aborted_at_any_shutdown(
    status: JobStatus,
) -> None:
    harness = two_tasks()
    harness.trigger()

    harness.handle(StopCheckpointing(job_id=JOB, job_status=status))

    [aborted] = harness.effects(CheckpointAborted)
    assert aborted.reason is CheckpointDeclineReason.COORDINATOR_SHUTDOWN


def test_a_coordinator_is_shut_down_once() -> None:
    harness = two_tasks()
    harness.handle(StopCheckpointing(job_id=JOB, job_status=JobStatus.FINISHED))

    again = harness.handle(StopCheckpointing(job_id=JOB, job_status=JobStatus.FAILED))
    started = harness.handle(StartCheckpointScheduler(job_id=JOB))
    stranger = harness.handle(
        CoordinatedTaskStateChanged(job_id=JOB, attempt=ExecutionAttemptId("nobody"), state=ExecutionState.RUNNING)
    )

    assert [type(effect) for made in (again, started, stranger) for effect in made] == [Ignore] * 3


def test_a_later_job_does_not_retain_checkpoints_of_an_earlier_job() -> None:
    earlier = two_tasks()
    complete_checkpoint(earlier, 1)
    [adopted] = earlier.machine.completed
    harness = two_tasks()

    harness.handle(MetadataRead(version=1, checkpoint=adopted))
    made = harness.handle(StopCheckpointing(job_id=JOB, job_status=JobStatus.FAILED))

    assert made == [events.DeleteJob(), CheckpointingStopped(job_id=JOB, retained=())]


def test_a_resumed_job_without_own_checkpoints_names_its_initial_one() -> None:
    earlier = two_tasks()
    complete_checkpoint(earlier, 1)
    [adopted] = earlier.machine.completed
    harness = two_tasks()
    harness.handle(MetadataRead(version=1, checkpoint=adopted))
    harness.handle(events.TasksChanged(tasks=(planned_task("source"), planned_task("sink", is_source=False))))
    harness.ids.skip_to(2)
    complete_checkpoint(harness, 2)

    made = harness.handle(StopCheckpointing(job_id=JOB, job_status=JobStatus.FINISHED))

    assert made[-2:] == [events.DeleteJob(continued=adopted.path), CheckpointingStopped(job_id=JOB, retained=())]
