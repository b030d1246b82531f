"""A client's request for a savepoint gets one reply: a complete folder, or the reason for the failure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.messages.checkpointing.checkpoint import (
    CompletedCheckpoint,
    DeclineCheckpoint,
    SnapshotType,
    TriggerCheckpoint,
)
from flykka.messages.control.job import (
    CheckpointCompleted,
    CheckpointType,
    JobResultSuccess,
    JobStatus,
    JobStatusChanged,
    RequestCheckpoint,
    RequestCheckpointFailure,
    RequestCheckpointSuccess,
    StopJob,
    StoppingSuccess,
    TriggerSavepoint,
    TriggerSavepointFailure,
    TriggerSavepointSuccess,
)
from flykka.messages.graph.job_graph import FixedDelayRestartStrategyConfiguration
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId, JobId
from tests.actors.job_cluster import JobCluster
from tests.actors.machines.graph.graphs import JOB, failure

SOURCE, SINK = ExecutionAttemptId("job_source_0_0"), ExecutionAttemptId("job_sink_0_0")


@pytest.fixture
def savepoints(tmp_path: Path) -> Path:
    return tmp_path / "savepoints"


def trigger_savepoint(cluster: JobCluster, savepoints: Path, job_id: JobId = JOB) -> None:
    wanted = TriggerSavepoint(job_id=job_id, client=cluster.client, savepoint_directory=str(savepoints))
    cluster.job_manager.tell(wanted)
    cluster.system.run_until_idle()


def stop_with_savepoint(cluster: JobCluster, savepoints: Path | None, *, drain: bool = False) -> None:
    directory = None if savepoints is None else str(savepoints)
    cluster.job_manager.tell(StopJob(job_id=JOB, client=cluster.client, savepoint_directory=directory, drain=drain))
    cluster.system.run_until_idle()


def checkpoint_metadata(path: str) -> CompletedCheckpoint:
    return CheckpointStorage(path).read_metadata(path)


def not_taken(cluster: JobCluster) -> str:
    [failure] = cluster.received(cluster.client, TriggerSavepointFailure)
    return failure.cause.message


def test_a_savepoint_is_in_its_own_folder_and_names_its_job(cluster: JobCluster, savepoints: Path) -> None:
    cluster.run(cluster.graph(), slots=1)

    trigger_savepoint(cluster, savepoints)
    cluster.acknowledge_checkpoint()

    [success] = cluster.received(cluster.client, TriggerSavepointSuccess)
    [folder] = savepoints.iterdir()
    taken = checkpoint_metadata(success.savepoint_path)
    assert success.savepoint_path == str(folder)
    assert folder.name.startswith(f"savepoint-{JOB[:6]}-")
    assert (taken.snapshot_type, taken.checkpoint_id, taken.job_name) == (SnapshotType.SAVEPOINT, 1, "job")
    assert [operator.ref.uid for operator in taken.operators] == ["source", "sink"]
    assert cluster.last(cluster.client, JobStatusChanged).status is JobStatus.RUNNING


def test_concurrent_savepoints_are_each_reported_to_their_client(cluster: JobCluster, savepoints: Path) -> None:
    cluster.run(cluster.graph(), slots=1)

    trigger_savepoint(cluster, savepoints)
    trigger_savepoint(cluster, savepoints)
    cluster.acknowledge_checkpoint(2)
    cluster.acknowledge_checkpoint(1)

    successes = cluster.received(cluster.client, TriggerSavepointSuccess)
    assert [checkpoint_metadata(each.savepoint_path).checkpoint_id for each in successes] == [2, 1]


@pytest.mark.parametrize(
    ("asked", "taken"),
    [
        (CheckpointType.CONFIGURED, SnapshotType.CHECKPOINT),
        (CheckpointType.INCREMENTAL, SnapshotType.CHECKPOINT),
        (CheckpointType.FULL, SnapshotType.FULL_CHECKPOINT),
    ],
)
def test_a_requested_checkpoint_is_an_ordinary_checkpoint_of_the_job(
    cluster: JobCluster, asked: CheckpointType, taken: SnapshotType
) -> None:
    cluster.run(cluster.graph(), slots=1)

    cluster.job_manager.tell(RequestCheckpoint(job_id=JOB, client=cluster.client, checkpoint_type=asked))
    cluster.system.run_until_idle()
    cluster.acknowledge_checkpoint()

    [success] = cluster.received(cluster.client, RequestCheckpointSuccess)
    assert success.checkpoint_path == str(cluster.folder / JOB / "chk-1")
    assert (checkpoint_metadata(success.checkpoint_path).snapshot_type, success.checkpoint_id) == (taken, 1)
    assert cluster.last(cluster.client, CheckpointCompleted).is_retained


def test_a_requested_checkpoint_is_refused_with_the_reason(cluster: JobCluster) -> None:
    cluster.run(cluster.graph(), slots=1)
    request = RequestCheckpoint(job_id=JOB, client=cluster.client)

    cluster.job_manager.tell(request)
    cluster.system.run_until_idle()
    cluster.tell_job_master(DeclineCheckpoint(job_id=JOB, attempt=SINK, checkpoint_id=1, cause=failure("disk full")))
    cluster.job_manager.tell(replace(request, job_id=JobId("another")))
    cluster.system.run_until_idle()

    declined, unknown = cluster.received(cluster.client, RequestCheckpointFailure)
    assert declined.cause.message.startswith("it failed with CHECKPOINT_DECLINED")
    assert unknown.cause.message == "job another does not exist or has ended"


def test_a_savepoint_outlives_the_checkpoints_of_its_cancelled_job(cluster: JobCluster, savepoints: Path) -> None:
    cluster.run(cluster.graph(), slots=1)
    trigger_savepoint(cluster, savepoints)
    cluster.acknowledge_checkpoint()

    cluster.cancel()
    cluster.report_tasks(ExecutionState.CANCELED)

    [success] = cluster.received(cluster.client, TriggerSavepointSuccess)
    assert checkpoint_metadata(success.savepoint_path).checkpoint_id == 1
    assert not (cluster.folder / JOB).exists()


def test_a_savepoint_that_a_task_declines_counts_as_a_failed_checkpoint(cluster: JobCluster, savepoints: Path) -> None:
    graph = cluster.graph()
    cluster.run(replace(graph, checkpointing=replace(graph.checkpointing, tolerable_failures=1)), slots=1)

    trigger_savepoint(cluster, savepoints)
    cluster.tell_job_master(DeclineCheckpoint(job_id=JOB, attempt=SINK, checkpoint_id=1, cause=failure("disk full")))

    assert not_taken(cluster) == "it failed with CHECKPOINT_DECLINED: TestError: disk full"
    assert list(savepoints.iterdir()) == []
    assert cluster.last(cluster.client, JobStatusChanged).status is JobStatus.RUNNING


def test_a_directory_that_cannot_be_created_is_named_and_the_job_continues(cluster: JobCluster, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cluster.run(cluster.graph(), slots=1)

    trigger_savepoint(cluster, tmp_path / "file")

    assert not_taken(cluster) == f"the savepoint directory {str(tmp_path / 'file')!r} cannot be written: it is a file"
    assert cluster.last(cluster.client, JobStatusChanged).status is JobStatus.RUNNING


def test_a_job_that_fails_during_a_savepoint_restarts_without_it(cluster: JobCluster, savepoints: Path) -> None:
    cluster.run(cluster.graph(restart=FixedDelayRestartStrategyConfiguration(attempts=1)), slots=1)
    trigger_savepoint(cluster, savepoints)

    cluster.report(SINK, ExecutionState.FAILED, failure("boom"))
    cluster.report(SOURCE, ExecutionState.CANCELED)
    cluster.system.advance(1)

    assert "it failed with" in not_taken(cluster)
    assert list(savepoints.iterdir()) == []
    assert cluster.last(cluster.client, JobStatusChanged).status is JobStatus.RUNNING


def test_savepoints_are_refused_unless_the_job_is_running(cluster: JobCluster, savepoints: Path) -> None:
    cluster.run(cluster.graph(restart=FixedDelayRestartStrategyConfiguration(delay_ms=1_000)), slots=1)
    cluster.report(SINK, ExecutionState.FAILED, failure())
    cluster.report(SOURCE, ExecutionState.CANCELED)

    trigger_savepoint(cluster, savepoints)

    assert not_taken(cluster).startswith("it is RESTARTING: only a RUNNING job can take one")
    assert not savepoints.exists()


def test_a_savepoint_is_refused_if_tasks_are_not_running_yet(cluster: JobCluster, savepoints: Path) -> None:
    cluster.submit(cluster.graph())
    cluster.accept_job_master()

    trigger_savepoint(cluster, savepoints)

    assert not_taken(cluster) == (
        "not all required tasks are currently running (NOT_ALL_REQUIRED_TASKS_RUNNING): try again when they are"
    )
    assert list(savepoints.iterdir()) == []


def test_a_savepoint_of_an_unknown_job_is_refused(cluster: JobCluster, savepoints: Path) -> None:
    trigger_savepoint(cluster, savepoints, JobId("another"))

    assert not_taken(cluster) == "job another does not exist or has ended"


def test_a_savepoint_request_fails_at_the_end_of_the_job_master(cluster: JobCluster, savepoints: Path) -> None:
    cluster.run(cluster.graph(), slots=1)
    trigger_savepoint(cluster, savepoints)

    cluster.system.kill(cluster.registration.job_master)

    assert not_taken(cluster) == (
        "the JobMaster of job ended unexpectedly; a new one continues from the latest checkpoint"
    )


def test_a_savepoint_request_fails_at_the_end_of_the_cluster(cluster: JobCluster, savepoints: Path) -> None:
    cluster.run(cluster.graph(), slots=1)
    trigger_savepoint(cluster, savepoints)

    cluster.job_manager.stop(block=False)
    cluster.system.run_until_idle()

    assert not_taken(cluster) == "its cluster is shut down"


# Stop with savepoint


@pytest.mark.parametrize("drain", [False, True])
def test_a_job_stopped_with_a_savepoint_has_finished_and_names_it(
    drain: bool, cluster: JobCluster, savepoints: Path
) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)

    stop_with_savepoint(cluster, savepoints, drain=drain)
    cluster.acknowledge_checkpoint()
    cluster.report_tasks(ExecutionState.FINISHED)

    [folder] = savepoints.iterdir()
    options = cluster.last(task_manager, TriggerCheckpoint).options
    assert (options.is_final, options.drain, options.target_location) == (True, drain, str(folder))
    assert cluster.received(cluster.client, StoppingSuccess) == [
        StoppingSuccess(job_id=JOB, checkpoint_path=str(folder))
    ]
    assert cluster.received(cluster.client, JobResultSuccess) == [
        JobResultSuccess(job_id=JOB, checkpoint_path=str(folder))
    ]
    assert checkpoint_metadata(str(folder)).checkpoint_id == 1
    assert not (cluster.folder / JOB).exists()


def test_a_stop_that_differs_from_the_pending_one_is_refused(cluster: JobCluster, savepoints: Path) -> None:
    cluster.run(cluster.graph(), slots=1)
    stop_with_savepoint(cluster, savepoints)

    stop_with_savepoint(cluster, None)
    refused = cluster.stopping_failure()
    stop_with_savepoint(cluster, savepoints)
    cluster.acknowledge_checkpoint()
    cluster.report_tasks(ExecutionState.FINISHED)

    assert refused == f"it is already being stopped, with a savepoint in {str(savepoints)!r}"
    assert len(cluster.received(cluster.client, StoppingSuccess)) == 2
    assert len(list(savepoints.iterdir())) == 1


def test_a_job_whose_final_savepoint_fails_continues_without_leftover_files(
    cluster: JobCluster, savepoints: Path
) -> None:
    cluster.run(cluster.graph(), slots=1)

    stop_with_savepoint(cluster, savepoints)
    cluster.tell_job_master(DeclineCheckpoint(job_id=JOB, attempt=SINK, checkpoint_id=1, cause=failure("disk full")))

    assert cluster.stopping_failure() == (
        "its last savepoint 1 failed with CHECKPOINT_DECLINED: TestError: disk full; the job continues"
    )
    assert list(savepoints.iterdir()) == []
    assert cluster.last(cluster.client, JobStatusChanged).status is JobStatus.RUNNING


def test_a_job_continues_if_the_savepoint_folder_cannot_be_created(cluster: JobCluster, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cluster.run(cluster.graph(), slots=1)

    stop_with_savepoint(cluster, tmp_path / "file")

    assert "cannot be written: it is a file; the job continues" in cluster.stopping_failure()
    assert cluster.last(cluster.client, JobStatusChanged).status is JobStatus.RUNNING


def test_a_job_that_fails_after_its_savepoint_resumes_from_it(cluster: JobCluster, savepoints: Path) -> None:
    task_manager = cluster.run(cluster.graph(restart=FixedDelayRestartStrategyConfiguration(attempts=1)), slots=1)
    stop_with_savepoint(cluster, savepoints)
    cluster.acknowledge_checkpoint()

    cluster.report(SOURCE, ExecutionState.FINISHED)
    cluster.report(SINK, ExecutionState.FAILED, failure("cannot publish"))
    cluster.system.advance(1)

    [folder] = savepoints.iterdir()
    assert f"A savepoint has been created at {folder}: it is consistent" in cluster.stopping_failure()
    assert cluster.deployed(task_manager)[-1].restored_checkpoint_id == 1
    assert checkpoint_metadata(str(folder)).checkpoint_id == 1
