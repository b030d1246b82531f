"""A job whose ResourceManager has ended: nobody starts another one, so the job fails and names it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flykka.messages.ids import ExecutionAttemptId
from flykka.messages.job import JobResultFailure, JobStatus, JobStatusChanged
from flykka.messages.job_graph import RestartStrategyConfiguration
from flykka.messages.slots import FreeSlot
from flykka.messages.task import CancelTask, ExecutionState
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.graph.graphs import failure
from tests.actors.job_cluster import JobCluster

SOURCE = ExecutionAttemptId("job_source_0_0")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[JobCluster]:
    with SeededSystem(5) as system:
        yield JobCluster(system, tmp_path / "checkpoints", files=3)


def statuses(cluster: JobCluster) -> list[JobStatus]:
    return [changed.status for changed in cluster.heard(cluster.client, JobStatusChanged)]


def test_a_job_fails_for_good_when_its_resource_manager_ends(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)

    cluster.system.kill(cluster.resource_manager)
    for cancel in cluster.heard(task_manager, CancelTask):
        cluster.report(cancel.attempt, ExecutionState.CANCELED)

    cause = cluster.last(cluster.client, JobResultFailure).cause
    assert (cause.type_name, cluster.resource_manager.path in cause.message) == ("ResourceManagerLostError", True)
    assert statuses(cluster) == [JobStatus.RUNNING, JobStatus.FAILING, JobStatus.FAILED]
    assert len(cluster.heard(task_manager, FreeSlot)) == 1


def test_a_job_that_is_to_restart_without_a_resource_manager_fails_instead(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(restart=RestartStrategyConfiguration(delay_ms=1_000)), slots=1)
    cluster.report(SOURCE, ExecutionState.FAILED, failure())
    for cancel in cluster.heard(task_manager, CancelTask):
        cluster.report(cancel.attempt, ExecutionState.CANCELED)

    cluster.system.kill(cluster.resource_manager)
    cluster.system.advance(1_000)

    assert cluster.last(cluster.client, JobResultFailure).cause.type_name == "ResourceManagerLostError"
    assert statuses(cluster)[2:] == [
        JobStatus.RESTARTING,
        JobStatus.CREATED,
        JobStatus.RUNNING,
        JobStatus.FAILING,
        JobStatus.FAILED,
    ]


def test_a_job_that_is_being_cancelled_needs_no_resource_manager(cluster: JobCluster) -> None:
    task_manager = cluster.run(cluster.graph(), slots=1)

    cluster.cancel()
    cluster.system.kill(cluster.resource_manager)
    for cancel in cluster.heard(task_manager, CancelTask):
        cluster.report(cancel.attempt, ExecutionState.CANCELED)

    assert statuses(cluster) == [JobStatus.RUNNING, JobStatus.CANCELLING, JobStatus.CANCELED]


def test_a_job_that_comes_behind_the_end_of_the_resource_manager_fails_at_once(cluster: JobCluster) -> None:
    cluster.system.kill(cluster.resource_manager)

    cluster.submit(cluster.graph())

    assert cluster.last(cluster.client, JobResultFailure).cause.type_name == "ResourceManagerLostError"
