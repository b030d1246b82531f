"""The plan of a job in the JSON format that Flink's web interface reads."""

from __future__ import annotations

from flykka.actors.machines.job_graph.json_plan import json_plan
from flykka.messages.graph.job_graph import ShipStrategy
from tests.actors.machines.graph.graphs import graph_of, vertex


def test_a_node_lists_its_inputs_and_their_ship_strategies() -> None:
    graph = graph_of(
        vertex("source", 4, outputs=1), vertex("sink", 2, reads=("source",), ship_strategy=ShipStrategy.RESCALE)
    )

    plan = json_plan(graph)

    assert (plan["jid"], plan["name"]) == ("job", "job")
    assert plan["nodes"] == [
        {
            "id": "source",
            "parallelism": 4,
            "operator": "",
            "operator_strategy": "",
            "description": "source",
            "optimizer_properties": {},
        },
        {
            "id": "sink",
            "parallelism": 2,
            "operator": "",
            "operator_strategy": "",
            "description": "sink",
            "optimizer_properties": {},
            "inputs": [{"num": 0, "id": "source", "ship_strategy": "RESCALE", "exchange": "pipelined_bounded"}],
        },
    ]
