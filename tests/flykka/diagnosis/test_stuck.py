"""On real threads, an actor that is stuck in its turn does not delay the response, and the response names the actor."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from flykka.cluster.cluster_settings import ClusterSettings
from flykka.cluster.local_cluster import LocalCluster
from flykka.messages.graph.job_graph import CheckpointingSettings, ShipStrategy
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.runtime.props import Props
from tests.actors.machines.graph.graphs import graph_of, vertex
from tests.actors.whole_cluster import Names

pytestmark = pytest.mark.slow

PATIENCE = 30.0
"""The number of seconds that a test waits for an effect that it has triggered."""


class StuckNames(Names):
    """Makes the sink's task wait in its turn until the gate opens."""

    def __init__(self) -> None:
        super().__init__()
        self.is_stuck = threading.Event()
        self.gate = threading.Event()

    def bridge_props(self, descriptor: TaskDeploymentDescriptor) -> Props:
        if descriptor.inputs:
            self.is_stuck.set()
            self.gate.wait(PATIENCE)
        return super().bridge_props(descriptor)


def test_a_stuck_task_is_named_in_the_diagnosis(tmp_path: Path) -> None:
    data_plane = StuckNames()
    sink = vertex("sink", 1, reads=("source",), ship_strategy=ShipStrategy.HASH)
    checkpointing = CheckpointingSettings(directory=str(tmp_path))
    graph = replace(graph_of(vertex("source", 1, outputs=1), sink), checkpointing=checkpointing)

    with LocalCluster(data_plane, ClusterSettings(slots_per_task_manager=1)) as cluster:
        client = cluster.submit(graph)
        assert data_plane.is_stuck.wait(PATIENCE)
        why = client.why(timeout=3.0)
        data_plane.gate.set()

    assert "sink (1/1)" in why.answer
    assert "it has not answered for 3 s" in why.answer
    assert ("silent", "sink (1/1)") in why.facts
    assert [each.state for each in why.attempts if each.name == "sink (1/1)"] == ["DEPLOYING"]
