"""The drawn plan is the plan that would be executed."""

from __future__ import annotations

import pytest

from flykka.cluster.local_cluster import slots_needed
from flykka.messages.graph.job_graph import JobType
from flykka.views.plan.document import document
from flykka.views.plan.program_plan import Wiring
from tests.flykka.views.plan.plans import graphs, plan


def test_operators_show_whether_their_uid_is_explicit() -> None:
    facts = {node.key: node.facts for node in plan().stream.nodes}

    assert "uid orders" in facts["orders"]
    assert "no uid" in facts["returns"]
    assert "max parallelism 16" in facts["sums"]
    assert "upserts by city, day" in facts["sums"]


def test_an_operator_without_a_uid_shows_the_id_of_its_state() -> None:
    (returns,) = (node for node in plan().stream.nodes if node.key == "returns")
    ids = {operator.ref.uid: operator.operator_id for vertex in graphs()[1].vertices for operator in vertex.operators}

    assert f"id {ids['returns']}" in returns.facts


def test_a_box_of_the_job_graph_lists_the_operators_of_its_chain() -> None:
    assert [node.names for node in plan().job.nodes] == [
        ("orders", "valid"),
        ("returns",),
        ("sums",),
        ("archive",),
        ("<&out>",),
    ]


def test_blocking_edges_are_marked() -> None:
    assert {edge.label for edge in plan().job.edges} == {"hash", "rescale", "rebalance"}
    assert {edge.label for edge in plan(JobType.BATCH).job.edges} == {
        "blocking hash",
        "blocking rescale",
        "blocking rebalance",
    }


def test_the_requested_number_of_slots_is_drawn() -> None:
    drawn = plan()

    assert len(drawn.slots) == slots_needed(graphs()[1]) == 6
    assert drawn.slots[0].tasks == ("archive (1/2)",)
    assert drawn.slots[2].tasks == ("orders (1/4)", "returns (1/2)", "sums (1/2)", "<&out> (1/1)")
    assert sum(len(slot.tasks) for slot in drawn.slots) == drawn.tasks == 11


def test_the_json_document_is_flinks_plan_with_additional_graphs() -> None:
    made = document(plan(), graphs()[1])

    assert made["nodes"][0]["description"] == "Source: orders -> valid"
    assert [node["pact"] for node in made["stream_graph"]["nodes"]][:2] == ["Data Source", "Data Source"]
    assert {edge["ship_strategy"]: edge["reads"] for edge in made["execution_graph"]["edges"]} == {
        "HASH": "all",
        "RESCALE": ((0, 1), (2, 3)),
        "REBALANCE": "all",
    }


@pytest.mark.parametrize(
    ("reads", "expected"),
    [
        ((), "each subtask reads all"),
        (((0,), (1,)), "each subtask reads the subtask with the same number"),
        (((0, 1, 2), (3, 4)), "1 reads 1-3, 2 reads 4-5"),
        (tuple((0,) for _ in range(20)), ", ".join(f"{number} reads 1" for number in range(1, 9)) + ", ..."),
    ],
)
def test_the_readers_of_each_operator_are_stated_briefly(reads: tuple[tuple[int, ...], ...], expected: str) -> None:
    assert Wiring(source="a", target="b", label="rescale", reads=reads).reads_text() == expected
