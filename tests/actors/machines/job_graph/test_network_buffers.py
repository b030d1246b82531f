"""The minimum number of network buffers in a job's plan equals the minimum that the TaskManager requires."""

from __future__ import annotations

import pytest

from flykka.actors.errors import NetworkBuffersExhaustedError
from flykka.actors.machines.exchange.shuffle_environment import NetworkSettings, ShuffleEnvironment
from flykka.actors.machines.job_graph.wiring import TaskMinimum, task_minima
from flykka.messages.graph.job_graph import ShipStrategy
from flykka.messages.wire.ids import ExecutionAttemptId
from tests.actors.machines.graph.graphs import graph_of, vertex


def test_the_minimum_counts_buffers_for_readers_outputs_and_exclusive_credits() -> None:
    graph = graph_of(
        vertex("source", 2, outputs=1),
        vertex("sums", 3, reads=("source",), outputs=1, ship_strategy=ShipStrategy.HASH),
        vertex("sink", 3, reads=("sums",), ship_strategy=ShipStrategy.FORWARD),
    )

    minima = list(task_minima(graph, buffers_per_channel=2))

    assert [minimum.buffers for minimum in minima] == [4, 4, 6, 6, 6, 2, 2, 2]
    assert minima[0] == TaskMinimum(task="source (1/2)", buffers=4)


def test_a_task_manager_accepts_a_task_only_with_its_minimum_of_buffers() -> None:
    needed = 3 + 1 + 2 * 4

    ShuffleEnvironment(NetworkSettings(network_buffers=needed)).register_task(ExecutionAttemptId("a"), [3], [4])

    with pytest.raises(NetworkBuffersExhaustedError):
        ShuffleEnvironment(NetworkSettings(network_buffers=needed - 1)).register_task(ExecutionAttemptId("a"), [3], [4])
