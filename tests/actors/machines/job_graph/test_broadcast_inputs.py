"""The operators that produce broadcast variables finish before their readers start, and are scheduled separately."""

from __future__ import annotations

import pytest

from flykka.actors.errors import GraphError
from flykka.actors.machines.job_graph.broadcast_inputs import broadcast_gates, feeding_broadcast_variables
from flykka.actors.machines.job_graph.job_graph_generator import job_graph
from flykka.actors.machines.job_graph.stream_graph import ExchangeMode, StreamEdge, StreamGraph
from flykka.messages.graph.job_graph import (
    CheckpointingSettings,
    FiringMode,
    JobType,
    JobVertex,
    OperatorKind,
    ResultPartitionType,
    ShipStrategy,
)
from flykka.messages.wire.ids import JobId
from tests.actors.machines.job_graph.programs import node, program


def reading(graph: StreamGraph, source: str, target: str, name: str = "rates") -> StreamGraph:
    edge = StreamEdge(
        source_uid=source,
        target_uid=target,
        ship_strategy=ShipStrategy.BROADCAST,
        exchange_mode=ExchangeMode.BATCH,
        broadcast_variable=name,
    )
    graph.add_edge(edge)
    return graph


def vertices(graph: StreamGraph) -> dict[str, JobVertex]:
    made = job_graph(
        graph,
        job_id=JobId("job"),
        name="a job",
        checkpointing=CheckpointingSettings(directory="/checkpoints"),
        heartbeat_interval_ms=1,
        heartbeat_timeout_ms=1,
    )
    return {vertex.operators[0].ref.uid: vertex for vertex in made.vertices}


def test_all_producers_of_a_broadcast_variable_finish_before_its_reader_starts() -> None:
    window = node("window", OperatorKind.WINDOW_AGGREGATE, event_time=True)
    sink = node("sink", OperatorKind.SINK, publishes_per_checkpoint=True)
    graph = program("main > reader, reader > sink, rates > window", window, sink, keys="window")

    made = vertices(reading(graph, "window", "reader"))

    assert {uid for uid, vertex in made.items() if vertex.feeds_broadcast_variables} == {"rates", "window"}
    assert made["window"].firing_mode is FiringMode.ON_WATERMARK
    assert [edge.result_partition_type for edge in made["reader"].inputs] == [
        ResultPartitionType.PIPELINED_BOUNDED,
        ResultPartitionType.BLOCKING,
    ]
    assert made["reader"].inputs[1].broadcast_variable == "rates"
    assert broadcast_gates(made["reader"]) == {1}


def test_two_operators_may_read_one_stream_as_a_broadcast_variable() -> None:
    graph = reading(program("main > first, first > second, rates > clean"), "clean", "first")

    assert feeding_broadcast_variables(reading(graph, "clean", "second", "again")) == {"rates", "clean"}


@pytest.mark.parametrize("elsewhere", ["rates > sink", "clean > sink", "clean > reader"])
def test_a_streaming_program_refuses_other_consumers_of_a_broadcast_variable(elsewhere: str) -> None:
    graph = reading(program(f"main > reader, rates > clean, {elsewhere}", sinks="sink"), "clean", "reader")
    uid, other = elsewhere.split(" > ")

    with pytest.raises(GraphError, match=f"^rows of '{uid}' become .* 'rates' of 'reader', and '{other}' reads them"):
        feeding_broadcast_variables(graph)


def test_a_batch_program_allows_other_consumers_of_a_broadcast_variable() -> None:
    graph = program("main > reader, rates > sink", sinks="sink", job_type=JobType.BATCH)

    made = vertices(reading(graph, "rates", "reader"))

    assert not any(vertex.feeds_broadcast_variables for vertex in made.values())
