"""Valid programs are accepted; invalid ones are refused with the uid at fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from flykka.actors.errors import GraphError
from flykka.actors.machines.job_graph.stream_graph import StreamGraph, StreamNode
from flykka.messages.graph.job_graph import OperatorKind, OperatorRef, ShipStrategy
from tests.actors.machines.job_graph.programs import edge, node, program


def test_operators_are_sorted_after_all_their_inputs() -> None:
    graph = StreamGraph()
    for name in ("sink", "join", "right", "left"):
        graph.add_node(node(name, OperatorKind.SOURCE if name in ("left", "right") else OperatorKind.STATELESS))
    for source, target in (("join", "sink"), ("left", "join"), ("right", "join")):
        graph.add_edge(edge(source, target))

    order = [each.uid for each in graph.topological()]

    assert order == ["right", "left", "join", "sink"]


def test_every_reachable_operator_is_listed_once_as_downstream() -> None:
    graph = program("a > b, a > c, b > d, c > d")

    assert [each.uid for each in graph.downstream("a")] == ["b", "c", "d"]
    assert [each.uid for each in graph.downstream("d")] == []


def test_a_stream_united_with_itself_is_two_inputs() -> None:
    graph = program("a > b, a > b")

    assert len(set(graph.inputs("b"))) == 2


def hashed(uid: str) -> StreamNode:
    return replace(node(uid), uid_hash="0" * 32)


def add_both(graph: StreamGraph, *nodes: StreamNode) -> None:
    for each in nodes:
        graph.add_node(each)


REFUSED: dict[str, tuple[Callable[[StreamGraph], object], str]] = {
    "a uid is taken": (lambda graph: graph.add_node(node("b")), "'b'"),
    "no parallelism": (lambda graph: graph.add_node(node("d", parallelism=0)), "'d' is 0"),
    "no maximum": (lambda graph: graph.add_node(node("d", max_parallelism=0)), "'d' is 0"),
    "maximum too large": (lambda graph: graph.add_node(node("d", max_parallelism=32_769)), "'d' is 32769"),
    "a uid hash is taken": (
        lambda graph: add_both(graph, hashed("d"), hashed("e")),
        "'d' and 'e' have the same uid hash",
    ),
    "unknown source": (lambda graph: graph.add_edge(edge("nobody", "b")), "'nobody'"),
    "unknown target": (lambda graph: graph.add_edge(edge("a", "nobody")), "'nobody'"),
    "into a source": (lambda graph: graph.add_edge(edge("b", "a")), "'b' -> 'a'"),
    "out of a sink": (lambda graph: graph.add_edge(edge("c", "b")), "'c' -> 'b'"),
    "forward to another parallelism": (lambda graph: graph.add_edge(edge("a", "wide")), "'a' -> 'wide'"),
    "hash without keys": (lambda graph: graph.add_edge(edge("a", "wide", ShipStrategy.HASH)), "'a' -> 'wide'"),
    "keys without hash": (
        lambda graph: graph.add_edge(
            edge("a", "wide", ShipStrategy.BROADCAST, key_by=OperatorRef(uid="a", fingerprint=""))
        ),
        "'a' -> 'wide'",
    ),
}


@pytest.mark.parametrize(("build", "named"), REFUSED.values(), ids=REFUSED)
def test_an_invalid_program_is_refused_with_the_uid_at_fault(
    build: Callable[[StreamGraph], object], named: str
) -> None:
    graph = program("a > b, b > c", sinks="c")
    graph.add_node(node("wide", parallelism=2))

    with pytest.raises(GraphError, match=named):
        build(graph)


def test_a_cycle_is_refused_with_all_its_members() -> None:
    graph = program("a > b, b > c, c > b, c > d")

    with pytest.raises(GraphError, match="b, c, d"):
        graph.topological()


def test_a_non_source_operator_without_input_is_refused() -> None:
    graph = program("a > b")
    graph.add_node(node("lonely"))

    with pytest.raises(GraphError, match="'lonely'"):
        graph.topological()
