"""Chains operators into tasks: Flink's chaining rules and the inheritance of slot sharing groups.

An edge is fused if its target has only this input, both strategies allow it, rows are forwarded in a pipelined
exchange, and both operators have the same parallelism and sharing group. A keyed edge is never fused, not even at
parallelism 1, because the downstream state is stored by key group. In a batch program a sink is also not fused into a
chain with other readers: the readers begin only when the chain has finished, but a sink commits when all tasks have
ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flykka.actors.machines.job_graph.stream_graph import (
    ChainingStrategy,
    ExchangeMode,
    StreamEdge,
    StreamGraph,
    StreamNode,
)
from flykka.messages.graph.job_graph import JobType, OperatorKind, ShipStrategy

DEFAULT_GROUP = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Operators fused into one vertex, in topological order. `reads` has the indexes of their inputs in `nodes`."""

    nodes: tuple[StreamNode, ...]
    reads: tuple[int | None, ...]
    group: str
    inputs: tuple[StreamEdge, ...]
    outputs: tuple[StreamEdge, ...]

    @property
    def head(self) -> StreamNode:
        return self.nodes[0]


def sharing_groups(graph: StreamGraph) -> dict[str, str]:
    """Return the effective slot sharing group of every uid: its own group, or else the group of all inputs if they
    agree.

    Raises `GraphError` as `StreamGraph.topological` does.
    """
    order = graph.topological()
    groups: dict[str, str] = {}
    for node in order:
        inherited = {groups[edge.source_uid] for edge in graph.inputs(node.uid)}
        if node.slot_sharing_group is not None:
            groups[node.uid] = node.slot_sharing_group
        elif len(inherited) == 1:
            groups[node.uid] = inherited.pop()
        else:
            groups[node.uid] = DEFAULT_GROUP
    return groups


def is_chainable(graph: StreamGraph, edge: StreamEdge, groups: dict[str, str]) -> bool:
    if edge.is_side_output:
        return True
    source, target = graph.node(edge.source_uid), graph.node(edge.target_uid)
    return (
        graph.chaining_enabled
        and len(graph.inputs(target.uid)) == 1
        and target.chaining is ChainingStrategy.ALWAYS
        and source.chaining is not ChainingStrategy.NEVER
        and edge.ship_strategy is ShipStrategy.FORWARD
        and source.parallelism == target.parallelism
        and groups[source.uid] == groups[target.uid]
        and edge.exchange_mode is not ExchangeMode.BATCH
    )


def chains(graph: StreamGraph) -> tuple[Chain, ...]:
    """Return the chains of a program, heads in topological order. Raises the errors of `StreamGraph.topological`."""
    groups = sharing_groups(graph)
    order = graph.topological()
    fused = {
        edge.target_uid: edge for node in order for edge in graph.outputs(node.uid) if is_chainable(graph, edge, groups)
    }
    if graph.job_type is JobType.BATCH:
        fused = _without_sinks_beside_outputs(graph, order, fused)
    members: dict[str, list[StreamNode]] = {}
    for uid, head in _heads(order, fused).items():
        members.setdefault(head, []).append(graph.node(uid))
    return tuple(_chain(graph, nodes, fused, groups) for nodes in members.values())


def _heads(order: Sequence[StreamNode], fused: Mapping[str, StreamEdge]) -> dict[str, str]:
    head_of: dict[str, str] = {}
    for node in order:
        head_of[node.uid] = head_of[fused[node.uid].source_uid] if node.uid in fused else node.uid
    return head_of


def _without_sinks_beside_outputs(
    graph: StreamGraph, order: Sequence[StreamNode], fused: Mapping[str, StreamEdge]
) -> dict[str, StreamEdge]:
    head_of = _heads(order, fused)
    edges = (edge for node in order for edge in graph.outputs(node.uid))
    read_by_others = {head_of[edge.source_uid] for edge in edges if fused.get(edge.target_uid) is not edge}
    return {
        uid: edge
        for uid, edge in fused.items()
        if graph.node(uid).kind is not OperatorKind.SINK or head_of[uid] not in read_by_others
    }


def _chain(graph: StreamGraph, nodes: list[StreamNode], fused: dict[str, StreamEdge], groups: dict[str, str]) -> Chain:
    place = {node.uid: index for index, node in enumerate(nodes)}
    outputs = [edge for node in nodes for edge in graph.outputs(node.uid) if fused.get(edge.target_uid) is not edge]
    return Chain(
        nodes=tuple(nodes),
        reads=tuple(place[fused[node.uid].source_uid] if node.uid in fused else None for node in nodes),
        group=groups[nodes[0].uid],
        inputs=graph.inputs(nodes[0].uid),
        outputs=tuple(outputs),
    )
