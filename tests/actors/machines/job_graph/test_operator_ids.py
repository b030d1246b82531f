"""Some changes of a program change operator ids, others do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.errors import GraphError
from flykka.actors.machines.job_graph.operator_ids import operator_id, operator_ids
from flykka.actors.machines.job_graph.stream_graph import ChainingStrategy, StreamGraph
from flykka.messages.graph.job_graph import OperatorKind
from tests.actors.machines.job_graph.programs import edge, keyed_edge, node


def automatic(
    arrows: str,
    *,
    named: str = "",
    heads: str = "",
    keys: str = "",
    parallelism: int = 1,
    renamed: bool = False,
    chaining: bool = True,
) -> StreamGraph:
    """Return a program in which only the operators in `named` have a uid."""
    pairs = [tuple(arrow.strip().split(" > ")) for arrow in arrows.split(",")]
    targets = {target for _, target in pairs}
    graph = StreamGraph(chaining_enabled=chaining)
    for uid in dict.fromkeys(uid for pair in pairs for uid in pair):
        made = node(
            uid,
            OperatorKind.STATELESS if uid in targets else OperatorKind.SOURCE,
            parallelism=parallelism,
            chaining=ChainingStrategy.HEAD if uid in heads.split() else ChainingStrategy.ALWAYS,
            automatic=uid not in named.split(),
        )
        graph.add_node(replace(made, name=f"{uid} again") if renamed else made)
    for source, target in pairs:
        graph.add_edge(keyed_edge(source, target) if target in keys.split() else edge(source, target))
    return graph


PLAIN = "in > map, map > filter, filter > out"


def test_equal_programs_have_equal_operator_ids() -> None:
    assert operator_ids(automatic(PLAIN)) == operator_ids(automatic(PLAIN))


def test_names_and_parallelism_do_not_affect_ids() -> None:
    assert operator_ids(automatic(PLAIN)) == operator_ids(automatic(PLAIN, renamed=True, parallelism=4))


def test_equal_operators_have_different_ids() -> None:
    ids = operator_ids(automatic("in > a, in > b, a > c, b > d", chaining=False))

    assert len(set(ids.values())) == 5


def test_a_different_chain_yields_different_ids() -> None:
    plain, apart = operator_ids(automatic(PLAIN)), operator_ids(automatic(PLAIN, heads="filter"))

    assert plain["in"] == apart["in"]
    assert plain["map"] != apart["map"]


def test_the_inputs_of_an_operator_are_part_of_its_id() -> None:
    longer = operator_ids(automatic("in > new, new > map, map > filter, filter > out", keys="map"))

    assert longer["map"] != operator_ids(automatic(PLAIN, keys="map"))["map"]


def test_the_order_of_inputs_is_part_of_an_id() -> None:
    one = operator_ids(automatic("a > both, b > both"))
    swapped = StreamGraph()
    for uid in ("a", "b"):
        swapped.add_node(node(uid, OperatorKind.SOURCE, automatic=True))
    swapped.add_node(node("both", automatic=True))
    for uid in ("b", "a"):
        swapped.add_edge(edge(uid, "both"))
    assert operator_ids(swapped)["both"] != one["both"]


def test_a_uid_determines_the_id_after_any_program_change() -> None:
    before = operator_ids(automatic(PLAIN, named="filter"))
    after = operator_ids(automatic("other > in, in > filter, filter > out", named="filter", heads="filter"))

    assert before["filter"] == after["filter"] == operator_id("filter")


def test_an_operator_gets_its_id_after_all_its_inputs() -> None:
    ids = operator_ids(automatic("a > late, a > long, long > longer, longer > late"))

    assert set(ids) == {"a", "late", "long", "longer"}


def test_a_uid_hash_must_differ_from_other_operators_ids() -> None:
    taken = operator_ids(automatic(PLAIN))["map"]
    graph = StreamGraph()
    graph.add_node(node("in", OperatorKind.SOURCE, automatic=True))
    graph.add_node(node("new", automatic=True))
    graph.add_node(replace(node("map", automatic=True), uid_hash=taken))
    graph.add_node(node("out", automatic=True))
    for source, target in (("in", "new"), ("new", "map"), ("map", "out")):
        graph.add_edge(edge(source, target))

    with pytest.raises(GraphError, match=r"the uid hash of 'map', [0-9a-f]{32}, is the current id of 'new'"):
        operator_ids(graph)


def test_an_operator_may_set_its_own_id() -> None:
    graph = StreamGraph()
    graph.add_node(replace(node("in", OperatorKind.SOURCE), uid_hash=operator_id("in")))

    assert operator_ids(graph) == {"in": operator_id("in")}
