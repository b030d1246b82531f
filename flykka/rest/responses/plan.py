"""The graph of a job (Flink's JsonPlanGenerator): its vertices, and the edges that lead to each."""

from __future__ import annotations

from html import escape

from flykka.messages.graph.job_graph import JobEdge, JobGraph, JobVertex
from flykka.rest.responses.io_metrics import Json


def plan(graph: JobGraph) -> Json:
    """The plan. Consumers stand before their inputs, as Flink has them."""
    return {
        "jid": graph.job_id,
        "name": graph.name,
        "type": graph.job_type.value,
        "nodes": [_node(vertex) for vertex in reversed(graph.vertices)],
    }


def _node(vertex: JobVertex) -> Json:
    chain = "<br/>".join(
        f"{'' if not place else '+- '}{escape(operator.name)}" for place, operator in enumerate(vertex.operators)
    )
    node: Json = {
        "id": vertex.vertex_id,
        "parallelism": vertex.parallelism,
        "operator": "",
        "operator_strategy": "",
        "description": f"{chain}<br/>",
        "optimizer_properties": {},
    }
    if vertex.inputs:
        node["inputs"] = [_input(number, edge) for number, edge in enumerate(vertex.inputs)]
    return node


def _input(number: int, edge: JobEdge) -> Json:
    return {
        "num": number,
        "id": edge.source,
        "ship_strategy": edge.ship_strategy.value,
        "exchange": edge.result_partition_type.value.lower(),
    }
