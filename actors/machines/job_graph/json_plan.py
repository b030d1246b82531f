"""A job graph as JSON, in the shape that Flink's JsonPlanGenerator gives it and its web interface draws."""

from __future__ import annotations

from typing import Any

from flykka.messages.graph.job_graph import JobEdge, JobGraph, JobVertex


def json_plan(job_graph: JobGraph) -> dict[str, Any]:
    """`jid`, `name` and the `nodes`: a vertex each, with what it reads by whom and how."""
    return {
        "jid": job_graph.job_id,
        "name": job_graph.name,
        "nodes": [_node(vertex) for vertex in job_graph.vertices],
    }


def _node(vertex: JobVertex) -> dict[str, Any]:
    node: dict[str, Any] = {
        "id": vertex.vertex_id,
        "parallelism": vertex.parallelism,
        "operator": "",
        "operator_strategy": "",
        "description": vertex.name,
        "optimizer_properties": {},
    }
    if vertex.inputs:
        node["inputs"] = [_input(number, edge) for number, edge in enumerate(vertex.inputs)]
    return node


def _input(number: int, edge: JobEdge) -> dict[str, Any]:
    return {
        "num": number,
        "id": edge.source,
        "ship_strategy": edge.ship_strategy.value,
        "exchange": edge.result_partition_type.lower(),
    }
