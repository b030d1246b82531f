"""The coordinator as an actor: its messages to the tasks and the JobMaster, and its files in the storage."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.actors.checkpoint_coordinator.actor import CheckpointCoordinatorDeActivator
from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.messages.checkpointing.checkpoint import (
    CheckpointDeclineReason,
    CompletedCheckpoint,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    SnapshotOperatorCoordinators,
    TriggerCheckpoint,
)
from flykka.messages.control.checkpoint_coordination import (
    AbortPendingCheckpoints,
    CheckpointFailuresExceeded,
    CheckpointingStopped,
    CoordinatedTaskStateChanged,
    FinalCheckpointRequest,
    RequestRestoreState,
    RestoreState,
    RestoreStateFailed,
    StartCheckpointScheduler,
    StopCheckpointing,
    StopCheckpointScheduler,
)
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted, JobStatus, JobStatusChanged
from flykka.messages.graph.job_graph import (
    ExternalizedCheckpointRetention,
)
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, LeaderSessionId
from flykka.runtime.props import Props
from flykka.runtime.testing.probe import TestProbe
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.coordinator_cluster import JOB, CoordinatorCluster


@pytest.fixture
def cluster(system: SeededSystem, tmp_path: Path) -> CoordinatorCluster:
    cluster = CoordinatorCluster(system, tmp_path)
    cluster.deploy("a", "b")
    return cluster


def test_a_checkpoint_goes_from_the_timer_to_the_tasks_and_into_storage(
    cluster: CoordinatorCluster, system: SeededSystem
) -> None:
    cluster.send(StartCheckpointScheduler(job_id=JOB))
    system.advance(1_000)
    triggered = cluster.task_messages()
    cluster.complete(1, "a", "b")

    path = str(cluster.folder / "job" / "chk-1")
    [report] = cluster.received(CheckpointCompleted)
    assert [(type(message), message.attempt) for message in triggered if isinstance(message, TriggerCheckpoint)] == [
        (TriggerCheckpoint, "a")
    ]
    assert [
        message.attempt for message in cluster.task_messages() if isinstance(message, NotifyCheckpointComplete)
    ] == [
        "a",
        "b",
    ]
    assert (report.checkpoint_id, report.path) == (1, path)
    assert cluster.storage.read_metadata(path).checkpoint_id == 1


def test_operator_coordinators_are_snapshotted_before_the_tasks(system: SeededSystem, tmp_path: Path) -> None:
    cluster = CoordinatorCluster(system, tmp_path, sources=True)
    cluster.deploy("a")

    cluster.send(FinalCheckpointRequest(job_id=JOB))

    assert cluster.received(SnapshotOperatorCoordinators) == [SnapshotOperatorCoordinators(job_id=JOB, checkpoint_id=1)]
    assert [type(message) for message in cluster.task_messages()] == [TriggerCheckpoint]


def test_a_declined_checkpoint_is_reported_to_the_tasks_and_fails_the_job(cluster: CoordinatorCluster) -> None:
    cluster.send(FinalCheckpointRequest(job_id=JOB))
    cluster.task_messages()

    cluster.send(
        DeclineCheckpoint(
            job_id=JOB,
            attempt=ExecutionAttemptId("b"),
            checkpoint_id=1,
            reason=CheckpointDeclineReason.CHECKPOINT_ASYNC_EXCEPTION,
        )
    )

    [aborted] = cluster.received(CheckpointAborted)
    [failed] = cluster.received(CheckpointFailuresExceeded)
    assert aborted.reason is CheckpointDeclineReason.CHECKPOINT_ASYNC_EXCEPTION
    assert "CHECKPOINT_ASYNC_EXCEPTION" in failed.cause.message
    assert [message.attempt for message in cluster.task_messages() if isinstance(message, NotifyCheckpointAborted)] == [
        "a",
        "b",
    ]


def test_messages_of_a_former_leaders_coordinator_reach_no_task(cluster: CoordinatorCluster) -> None:
    cluster.deploy("a", "b", leader_session_id=LeaderSessionId("former"))

    cluster.send(FinalCheckpointRequest(job_id=JOB))

    assert cluster.task_messages() == []


def test_a_checkpoint_expires_on_the_clock(system: SeededSystem, tmp_path: Path) -> None:
    cluster = CoordinatorCluster(system, tmp_path, timeout_ms=300)
    cluster.deploy("a")
    cluster.send(FinalCheckpointRequest(job_id=JOB))

    system.advance(300)

    assert [aborted.reason for aborted in cluster.received(CheckpointAborted)] == [CheckpointDeclineReason.EXPIRED]


def test_no_checkpoint_starts_before_every_task_runs(system: SeededSystem, tmp_path: Path) -> None:
    cluster = CoordinatorCluster(system, tmp_path)
    cluster.deploy("a", state=ExecutionState.DEPLOYING)
    cluster.send(StartCheckpointScheduler(job_id=JOB))

    system.advance(1_500)
    before = cluster.task_messages()
    attempt = ExecutionAttemptId("a")
    cluster.send(CoordinatedTaskStateChanged(job_id=JOB, attempt=attempt, state=ExecutionState.RUNNING))

    assert before == []
    assert [type(message) for message in cluster.task_messages()] == [TriggerCheckpoint]


def test_new_attempts_start_from_the_latest_completed_checkpoint(cluster: CoordinatorCluster) -> None:
    cluster.send(FinalCheckpointRequest(job_id=JOB))
    cluster.complete(1, "a", "b", shared="x")

    cluster.send(AbortPendingCheckpoints(job_id=JOB))
    cluster.send(RequestRestoreState(job_id=JOB, version=3))

    [restore] = cluster.received(RestoreState)
    assert restore.checkpoint is not None
    assert (restore.version, restore.checkpoint.checkpoint_id) == (3, 1)
    assert restore.checkpoint == cluster.storage.read_metadata(str(cluster.folder / "job" / "chk-1"))


def test_a_job_that_starts_from_another_jobs_checkpoint_records_this_there(
    cluster: CoordinatorCluster, system: SeededSystem, tmp_path: Path
) -> None:
    cluster.send(FinalCheckpointRequest(job_id=JOB))
    cluster.complete(1, "a", "b", shared="x")
    path = cluster.received(CheckpointCompleted)[0].path
    before = cluster.files()

    with SeededSystem(12) as other:
        later = CoordinatorCluster(other, tmp_path / "later")
        later.send(RequestRestoreState(job_id=JOB, path=path))
        later.deploy("a")
        later.send(FinalCheckpointRequest(job_id=JOB))
        later.complete(2, "a")
        later.send(StopCheckpointing(job_id=JOB, job_status=JobStatus.FINISHED))

    [restore] = later.received(RestoreState)
    assert restore.checkpoint is not None
    assert restore.checkpoint.checkpoint_id == 1
    assert [report.checkpoint_id for report in later.received(CheckpointCompleted)] == [2]
    assert [name for name in cluster.files() if not name.startswith("later")] == ["job/chk-1/_continued", *before]


def test_the_initial_checkpoint_of_a_job_may_be_in_another_storage(cluster: CoordinatorCluster) -> None:
    earlier = CompletedCheckpoint(
        job_id=JobId("earlier"), checkpoint_id=7, timestamp_ms=0, duration_ms=0, task_states=()
    )
    path = CheckpointStorage("memory://another-storage").write_metadata(earlier)

    cluster.send(RequestRestoreState(job_id=JOB, path=path))

    [restore] = cluster.received(RestoreState)
    assert restore.checkpoint is not None
    assert (restore.checkpoint.checkpoint_id, restore.checkpoint.path) == (7, path)


def test_an_unreadable_checkpoint_is_not_restored(cluster: CoordinatorCluster) -> None:
    cluster.send(RequestRestoreState(job_id=JOB, version=1, path="/nowhere/chk-1"))

    [failed] = cluster.received(RestoreStateFailed)
    assert failed.version == 1
    assert "/nowhere/chk-1/_metadata: there is no such file" in failed.cause.message


def test_subsumed_checkpoints_and_unused_state_are_deleted_from_storage(
    cluster: CoordinatorCluster, system: SeededSystem
) -> None:
    cluster.send(StartCheckpointScheduler(job_id=JOB))
    for checkpoint_id, shared in enumerate(["x", "y"], start=1):
        system.advance(1_000)
        cluster.complete(checkpoint_id, "a", "b", shared=shared)

    assert cluster.files() == ["job/chk-2/_metadata", "job/shared/y"]


@pytest.mark.parametrize(
    ("status", "retention", "left"),
    [
        (JobStatus.FINISHED, ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION, False),
        (JobStatus.CANCELED, ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION, True),
        (JobStatus.CANCELED, ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION, False),
        (JobStatus.FAILED, ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION, True),
        (JobStatus.FAILED, ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS, False),
    ],
)
def test_an_ended_job_retains_checkpoints_by_its_retention_policy(
    system: SeededSystem,
    tmp_path: Path,
    status: JobStatus,
    retention: ExternalizedCheckpointRetention,
    left: bool,
) -> None:
    cluster = CoordinatorCluster(system, tmp_path, retention=retention)
    cluster.deploy("a")
    cluster.send(FinalCheckpointRequest(job_id=JOB))
    cluster.complete(1, "a", shared="x")

    cluster.send(StopCheckpointing(job_id=JOB, job_status=status))

    [stopped] = cluster.received(CheckpointingStopped)
    assert stopped.retained == ((str(tmp_path / "job" / "chk-1"),) if left else ())
    assert cluster.files() == (["job/chk-1/_metadata", "job/shared/x"] if left else [])


def test_the_scheduler_runs_only_while_the_job_is_running(system: SeededSystem) -> None:
    coordinator = TestProbe(system)
    de_activator = system.spawn(Props(CheckpointCoordinatorDeActivator, coordinator.ref), "de-activator")

    for status in (JobStatus.RUNNING, JobStatus.FAILING, JobStatus.RESTARTING, JobStatus.RUNNING):
        de_activator.tell(JobStatusChanged(job_id=JOB, status=status, timestamp_ms=0))
    system.run_until_idle()

    assert coordinator.drain() == [
        StartCheckpointScheduler(job_id=JOB),
        StopCheckpointScheduler(job_id=JOB),
        StopCheckpointScheduler(job_id=JOB),
        StartCheckpointScheduler(job_id=JOB),
    ]
