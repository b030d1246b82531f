"""Job graphs as JSON in the format of Flink's JsonPlanGenerator, which its web interface displays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flykka.messages.graph.job_graph import JobGraph, JobVertex, ShipStrategy


def json_plan(job_graph: JobGraph) -> dict[str, Any]:
    """Return the plan with `jid`, `name` and `nodes`: one node for each vertex, with its inputs."""
    return {
        "jid": job_graph.job_id,
        "name": job_graph.name,
        "nodes": [vertex_node(vertex, vertex.name) for vertex in job_graph.vertices],
    }


def vertex_node(vertex: JobVertex, description: str) -> dict[str, Any]:
    inputs = [input_from(edge.source, edge.ship_strategy, edge.result_partition_type.lower()) for edge in vertex.inputs]
    return node(vertex.vertex_id, vertex.parallelism, description, inputs)


def node(node_id: str, parallelism: int, description: str, inputs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    plan_node: dict[str, Any] = {
        "id": node_id,
        "parallelism": parallelism,
        "operator": "",
        "operator_strategy": "",
        "description": description,
        "optimizer_properties": {},
    }
    if inputs:
        plan_node["inputs"] = [{"num": number, **each} for number, each in enumerate(inputs)]
    return plan_node


def input_from(source: str, strategy: ShipStrategy, exchange: str) -> dict[str, Any]:
    return {"id": source, "ship_strategy": strategy.value, "exchange": exchange}
