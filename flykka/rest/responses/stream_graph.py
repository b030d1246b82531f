"""The graph of a job by its operators (Flink's StreamGraph as JSON): each with the vertex whose chain it is in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from flykka.messages.graph.job_graph import JobEdge, JobGraph, JobVertex, Operator, OperatorKind, ShipStrategy
from flykka.messages.wire.ids import OperatorId
from flykka.rest.responses.io_metrics import Json

_WITHIN_A_TASK = "undefined"
"""Flink's exchange of an edge that nobody has said anything of: rows are handed on in a chain, batch by batch."""


def stream_graph(graph: JobGraph) -> Json:
    """The operators in topological order. All of them are in a vertex: none is pending, as where a graph grows."""
    producers = {
        (vertex.vertex_id, number): operator
        for vertex in graph.vertices
        for number, operator in enumerate(vertex.outputs)
    }
    return {
        "jid": graph.job_id,
        "name": graph.name,
        "type": graph.job_type.value,
        "nodes": [
            _node(operator, vertex, [producers[edge.source, edge.source_output] for edge in vertex.inputs])
            for vertex in graph.vertices
            for operator in vertex.operators
        ],
    }


def _node(operator: Operator, vertex: JobVertex, upstream: Sequence[OperatorId]) -> Json:
    node: Json = {
        "id": operator.operator_id,
        "parallelism": vertex.parallelism,
        "operator": "",
        "operator_strategy": "",
        "description": f"{escape(operator.name)}<br/>",
        "optimizer_properties": {},
        "job_vertex_id": vertex.vertex_id,
    }
    if inputs := list(_inputs(operator, vertex, upstream)):
        node["inputs"] = [{"num": number, **each} for number, each in enumerate(inputs)]
    return node


def _inputs(operator: Operator, vertex: JobVertex, upstream: Sequence[OperatorId]) -> Iterator[Json]:
    if operator.input_operator is not None:
        before = vertex.operators[operator.input_operator]
        yield _edge(before.operator_id, ShipStrategy.FORWARD, _WITHIN_A_TASK)
    elif operator.kind is not OperatorKind.SOURCE:
        for edge, source in zip(vertex.inputs, upstream, strict=True):
            yield _edge(source, edge.ship_strategy, _exchange(edge))


def _edge(source: OperatorId, strategy: ShipStrategy, exchange: str) -> Json:
    return {"id": source, "ship_strategy": strategy.value, "exchange": exchange}


def _exchange(edge: JobEdge) -> str:
    return edge.result_partition_type.value.lower()
