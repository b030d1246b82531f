"""Broadcast variables, and the operators that produce them and finish before the readers of the variables begin.

In a streaming job these operators are separate: they take no checkpoint, and after a restore they produce nothing,
because the readers have the variables in their state. Any other reader of their rows would get nothing after a restore.
"""

from __future__ import annotations

from collections.abc import Iterator

from flykka.actors.errors import GraphError
from flykka.actors.machines.job_graph.stream_graph import StreamEdge, StreamGraph
from flykka.messages.graph.job_graph import JobType, JobVertex


def feeding_broadcast_variables(graph: StreamGraph) -> frozenset[str]:
    """Return the uids of the operators of a streaming program that produce broadcast variables. Empty for a batch
    program.

    Raises:
        GraphError: another operator reads rows of one of these operators. The message names both.
    """
    if graph.job_type is JobType.BATCH:
        return frozenset()
    variables = [edge for edge in _edges(graph) if edge.broadcast_variable is not None]
    feeding: set[str] = set()
    ahead = [edge.source_uid for edge in variables]
    while ahead:
        uid = ahead.pop()
        if uid not in feeding:
            feeding.add(uid)
            ahead += [edge.source_uid for edge in graph.inputs(uid)]
    for edge in _edges(graph):
        if edge.source_uid in feeding and edge.broadcast_variable is None and edge.target_uid not in feeding:
            variable = next(each for each in variables if each.source_uid in _behind(graph, edge.source_uid))
            raise GraphError(
                f"rows of {edge.source_uid!r} become the broadcast variable {variable.broadcast_variable!r} of"
                f" {variable.target_uid!r}, and {edge.target_uid!r} reads them as well: in a streaming program the"
                " operators that produce a broadcast variable must have no other readers; read the source a second"
                " time with another from_source(...), or run the program in BATCH mode"
            )
    return frozenset(feeding)


def broadcast_gates(vertex: JobVertex) -> frozenset[int]:
    return frozenset(gate for gate, edge in enumerate(vertex.inputs) if edge.broadcast_variable is not None)


def _edges(graph: StreamGraph) -> Iterator[StreamEdge]:
    return (edge for node in graph.nodes for edge in graph.outputs(node.uid))


def _behind(graph: StreamGraph, uid: str) -> frozenset[str]:
    return frozenset((uid, *(node.uid for node in graph.downstream(uid))))
