"""A job starts from its own last checkpoint or from a specified one, with all state or without the unclaimed state."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from shutil import rmtree

import pytest

from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.actors.high_availability.embedded import EmbeddedStore
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint, TriggerCheckpoint
from flykka.messages.control.job import CheckpointCompleted, JobRestored, JobResultFailure, JobSubmitSuccess, SubmitJob
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.tasks.source import AddSplits
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import JobId, OperatorId
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.drivers import Driver
from tests.actors.job_cluster import JobCluster, file_split
from tests.actors.machines.graph.graphs import JOB, failure
from tests.actors.test_job_master import SINK, SOURCE, checkpointed

ANOTHER = JobId("another")
"""A second job id, because the submission of a known job is answered with its outcome."""


def retained(cluster: JobCluster) -> str:
    """Return the path of the retained checkpoint of a cancelled job, with state of the operator `source`."""
    cluster.run(checkpointed(cluster, interval_ms=50), slots=1)
    cluster.system.advance(60)
    cluster.acknowledge(SOURCE)
    cluster.acknowledge(SINK)
    storage = CheckpointStorage(str(cluster.folder))
    completed = storage.read_metadata(cluster.last(cluster.client, CheckpointCompleted).path)
    kept = storage.write_metadata(completed, str(cluster.folder / "kept"))
    cluster.cancel()
    for attempt in (SOURCE, SINK):
        cluster.report(attempt, ExecutionState.CANCELED)
    return kept


def test_a_job_whose_checkpoint_is_unreadable_is_refused_without_leftovers(cluster: JobCluster) -> None:
    nowhere = str(cluster.folder / "nowhere")

    cluster.job_manager.tell(SubmitJob(job_graph=cluster.graph(), client=cluster.client, restore_path=nowhere))
    cluster.system.run_until_idle()

    assert nowhere in cluster.last(cluster.client, JobResultFailure).cause.message
    assert cluster.received(cluster.client, JobSubmitSuccess) == []
    assert not cluster.folder.exists()


def test_a_running_job_is_taken_over_without_its_deleted_initial_checkpoint(tmp_path: Path) -> None:
    store = EmbeddedStore()
    with SeededSystem(5) as system, SeededSystem(6) as other:
        first, second = (Driver(each, tmp_path / "checkpoints", store, str(each)) for each in (system, other))
        elsewhere = retained(first)
        another = replace(checkpointed(first, interval_ms=50), job_id=ANOTHER)
        submission = SubmitJob(job_graph=another, client=first.client, restore_path=elsewhere)
        first.job_manager.tell(submission)
        task_manager = first.bring_to_running("tm-2")
        system.advance(60)
        taken = first.last(task_manager, TriggerCheckpoint).checkpoint_id
        for descriptor in first.deployed(task_manager):
            answer = AcknowledgeCheckpoint(job_id=ANOTHER, attempt=descriptor.attempt, checkpoint_id=taken)
            first.tell_job_master(answer)
        rmtree(elsewhere)
        first.services.close()

        second.job_manager.tell(replace(submission, client=second.client))
        second.bring_to_running("tm-1")

        assert second.received(second.client, JobSubmitSuccess) == [JobSubmitSuccess(job_id=ANOTHER)]
        assert second.last(second.client, JobRestored).checkpoint_id == taken


def test_a_restarted_job_resumes_from_its_last_checkpoint(cluster: JobCluster) -> None:
    task_manager = cluster.run(checkpointed(cluster, interval_ms=50), slots=1)
    cluster.request_splits()
    cluster.system.advance(60)
    cluster.acknowledge(SOURCE)
    cluster.acknowledge(SINK)

    cluster.report(SINK, ExecutionState.FAILED, failure())
    cluster.report(SOURCE, ExecutionState.CANCELED)
    cluster.system.advance(1)
    cluster.request_splits("job_source_0_1")
    cluster.system.advance(100)

    assert cluster.last(cluster.client, CheckpointCompleted).checkpoint_id == 1
    assert cluster.last(cluster.client, JobRestored).checkpoint_id == 1
    assert cluster.deployed(task_manager)[-1].restored_checkpoint_id == 1
    assert cluster.last(task_manager, AddSplits).splits == (file_split("file-1"),)


def test_a_job_starts_from_a_specified_checkpoint(cluster: JobCluster) -> None:
    elsewhere = retained(cluster)

    another = replace(checkpointed(cluster), job_id=ANOTHER)
    cluster.job_manager.tell(SubmitJob(job_graph=another, client=cluster.client, restore_path=elsewhere))
    cluster.accept_job_master()
    task_manager = cluster.register_task_manager("tm-2")
    cluster.offer("tm-2", 1)

    assert cluster.last(cluster.client, JobRestored).checkpoint_id == 1
    assert cluster.deployed(task_manager)[0].restored_checkpoint_id == 1


def with_another_source(job_graph: JobGraph) -> JobGraph:
    source, sink = job_graph.vertices
    (operator,) = source.operators
    another = replace(operator, operator_id=OperatorId("another"))
    return replace(
        job_graph,
        job_id=ANOTHER,
        vertices=(replace(source, operators=(another,), outputs=(another.operator_id,)), sink),
    )


def test_unclaimed_state_is_dropped_with_its_name_if_allowed(
    cluster: JobCluster, caplog: pytest.LogCaptureFixture
) -> None:
    path = retained(cluster)

    with caplog.at_level(logging.INFO, logger="flykka"):
        cluster.job_manager.tell(
            SubmitJob(
                job_graph=with_another_source(checkpointed(cluster)),
                client=cluster.client,
                restore_path=path,
                allow_non_restored_state=True,
            )
        )
        cluster.accept_job_master()
        cluster.register_task_manager("tm-2")
        cluster.offer("tm-2", 1)

    assert cluster.last(cluster.client, JobRestored).checkpoint_id == 1
    assert "skipped the checkpoint's state of operators that the job does not have: source" in caplog.text


def test_unclaimed_state_is_refused_unless_allowed(cluster: JobCluster) -> None:
    path = retained(cluster)

    cluster.job_manager.tell(
        SubmitJob(job_graph=with_another_source(checkpointed(cluster)), client=cluster.client, restore_path=path)
    )
    cluster.system.run_until_idle()

    failed = cluster.last(cluster.client, JobResultFailure)
    assert failed.cause.type_name == "StateWithoutOperatorError"
    assert [success.job_id for success in cluster.received(cluster.client, JobSubmitSuccess)] == [JOB]
    assert not (cluster.folder / ANOTHER).exists()
