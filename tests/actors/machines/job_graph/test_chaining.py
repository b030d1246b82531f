"""Chained operators run as one task in one slot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.errors import GraphError
from flykka.actors.machines.job_graph.chaining import chains, sharing_groups
from flykka.actors.machines.job_graph.stream_graph import ChainingStrategy, ExchangeMode, StreamEdge, StreamGraph
from flykka.messages.graph.job_graph import OperatorKind, ShipStrategy
from tests.actors.machines.job_graph.programs import edge, node, program


def fused(graph: StreamGraph) -> list[list[str]]:
    return [[each.uid for each in chain.nodes] for chain in chains(graph)]


def pair(between: StreamEdge, *, parallelism: int = 1) -> StreamGraph:
    graph = StreamGraph()
    graph.add_node(node("in", OperatorKind.SOURCE, parallelism=parallelism))
    graph.add_node(node("out", parallelism=parallelism))
    graph.add_edge(between)
    return graph


@pytest.mark.parametrize("strategy", sorted(set(ShipStrategy) - {ShipStrategy.FORWARD, ShipStrategy.HASH}))
def test_only_forward_edges_are_chained_even_at_parallelism_one(strategy: ShipStrategy) -> None:
    assert fused(pair(edge("in", "out", strategy))) == [["in"], ["out"]]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (ExchangeMode.UNDEFINED, [["in", "out"]]),
        (ExchangeMode.PIPELINED, [["in", "out"]]),
        (ExchangeMode.BATCH, [["in"], ["out"]]),
    ],
)
def test_operators_with_a_blocking_exchange_are_not_chained(mode: ExchangeMode, expected: list[list[str]]) -> None:
    assert fused(pair(replace(edge("in", "out"), exchange_mode=mode))) == expected


def test_a_side_output_is_always_chained() -> None:
    graph = StreamGraph(chaining_enabled=False)
    graph.add_node(node("in", OperatorKind.SOURCE))
    graph.add_node(node("windows", chaining=ChainingStrategy.NEVER))
    graph.add_node(node("late"))
    graph.add_edge(edge("in", "windows"))
    graph.add_edge(replace(edge("windows", "late"), is_side_output=True))

    assert fused(graph) == [["in"], ["windows", "late"]]


def test_an_explicit_slot_sharing_group_overrides_the_inherited_one() -> None:
    graph = program(
        "in > map, map > back, back > out",
        node("in", OperatorKind.SOURCE, group="apart"),
        node("back", group="default"),
    )

    assert sharing_groups(graph) == {"in": "apart", "map": "apart", "back": "default", "out": "default"}
    assert fused(graph) == [["in", "map"], ["back", "out"]]


def test_a_cycle_has_no_slot_sharing_groups_and_no_chains() -> None:
    graph = program("in > a, a > b, b > a")

    with pytest.raises(GraphError, match="a, b"):
        sharing_groups(graph)
    with pytest.raises(GraphError, match="a, b"):
        chains(graph)
