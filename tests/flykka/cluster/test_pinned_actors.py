"""The long-lived actors of a cluster are Pykka's threading actors; the many short-lived actors share a pool."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flykka.cluster.cluster_settings import ClusterSettings
from flykka.cluster.local_cluster import LocalCluster
from flykka.messages.graph.job_graph import CheckpointingSettings
from tests.actors.machines.graph.graphs import graph_of, vertex
from tests.actors.pykka_loops import PykkaLoops
from tests.actors.whole_cluster import Names


@pytest.mark.slow
def test_the_actors_of_a_cluster_run_in_pykkas_own_loop(tmp_path: Path) -> None:
    graph = graph_of(vertex("source", 2, outputs=1), vertex("sink", 2, reads=("source",)))
    settings = ClusterSettings(task_managers=2, slots_per_task_manager=1)

    with LocalCluster(Names(), settings) as cluster:
        loops = PykkaLoops(cluster.system)
        client = cluster.submit(replace(graph, checkpointing=CheckpointingSettings(directory=str(tmp_path))))
        client.wait(timeout=30)

    loops.assert_pinned("job-manager", "task-manager-", "checkpoint-coordinator-de-activator")
    assert loops.in_loop["/user/resource-manager"] == {False}
    assert [found for path, found in loops.in_loop.items() if path.endswith("/bridge")] == [{False}] * 4
