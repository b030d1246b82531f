"""The graph of a job by its operators, each with its vertex."""

from __future__ import annotations

from dataclasses import replace

from flykka.messages.graph.job_graph import Operator, OperatorKind, OperatorRef
from flykka.messages.wire.ids import OperatorId
from flykka.rest.responses.jobs import stream_graph
from tests.actors.machines.graph.graphs import graph_of, vertex
from tests.flykka.rest.conftest import JOB_PATH, Served


def graph_operator(name: str, kind: OperatorKind, reads: int | None = None) -> Operator:
    ref = OperatorRef(uid=name, fingerprint="")
    return Operator(operator_id=OperatorId(name), ref=ref, name=f"<{name}>", kind=kind, input_operator=reads)


def test_operators_in_a_chain_are_connected_and_the_head_reads_vertex_inputs() -> None:
    numbers = replace(
        vertex("v", 2),
        operators=(
            graph_operator("numbers", OperatorKind.SOURCE),
            graph_operator("doubled", OperatorKind.STATELESS, 0),
        ),
        outputs=(OperatorId("numbers"), OperatorId("doubled")),
    )
    edge = replace(vertex("w", reads=("v",)).inputs[0], source_output=1)
    out = replace(vertex("w", reads=("v",)), operators=(graph_operator("out", OperatorKind.SINK),), inputs=(edge,))

    response = stream_graph(graph_of(numbers, out))

    assert [(each["id"], each["job_vertex_id"], each["parallelism"]) for each in response["nodes"]] == [
        ("numbers", "v", 2),
        ("doubled", "v", 2),
        ("out", "w", 1),
    ]
    assert [each.get("inputs") for each in response["nodes"]] == [
        None,
        [{"num": 0, "id": "numbers", "ship_strategy": "FORWARD", "exchange": "undefined"}],
        [{"num": 0, "id": "doubled", "ship_strategy": "REBALANCE", "exchange": "pipelined_bounded"}],
    ]
    assert response["nodes"][0]["description"] == "&lt;numbers&gt;<br/>"


def test_job_details_contain_the_graph_without_pending_operators(served: Served) -> None:
    answer = served.http.get(JOB_PATH).json()

    assert [each["job_vertex_id"] for each in answer["stream-graph"]["nodes"]] == ["source", "sink"]
    assert answer["pending-operators"] == 0
