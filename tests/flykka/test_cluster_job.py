"""A client that reconnects to a job of the cluster, submitted by itself or another client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flykka.cluster.cluster_settings import ClusterSettings
from flykka.cluster.local_cluster import LocalCluster
from flykka.errors import JobSubmissionError, UnknownJobError
from flykka.messages.wire.ids import JobId
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.machines.graph.graphs import graph_of, vertex
from tests.actors.whole_cluster import ALL_FILES, Names

GRAPH = graph_of(vertex("source", outputs=1), vertex("sink", reads=("source",)))


@pytest.fixture
def data_plane() -> Names:
    return Names()


@pytest.fixture
def cluster(data_plane: Names) -> Iterator[LocalCluster]:
    with (
        SeededSystem(4) as system,
        LocalCluster(data_plane, ClusterSettings(slots_per_task_manager=2), system=system) as cluster,
    ):
        yield cluster


def test_a_job_is_found_by_its_id_and_can_be_awaited(cluster: LocalCluster, data_plane: Names) -> None:
    submitted = cluster.submit(GRAPH, attached=False)
    submitted.wait_submitted()

    found = cluster.job(str(submitted.job_id))

    assert (found.job_id, found.job_name) == (submitted.job_id, submitted.job_name)
    assert found.wait(timeout=30).job_id == submitted.job_id
    assert data_plane.sink.published == ALL_FILES


def test_a_job_whose_savepoint_cannot_be_loaded_is_not_accepted(cluster: LocalCluster, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "savepoint-1")

    client = cluster.submit(GRAPH, nowhere)

    with pytest.raises(JobSubmissionError, match=f"was refused: CheckpointFileNotFoundError: {nowhere}"):
        client.wait_submitted()
    assert client.done()


def test_an_unknown_or_expired_job_is_refused_by_name(cluster: LocalCluster) -> None:
    with pytest.raises(UnknownJobError, match="no job 'nobody' runs on this cluster"):
        cluster.job("nobody")

    client = cluster.submit(GRAPH)
    client.wait(timeout=30)

    with pytest.raises(UnknownJobError, match="it has ended, or never"):
        cluster.job(JobId(client.job_id))
