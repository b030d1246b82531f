"""A JobMaster assigns splits to readers. Late, duplicate and foreign requests get no split, and no split is lost."""

from __future__ import annotations

from dataclasses import replace

from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint, OperatorCoordinatorState
from flykka.messages.control.checkpoint_coordination import RestoreState
from flykka.messages.control.job import CheckpointCompleted, JobResultFailure, JobStatus, JobStatusChanged, SubmitJob
from flykka.messages.graph.job_graph import FixedDelayRestartStrategyConfiguration, JobGraph
from flykka.messages.tasks.source import AddSplits, SplitsDiscovered
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, OperatorId
from tests.actors.job_cluster import JobCluster, file_split
from tests.actors.machines.graph.graphs import JOB, failure

SOURCE, SINK = ExecutionAttemptId("job_source_0_0"), ExecutionAttemptId("job_sink_0_0")


def test_an_attempt_of_another_vertex_gets_no_split(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)

    cluster.request_splits(SINK)

    assert cluster.received(task_manager, AddSplits) == []


def test_an_unknown_attempt_gets_no_split(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)

    cluster.request_splits("job_source_0_7")
    cluster.request_splits("another-job_source_0_0")

    assert cluster.received(task_manager, AddSplits) == []


def test_an_attempt_in_cancellation_gets_no_split(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)
    cluster.cancel()

    cluster.request_splits()

    assert cluster.received(task_manager, AddSplits) == []


def test_a_pending_request_of_a_failed_attempt_gets_no_split(cluster: JobCluster) -> None:
    graph = cluster.graph(restart=FixedDelayRestartStrategyConfiguration(attempts=1, delay_ms=0))
    task_manager = cluster.run(graph, slots=1)
    cluster.request_splits(count=9)

    cluster.report(SOURCE, ExecutionState.FAILED, failure())
    cluster.report(SINK, ExecutionState.CANCELED)
    cluster.system.advance(1)
    before = len(cluster.received(task_manager, AddSplits))
    cluster.request_splits("job_source_0_1", count=1)

    handed = cluster.received(task_manager, AddSplits)[before:]
    assert [(each.attempt, each.splits) for each in handed] == [("job_source_0_1", (file_split("file-0"),))]


def test_a_duplicate_discovery_does_not_assign_splits_twice(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)
    again = SplitsDiscovered(
        operator_id=OperatorId("source"), splits=(file_split("file-0"),), finished=False, begun_at=b"", position=b"1"
    )

    cluster.tell_job_master(again)
    cluster.request_splits(count=9)
    cluster.system.advance(60_000)

    handed = [each.split_id for message in cluster.received(task_manager, AddSplits) for each in message.splits]
    assert handed == ["file-0", "file-1", "file-2"]


def test_a_duplicate_restore_takes_no_splits_from_running_readers(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)
    cluster.request_splits()

    cluster.tell_job_master(RestoreState(job_id=JOB, checkpoint=None, version=1))
    cluster.request_splits(count=9)
    cluster.system.advance(60_000)

    handed = [each.split_id for message in cluster.received(task_manager, AddSplits) for each in message.splits]
    assert handed == ["file-0", "file-1", "file-2"]


def test_a_checkpoint_with_unreadable_source_state_fails_the_job_permanently(cluster: JobCluster) -> None:
    cluster.run(checkpointed(cluster), slots=1)
    cluster.system.advance(60)
    for attempt in (SOURCE, SINK):
        cluster.tell_job_master(AcknowledgeCheckpoint(job_id=JOB, attempt=attempt, checkpoint_id=1, state=None))
    storage = CheckpointStorage(str(cluster.folder))
    kept = storage.read_metadata(cluster.last(cluster.client, CheckpointCompleted).path)
    garbage = OperatorCoordinatorState(operator_id=OperatorId("source"), data=b"garbage")
    bad = storage.write_metadata(replace(kept, coordinator_states=(garbage,)), str(cluster.folder / "bad"))
    cluster.cancel()
    for attempt in (SOURCE, SINK):
        cluster.report(attempt, ExecutionState.CANCELED)

    another = replace(checkpointed(cluster), job_id=JobId("another"))
    cluster.job_manager.tell(SubmitJob(job_graph=another, client=cluster.client, restore_path=bad))
    cluster.accept_job_master()
    cluster.system.advance(60_000)

    failed = cluster.last(cluster.client, JobResultFailure)
    assert failed.cause.type_name == "RestoreError"
    assert "the checkpoint's state of a source cannot be read" in failed.cause.message
    assert cluster.last(cluster.client, JobStatusChanged).status is JobStatus.FAILED


def checkpointed(cluster: JobCluster) -> JobGraph:
    graph = cluster.graph(restart=FixedDelayRestartStrategyConfiguration(attempts=3, delay_ms=0))
    return replace(graph, checkpointing=replace(graph.checkpointing, interval_ms=50))
