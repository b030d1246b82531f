"""The JobManager answers clients, whatever happens to their jobs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flykka.messages.control.job import (
    CancellationFailure,
    CancellationSuccess,
    JobResultFailure,
    JobResultSuccess,
    JobStatus,
    JobStatusChanged,
    JobSubmitSuccess,
    ListeningBehaviour,
)
from flykka.messages.control.registration import DisconnectJobMaster, RegisterJobMaster
from flykka.messages.graph.job_graph import CheckpointingSettings, NoRestartStrategyConfiguration
from flykka.messages.tasks.task import CancelTask, ExecutionState
from flykka.messages.wire.ids import JobId
from tests.actors.job_cluster import JobCluster
from tests.actors.machines.graph.graphs import JOB, failure


def test_a_job_is_stored_before_its_acceptance_is_sent(cluster: JobCluster) -> None:
    cluster.submit(cluster.graph())

    assert cluster.received(cluster.client, JobSubmitSuccess) == [JobSubmitSuccess(job_id=JOB)]
    assert (cluster.folder / JOB / "job-graph").exists()
    assert [each.job_id for each in cluster.received(cluster.resource_manager, RegisterJobMaster)] == [JOB]


def test_a_job_whose_code_is_missing_is_refused_with_the_reason(cluster: JobCluster) -> None:
    cluster.data_plane.refusal = LookupError("no code for 'source'")

    cluster.submit(cluster.graph())

    refused = cluster.last(cluster.client, JobResultFailure)
    assert refused.cause.message == "no code for 'source'"
    assert cluster.received(cluster.client, JobSubmitSuccess) == []


def test_a_refused_job_may_be_submitted_again(cluster: JobCluster) -> None:
    cluster.data_plane.refusal = LookupError("no code")
    cluster.submit(cluster.graph())
    cluster.data_plane.refusal = None

    cluster.submit(cluster.graph())

    assert len(cluster.received(cluster.client, JobSubmitSuccess)) == 1


def test_a_graph_that_cannot_be_executed_is_refused_with_the_vertex(cluster: JobCluster) -> None:
    sink_first = cluster.graph().vertices[::-1]

    cluster.submit(replace(cluster.graph(), vertices=sink_first))

    assert "'source'" in cluster.last(cluster.client, JobResultFailure).cause.message


def test_an_id_that_cannot_name_an_actor_is_refused(cluster: JobCluster) -> None:
    cluster.submit(replace(cluster.graph(), job_id=JobId("a/b")))

    assert "job-a/b" in cluster.last(cluster.client, JobResultFailure).cause.message


def test_a_job_with_the_id_of_an_existing_job_is_refused(cluster: JobCluster) -> None:
    cluster.submit(cluster.graph())

    cluster.submit(cluster.graph())

    assert cluster.last(cluster.client, JobResultFailure).cause.type_name == "DuplicateJobSubmissionError"


def test_a_finished_job_is_reported_after_its_cleanup(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)

    for descriptor in cluster.deployed(task_manager):
        cluster.report(descriptor.attempt, ExecutionState.FINISHED)

    assert cluster.received(cluster.client, JobResultSuccess) == [JobResultSuccess(job_id=JOB)]
    assert cluster.data_plane.ended == cluster.data_plane.released == [JOB]
    assert cluster.data_plane.keeps_staged == [False]
    assert cluster.received(cluster.resource_manager, DisconnectJobMaster) == [DisconnectJobMaster(job_id=JOB)]
    assert not (cluster.folder / JOB).exists()


def test_an_ended_job_submitted_again_is_answered_with_its_result(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)
    for descriptor in cluster.deployed(task_manager):
        cluster.report(descriptor.attempt, ExecutionState.FINISHED)

    cluster.submit(cluster.graph())

    assert len(cluster.received(cluster.client, JobSubmitSuccess)) == 2
    assert cluster.last(cluster.client, JobResultSuccess) == JobResultSuccess(job_id=JOB, is_earlier=True)
    assert len(cluster.received(cluster.resource_manager, RegisterJobMaster)) == 1


def test_a_failed_job_is_reported_with_its_cause(cluster: JobCluster) -> None:
    no_restart = NoRestartStrategyConfiguration()
    task_manager = cluster.run(cluster.graph(restart=no_restart), slots=1)
    source, sink = cluster.deployed(task_manager)

    cluster.report(source.attempt, ExecutionState.FAILED, failure("disk full"))
    cluster.report(sink.attempt, ExecutionState.CANCELED)

    assert cluster.last(cluster.client, JobResultFailure).cause == failure("disk full")


def test_a_cancellation_is_answered_when_accepted_and_when_completed(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)

    cluster.cancel()
    assert cluster.received(cluster.client, CancellationSuccess) == [CancellationSuccess(job_id=JOB)]
    assert cluster.received(cluster.client, JobResultFailure) == []
    for cancel in cluster.received(task_manager, CancelTask):
        cluster.report(cancel.attempt, ExecutionState.CANCELED)

    assert cluster.last(cluster.client, JobResultFailure).status is JobStatus.CANCELED


def test_a_nonexistent_job_cannot_be_cancelled(cluster: JobCluster) -> None:
    cluster.cancel()

    assert cluster.last(cluster.client, CancellationFailure).job_id == JOB


def test_data_that_cannot_be_released_does_not_delay_the_result(cluster: JobCluster) -> None:
    cluster.data_plane.cannot_release = OSError("busy")
    task_manager = cluster.run(cluster.graph(), slots=1)

    for descriptor in cluster.deployed(task_manager):
        cluster.report(descriptor.attempt, ExecutionState.FINISHED)

    assert cluster.received(cluster.client, JobResultSuccess) == [JobResultSuccess(job_id=JOB)]


@pytest.mark.parametrize(
    ("listening", "hears_changes", "hears_result"),
    [
        (ListeningBehaviour.DETACHED, False, False),
        (ListeningBehaviour.EXECUTION_RESULT, False, True),
        (ListeningBehaviour.EXECUTION_RESULT_AND_STATE_CHANGES, True, True),
    ],
)
def test_a_client_gets_only_the_requested_results(
    cluster: JobCluster, listening: ListeningBehaviour, hears_changes: bool, hears_result: bool
) -> None:
    cluster.submit(cluster.graph(), listening)

    cluster.cancel()

    assert bool(cluster.received(cluster.client, JobStatusChanged)) == hears_changes
    assert bool(cluster.received(cluster.client, JobResultFailure)) == hears_result


@pytest.mark.parametrize(("name", "what"), [("", "is a file"), ("/below", "cannot be written: Not a directory")])
def test_a_job_whose_checkpoints_cannot_be_written_is_refused_with_the_directory(
    name: str, what: str, cluster: JobCluster, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    directory = f"{tmp_path}/file{name}"

    cluster.submit(replace(cluster.graph(), checkpointing=CheckpointingSettings(directory=directory)))

    refused = cluster.last(cluster.client, JobResultFailure)
    assert (refused.cause.type_name, refused.cause.message) == (
        "CheckpointDirectoryError",
        f"the checkpoint directory {directory!r} {what}",
    )
