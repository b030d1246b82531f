"""Area 06: runs each case on its machine, and checks its expectations."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flykka.actors.errors import GraphError
from flykka.actors.machines.job_graph.wiring import pointwise_consumers, pointwise_producers
from flykka.errors import ProgramError
from tests.conformance.case_files import Case, UnknownWordError, only_known_words
from tests.conformance.job_graph.operator_ids import OperatorIdsCase
from tests.conformance.job_graph.partitioning import edge_partitioners
from tests.conformance.job_graph.program import ProgramCase, built_program, graph_of_edges


def run_case(case: Case) -> None:
    kind = case["given"]["kind"]
    if case.get("steps"):
        raise UnknownWordError(f"steps of {kind}: {case['steps']}")
    if kind not in _KINDS:
        raise UnknownWordError(f"kind {kind!r}")
    _KINDS[kind](case)


def _pointwise(case: Case) -> None:
    given, expect = case["given"], case["expect"]
    only_known_words("given", given, {"kind", "upstream", "downstream"})
    upstream, downstream = given["upstream"], given["downstream"]
    reads = [list(pointwise_producers(upstream, downstream, consumer)) for consumer in range(downstream)]
    readers = [len(pointwise_consumers(upstream, downstream, producer)) for producer in range(upstream)]
    for word, wanted in expect.items():
        match word:
            case "reads":
                assert reads == wanted
            case "each_downstream_reads" | "each_downstream_reads_exactly":
                assert {len(each) for each in reads} == {wanted}
            case "each_downstream_reads_between" | "each_downstream_read_between":
                assert all(wanted[0] <= len(each) <= wanted[1] for each in reads)
            case "each_upstream_read_exactly" | "each_upstream_read":
                assert set(readers) == {wanted}
            case "each_upstream_read_between" | "each_upstream_reads_between":
                assert all(wanted[0] <= count <= wanted[1] for count in readers)
            case _:
                raise UnknownWordError(word)


def _program(case: Case) -> None:
    expect = case["expect"]
    _expect_error(expect, lambda: _see_program(case))


def _see_program(case: Case) -> None:
    program = ProgramCase(case["given"])
    if "error" in case["expect"]:
        # Some errors of a program appear only when its JobGraph is generated.
        built = program.job_graph
        assert not (case["expect"]["error"] and built.vertices), "nothing is wrong with the program"
    for word, wanted in case["expect"].items():
        if word == "same_input_order_over_builds":
            orders = {built_program(case["given"]).input_order for _ in range(wanted)}
            assert len(orders) == 1, f"the inputs came in {len(orders)} orders"
        elif word != "error":
            program.check(word, wanted)


def _partitioners(case: Case) -> None:
    wanted = case["expect"]
    only_known_words("expect", wanted, {"edge_partitioner", "edge_partitioners", "error"})
    _expect_error(wanted, lambda: _see_partitioners(case))


def _see_partitioners(case: Case) -> None:
    made = edge_partitioners(case["given"])
    for word, wanted in case["expect"].items():
        if word == "error":
            continue
        assert made == wanted if isinstance(wanted, dict) else set(made.values()) == {wanted}, made


def _operator_ids(case: Case) -> None:
    _expect_error(case["expect"], lambda: OperatorIdsCase(case["given"]).check(case["expect"]))


def _vertex_graph(case: Case) -> None:
    given, expect = case["given"], case["expect"]
    only_known_words("given", given, {"kind", "vertices", "edges"})
    only_known_words("expect", expect, {"order_respects_edges", "count", "error", "order"})

    def see() -> None:
        order = graph_of_edges(given["vertices"], given["edges"])
        if "order_respects_edges" in expect:
            place = {name: index for index, name in enumerate(order)}
            assert (
                all(place[source] < place[target] for source, target in given["edges"])
                is expect["order_respects_edges"]
            )
        if "count" in expect:
            assert len(order) == expect["count"]
        if "order" in expect:
            assert order == expect["order"]

    _expect_error(expect, see)


def _expect_error(expect: Case, see: Callable[[], None]) -> None:
    """Check the expected exception: any exception (true), none (null, false), or one whose text contains the word."""
    wanted = expect.get("error")
    if not wanted:
        see()
        return
    with pytest.raises((GraphError, ProgramError)) as refused:
        see()
    if wanted not in _OF_ANY_TEXT:
        assert wanted.lower() in str(refused.value).lower()


_OF_ANY_TEXT = {True, "illegal argument", "illegal state", "unsupported operation"}
_KINDS: dict[str, Callable[[Case], None]] = {
    "pointwise": _pointwise,
    "program": _program,
    "partitioner_chain": _partitioners,
    "union": _partitioners,
    "operator_ids": _operator_ids,
    "vertex_graph": _vertex_graph,
}
