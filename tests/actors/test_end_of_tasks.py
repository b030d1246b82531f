"""The JobMaster after all tasks have finished, and its reply to a task that does not find its producer."""

from __future__ import annotations

from flykka.messages.control.job import JobResultFailure, JobResultSuccess
from flykka.messages.graph.job_graph import NoRestartStrategyConfiguration
from flykka.messages.tasks.task import (
    ExecutionState,
    NotifyEndOfData,
    PartitionProducerState,
    RequestPartitionProducerState,
    SubmitTask,
)
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId, ResultPartitionId
from flykka.messages.wire.ref import Ref
from tests.actors.job_cluster import JobCluster
from tests.actors.machines.graph.graphs import JOB

SOURCE, SINK = ExecutionAttemptId("job_source_0_0"), ExecutionAttemptId("job_sink_0_0")


def finish_tasks(cluster: JobCluster, *, reads_all: bool = True) -> Ref:
    task_manager = cluster.run(cluster.graph(restart=NoRestartStrategyConfiguration()), slots=1)
    for attempt in (SOURCE, SINK) if reads_all else ():
        cluster.tell_job_master(NotifyEndOfData(attempt=attempt))
    for attempt in (SOURCE, SINK):
        cluster.report(attempt, ExecutionState.FINISHED)
    return task_manager


def test_vertices_are_finalized_once_before_the_job_is_finished(cluster: JobCluster) -> None:
    finish_tasks(cluster)

    assert cluster.data_plane.finalized == [JobVertexId("source"), JobVertexId("sink")]
    assert cluster.received(cluster.client, JobResultSuccess) == [JobResultSuccess(job_id=JOB)]


def test_vertices_of_a_stopped_job_are_not_finalized(cluster: JobCluster) -> None:
    finish_tasks(cluster, reads_all=False)

    assert cluster.data_plane.finalized == []
    assert cluster.received(cluster.client, JobResultSuccess) == [JobResultSuccess(job_id=JOB)]


def test_a_failed_finalization_fails_the_job(cluster: JobCluster) -> None:
    cluster.data_plane.finalization_failures.append(OSError("the folder is gone"))

    finish_tasks(cluster)

    (failed,) = cluster.received(cluster.client, JobResultFailure)
    assert (failed.cause.type_name, failed.cause.message) == ("OSError", "the folder is gone")


def test_a_task_with_a_missing_partition_is_sent_the_producers_state(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)
    wanted, unknown = ResultPartitionId(f"{SOURCE}:0"), ResultPartitionId("foreign_source_0_0:0")

    for partition in (wanted, unknown):
        cluster.tell_job_master(RequestPartitionProducerState(attempt=SINK, partition_id=partition))

    known, nobody = cluster.received(task_manager, PartitionProducerState)
    assert (known.partition_id, known.state) == (wanted, ExecutionState.RUNNING)
    assert nobody.failure is not None
    assert len(cluster.received(task_manager, SubmitTask)) == 2
