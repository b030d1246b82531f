"""A client that stops a job is notified when the job has FINISHED, or of the reason why it was not stopped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.messages.checkpointing.checkpoint import DeclineCheckpoint, TriggerCheckpoint
from flykka.messages.control.job import (
    CheckpointAborted,
    JobResultFailure,
    JobResultSuccess,
    JobStatus,
    JobStatusChanged,
    StopJob,
    StoppingSuccess,
)
from flykka.messages.graph.job_graph import (
    CheckpointingSettings,
    FailoverStrategyKind,
    FixedDelayRestartStrategyConfiguration,
    JobGraph,
)
from flykka.messages.tasks.task import CancelTask, ExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId, JobId
from tests.actors.job_cluster import JobCluster
from tests.actors.machines.graph.graphs import JOB, failure, graph_of, vertex

SOURCE, SINK = ExecutionAttemptId("job_source_0_0"), ExecutionAttemptId("job_sink_0_0")


def stop_job(cluster: JobCluster, job_id: JobId = JOB) -> None:
    cluster.job_manager.tell(StopJob(job_id=job_id, client=cluster.client))
    cluster.system.run_until_idle()


def test_a_stopped_job_has_finished_and_its_last_checkpoint_is_retained(cluster: JobCluster) -> None:
    cluster.run(cluster.graph(), slots=1)

    stop_job(cluster)
    cluster.acknowledge_checkpoint()
    too_early = cluster.received(cluster.client, StoppingSuccess)
    cluster.report_tasks(ExecutionState.FINISHED)

    path = str(cluster.folder / JOB / "chk-1")
    assert too_early == []
    assert cluster.received(cluster.client, StoppingSuccess) == [StoppingSuccess(job_id=JOB, checkpoint_path=path)]
    assert cluster.received(cluster.client, JobResultSuccess) == [JobResultSuccess(job_id=JOB, checkpoint_path=path)]
    assert CheckpointStorage(str(cluster.folder)).read_metadata(path).checkpoint_id == 1
    assert cluster.data_plane.keeps_staged == [False]


def test_every_stop_request_is_answered_and_one_checkpoint_is_taken(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)

    stop_job(cluster)
    stop_job(cluster)
    cluster.acknowledge_checkpoint()
    cluster.report_tasks(ExecutionState.FINISHED)

    assert len(cluster.received(task_manager, TriggerCheckpoint)) == 1
    assert len(cluster.received(cluster.client, StoppingSuccess)) == 2


def test_a_job_whose_final_checkpoint_is_declined_may_be_stopped_again(cluster: JobCluster) -> None:
    cluster.run(cluster.graph(), slots=1)

    stop_job(cluster)
    cluster.tell_job_master(DeclineCheckpoint(job_id=JOB, attempt=SINK, checkpoint_id=1, cause=failure("disk full")))
    refused = cluster.stopping_failure()
    stop_job(cluster)
    cluster.acknowledge_checkpoint(2)
    cluster.report_tasks(ExecutionState.FINISHED)

    assert refused == ("its last checkpoint 1 failed with CHECKPOINT_DECLINED: TestError: disk full; the job continues")
    assert [changed.status for changed in cluster.received(cluster.client, JobStatusChanged)] == [
        JobStatus.RUNNING,
        JobStatus.FINISHED,
    ]


def test_a_task_failure_during_a_stop_restarts_the_job(cluster: JobCluster) -> None:
    cluster.run(cluster.graph(restart=FixedDelayRestartStrategyConfiguration(attempts=1)), slots=1)
    stop_job(cluster)

    cluster.report(SINK, ExecutionState.FAILED, failure("boom"))
    cluster.report(SOURCE, ExecutionState.CANCELED)
    cluster.system.advance(1)

    assert cluster.stopping_failure() == "it became FAILING meanwhile: TestError: boom"
    assert cluster.last(cluster.client, JobStatusChanged).status is JobStatus.RUNNING
    assert len(cluster.received(cluster.client, CheckpointAborted)) == 1


def test_a_task_failure_after_the_final_checkpoint_restores_that_checkpoint(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(restart=FixedDelayRestartStrategyConfiguration(attempts=1)), slots=1)
    stop_job(cluster)
    cluster.acknowledge_checkpoint()

    cluster.report(SOURCE, ExecutionState.FINISHED)
    cluster.report(SINK, ExecutionState.FAILED, failure("cannot publish"))
    cluster.system.advance(1)

    assert "cannot publish" in cluster.stopping_failure()
    assert cluster.deployed(task_manager)[-1].restored_checkpoint_id == 1


def two_regions(cluster: JobCluster) -> JobGraph:
    graph = graph_of(
        vertex("one"),
        vertex("other"),
        restart=FixedDelayRestartStrategyConfiguration(attempts=1),
        failover=FailoverStrategyKind.REGION,
    )
    return replace(graph, checkpointing=CheckpointingSettings(directory=str(cluster.folder)))


def test_a_region_failure_during_a_stop_restarts_all_regions(cluster: JobCluster) -> None:
    task_manager = cluster.run(two_regions(cluster), slots=1)
    stop_job(cluster)

    cluster.report("job_one_0_0", ExecutionState.FAILED, failure("boom"))

    assert "boom" in cluster.stopping_failure()
    cancelled = [cancel.attempt for cancel in cluster.received(task_manager, CancelTask)]
    assert cancelled == ["job_other_0_0"]


def test_a_region_failure_after_an_aborted_stop_restarts_only_that_region(cluster: JobCluster) -> None:
    task_manager = cluster.run(two_regions(cluster), slots=1)
    stop_job(cluster)
    declined = DeclineCheckpoint(job_id=JOB, attempt=ExecutionAttemptId("job_one_0_0"), checkpoint_id=1)
    cluster.tell_job_master(declined)

    cluster.report("job_one_0_0", ExecutionState.FAILED, failure("boom"))

    assert "the job continues" in cluster.stopping_failure()
    assert cluster.received(task_manager, CancelTask) == []


def test_a_job_cancelled_during_a_stop_is_cancelled(cluster: JobCluster) -> None:
    cluster.run(cluster.graph(), slots=1)
    stop_job(cluster)

    cluster.cancel()
    cluster.report_tasks(ExecutionState.CANCELED)

    assert cluster.stopping_failure() == "it became CANCELLING meanwhile"
    assert cluster.last(cluster.client, JobResultFailure).checkpoint_path is None


def test_a_stop_fails_and_the_job_resumes_if_its_job_master_ends(cluster: JobCluster) -> None:
    cluster.run(cluster.graph(), slots=1)
    stop_job(cluster)
    cluster.acknowledge_checkpoint()

    cluster.system.kill(cluster.registration.job_master)

    assert cluster.stopping_failure() == (
        "the JobMaster of job ended unexpectedly; a new one continues from the latest checkpoint"
    )
    assert cluster.received(cluster.client, JobResultFailure) == []


def test_a_job_in_restart_delay_cannot_be_stopped(cluster: JobCluster) -> None:
    cluster.run(cluster.graph(restart=FixedDelayRestartStrategyConfiguration(delay_ms=1_000)), slots=1)
    cluster.report(SINK, ExecutionState.FAILED, failure())
    cluster.report(SOURCE, ExecutionState.CANCELED)

    stop_job(cluster)

    assert cluster.stopping_failure().startswith("it is RESTARTING: only a RUNNING job")


def test_a_job_that_waits_for_slots_stops_once_its_tasks_run(cluster: JobCluster) -> None:
    cluster.submit(cluster.graph())
    cluster.accept_job_master()
    task_manager = cluster.register_task_manager("tm-1")

    stop_job(cluster)
    cluster.offer("tm-1", 1)
    before = cluster.received(task_manager, TriggerCheckpoint)
    cluster.report_tasks(ExecutionState.RUNNING)

    assert before == []
    assert cluster.last(task_manager, TriggerCheckpoint).options.is_final


@pytest.mark.parametrize("job_id", [JobId("another"), JOB])
def test_a_nonexistent_or_ended_job_cannot_be_stopped(job_id: JobId, cluster: JobCluster) -> None:
    cluster.run(cluster.graph(), slots=1)
    cluster.cancel()
    cluster.report_tasks(ExecutionState.CANCELED)

    stop_job(cluster, job_id)

    assert cluster.stopping_failure() == f"job {job_id} does not exist or has ended: it cannot be stopped"


def test_a_stop_request_fails_at_the_end_of_the_cluster(cluster: JobCluster) -> None:
    cluster.run(cluster.graph(), slots=1)
    stop_job(cluster)

    cluster.job_manager.stop(block=False)
    cluster.system.run_until_idle()

    assert cluster.stopping_failure() == "its cluster is shut down"
