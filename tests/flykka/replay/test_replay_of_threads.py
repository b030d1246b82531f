"""Jobs that ran on real threads replay turn by turn, even if a TaskManager was killed meanwhile."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from flykka import LocalCluster, Replayer
from flykka.cluster.cluster_settings import ClusterSettings
from flykka.messages.control.job import CheckpointCompleted, JobRestored, JobStatus
from flykka.messages.graph.job_graph import CheckpointingSettings
from flykka.messages.wire.message import Message
from tests.actors.machines.graph.graphs import graph_of, vertex
from tests.actors.whole_cluster import Names


@pytest.mark.slow
@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_job_whose_task_manager_is_killed_replays(parallelism: int, tmp_path: Path) -> None:
    recorded = tmp_path / "job.trace"
    graph = graph_of(vertex("source", parallelism, outputs=1), vertex("sink", parallelism, reads=("source",)))
    checkpointing = CheckpointingSettings(directory=str(tmp_path / "checkpoints"), interval_ms=50)
    settings = ClusterSettings(task_managers=2, slots_per_task_manager=1, record=str(recorded))
    completed, restored = threading.Event(), threading.Event()

    def hear(message: Message) -> None:
        if isinstance(message, CheckpointCompleted):
            completed.set()
        elif isinstance(message, JobRestored):
            restored.set()

    with LocalCluster(Names(), settings) as cluster:
        client = cluster.submit(replace(graph, checkpointing=checkpointing))
        client.add_listener(hear)
        assert completed.wait(timeout=20)
        cluster.kill_task_manager(busy_task_manager(cluster))
        client.wait(timeout=20)
        assert client.status is JobStatus.FINISHED

    result = Replayer().replay(recorded, raise_on_divergence=True)

    assert restored.is_set()
    assert result.truncated is None
    assert result.compared > 300


def busy_task_manager(cluster: LocalCluster) -> str:
    """Return a TaskManager that runs tasks; the job needs only one of the two TaskManagers."""
    parents = {cell.parent.name for cell in cluster.system.cells.living() if cell.parent is not None}
    return next(name for name in cluster.task_managers() if name in parents)
