"""A job graph is generated from a program: chains, names of vertices, and ids that depend only on uids."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.errors import GraphError
from flykka.actors.machines.job_graph.job_graph_generator import job_graph
from flykka.actors.machines.job_graph.operator_ids import operator_id, vertex_id
from flykka.actors.machines.job_graph.stream_graph import ChainingStrategy, StreamGraph, StreamNode
from flykka.actors.machines.job_graph.validation import check_job_graph
from flykka.messages.graph.job_graph import (
    CheckpointingSettings,
    FiringMode,
    JobGraph,
    JobType,
    JobVertex,
    OperatorKind,
    ResourceSpec,
    ResultPartitionType,
    ShipStrategy,
)
from flykka.messages.state.handles import OperatorStateMode, OperatorStateSchema, StateSchema
from flykka.messages.wire.ids import JobId
from tests.actors.machines.graph.graphs import HEARTBEAT_INTERVAL_MS, HEARTBEAT_TIMEOUT_MS
from tests.actors.machines.job_graph.programs import edge, node, program


def generated(graph: StreamGraph) -> JobGraph:
    made = job_graph(
        graph,
        job_id=JobId("job"),
        name="a job",
        checkpointing=CheckpointingSettings(directory="/checkpoints"),
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        heartbeat_timeout_ms=HEARTBEAT_TIMEOUT_MS,
    )
    check_job_graph(made)
    return made


def chains(made: JobGraph) -> list[list[str]]:
    return [[operator.name for operator in vertex.operators] for vertex in made.vertices]


def vertex_of(made: JobGraph, uid: str) -> JobVertex:
    return next(vertex for vertex in made.vertices if any(operator.ref.uid == uid for operator in vertex.operators))


def source_node(uid: str, *, parallelism: int = 1, group: str | None = None) -> StreamNode:
    return node(uid, OperatorKind.SOURCE, parallelism=parallelism, group=group)


# Chains


def test_forward_edges_at_one_parallelism_are_chained_into_one_vertex() -> None:
    made = generated(program("in > map, map > out", sinks="out"))

    assert chains(made) == [["in", "map", "out"]]
    assert made.vertices[0].name == "Source: in -> map -> Sink: out"


def test_keyed_edges_are_never_chained_even_at_parallelism_one() -> None:
    made = generated(program("in > sum, sum > out", sinks="out", keys="sum"))

    assert chains(made) == [["in"], ["sum", "out"]]
    assert made.vertices[1].inputs[0].ship_strategy is ShipStrategy.HASH
    assert made.vertices[1].inputs[0].key_by is not None


def test_branches_are_chained_into_their_producers_vertex() -> None:
    made = generated(program("in > a, in > b, a > c"))

    assert chains(made) == [["in", "a", "b", "c"]]
    assert made.vertices[0].name == "Source: in -> (a -> c, b)"
    assert [operator.input_operator for operator in made.vertices[0].operators] == [None, 0, 0, 1]


def test_an_operator_with_two_inputs_starts_a_vertex() -> None:
    made = generated(program("a > both, b > both"))

    assert chains(made) == [["a"], ["b"], ["both"]]
    assert [edge.source for edge in made.vertices[2].inputs] == [
        vertex_id(operator_id("a")),
        vertex_id(operator_id("b")),
    ]


def test_operators_of_different_parallelism_or_group_are_not_chained() -> None:
    graph = program("in > map", source_node("in", group="elsewhere"), node("map", group="here"))
    graph.add_node(node("wide", parallelism=2))
    graph.add_edge(edge("map", "wide", ShipStrategy.REBALANCE))

    assert chains(generated(graph)) == [["in"], ["map"], ["wide"]]


@pytest.mark.parametrize(
    ("chaining", "expected"),
    [
        (ChainingStrategy.ALWAYS, [["in", "map", "out"]]),
        (ChainingStrategy.HEAD, [["in"], ["map", "out"]]),
        (ChainingStrategy.NEVER, [["in"], ["map"], ["out"]]),
    ],
)
def test_chaining_strategies_of_operators_are_respected(chaining: ChainingStrategy, expected: list[list[str]]) -> None:
    made = generated(program("in > map, map > out", node("map", chaining=chaining)))

    assert chains(made) == expected


def test_without_chaining_every_operator_is_a_vertex() -> None:
    assert chains(generated(program("in > map, map > out", chaining=False))) == [["in"], ["map"], ["out"]]


# Outputs


def test_an_output_names_the_operator_that_produces_its_rows() -> None:
    made = generated(program("in > map, map > sum, in > count", keys="sum count"))

    head = made.vertices[0]
    assert chains(made)[0] == ["in", "map"]
    assert head.outputs == (operator_id("in"), operator_id("map"))
    assert vertex_of(made, "count").inputs[0].source_output == 0
    assert vertex_of(made, "sum").inputs[0].source_output == 1


def test_a_stream_with_two_consumers_has_two_outputs() -> None:
    made = generated(program("in > twice, in > twice"))

    assert [edge.source_output for edge in made.vertices[1].inputs] == [0, 1]


# Ids


def test_ids_depend_only_on_the_uid() -> None:
    fused = generated(program("in > map, map > out"))
    apart = generated(program("new > in, in > map, map > out", chaining=False))

    assert vertex_of(fused, "map").operators[1].operator_id == vertex_of(apart, "map").operators[0].operator_id


def test_equal_programs_yield_equal_graphs() -> None:
    assert generated(program("a > b, c > b, b > d", keys="d")) == generated(program("a > b, c > b, b > d", keys="d"))


# Groups and key groups


def test_a_sharing_group_is_inherited_if_all_inputs_agree() -> None:
    graph = program(
        "a > one, b > one, a > two, c > two",
        source_node("a", group="g"),
        source_node("b", group="g"),
        source_node("c", group="h"),
    )

    made = generated(graph)

    assert vertex_of(made, "one").slot_sharing_group == "g"
    assert vertex_of(made, "two").slot_sharing_group == "default"


@pytest.mark.parametrize(("parallelism", "expected"), [(1, 128), (85, 128), (86, 256), (100, 256), (30_000, 32_768)])
def test_the_number_of_key_groups_follows_flinks_formula(parallelism: int, expected: int) -> None:
    graph = StreamGraph()
    graph.add_node(source_node("in", parallelism=parallelism))

    assert generated(graph).vertices[0].max_parallelism == expected


def test_a_vertex_parallelism_is_limited_by_each_operators_maximum() -> None:
    graph = StreamGraph()
    graph.add_node(replace(source_node("in"), parallelism_limit=4))
    graph.add_node(replace(source_node("all"), kind=OperatorKind.STATELESS, parallelism_limit=1))
    graph.add_node(source_node("out"))
    graph.add_edge(edge("in", "all"))

    made = generated(graph)

    assert vertex_of(made, "in").parallelism_limit == 1
    assert vertex_of(made, "out").parallelism_limit is None


def test_an_operators_maximum_parallelism_overrides_the_derived_one() -> None:
    graph = program("in > sum", node("sum", max_parallelism=17), keys="sum")

    made = generated(graph)

    assert [vertex.max_parallelism for vertex in made.vertices] == [128, 17]


def test_a_parallelism_above_the_derived_maximum_is_refused() -> None:
    graph = StreamGraph()
    graph.add_node(source_node("in", parallelism=32_769))

    with pytest.raises(GraphError, match="'in'"):
        generated(graph)


def test_a_program_without_operators_is_refused() -> None:
    with pytest.raises(GraphError, match="a job"):
        generated(StreamGraph())


# Firing modes of windows


def window_node(uid: str) -> StreamNode:
    return node(uid, OperatorKind.WINDOW_AGGREGATE, event_time=True)


def published(uid: str) -> StreamNode:
    return node(uid, OperatorKind.SINK, publishes_per_checkpoint=True)


def checkpointed(uid: str) -> StreamNode:
    held = OperatorStateSchema(name="held", element="bigint", mode=OperatorStateMode.SPLIT_DISTRIBUTE)
    return replace(node(uid), state_schema=StateSchema(operator_state=(held,)))


def console_sink(uid: str) -> StreamNode:
    return node(uid, OperatorKind.SINK)


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (program("in > w, w > out", window_node("w"), published("out"), keys="w"), FiringMode.ON_CHECKPOINT),
        (program("in > w, w > f, f > out", window_node("w"), published("out"), keys="w f"), FiringMode.ON_CHECKPOINT),
        (program("in > w, w > out", window_node("w"), console_sink("out"), keys="w"), FiringMode.ON_WATERMARK),
        (
            program("in > w, w > a, w > b", window_node("w"), published("a"), console_sink("b"), keys="w"),
            FiringMode.ON_WATERMARK,
        ),
        (
            program("in > w, w > v, v > out", window_node("w"), window_node("v"), published("out"), keys="w v"),
            FiringMode.ON_WATERMARK,
        ),
        (
            program("in > w, w > f, f > out", window_node("w"), checkpointed("f"), published("out"), keys="w"),
            FiringMode.ON_WATERMARK,
        ),
        (program("in > w, w > map", window_node("w"), keys="w"), FiringMode.ON_WATERMARK),
    ],
    ids=[
        "published",
        "published further on",
        "shown",
        "published and shown",
        "window behind it",
        "function with state behind it",
        "no sink",
    ],
)
def test_windows_fire_on_checkpoints_only_if_results_are_invisible_earlier(
    graph: StreamGraph, expected: FiringMode
) -> None:
    assert vertex_of(generated(graph), "w").firing_mode is expected


def test_the_last_of_two_windows_may_fire_on_checkpoints() -> None:
    graph = program("in > w, w > v, v > out", window_node("w"), window_node("v"), published("out"), keys="w v")

    assert vertex_of(generated(graph), "v").firing_mode is FiringMode.ON_CHECKPOINT


def test_a_vertex_without_windows_fires_on_the_watermark() -> None:
    made = generated(program("in > w, w > out", window_node("w"), published("out"), keys="w"))

    assert vertex_of(made, "in").firing_mode is FiringMode.ON_WATERMARK


def test_a_vertex_carries_the_watermark_delay_of_its_source() -> None:
    late = node("in", OperatorKind.SOURCE, watermark_delay_ms=3_600_000)

    made = generated(program("in > out", late))

    assert made.vertices[0].watermark_delay_ms == 3_600_000


# Slots


def test_a_task_cannot_be_co_located_with_two_groups() -> None:
    graph = program("in > map", source_node("in"), node("map", co_location="b"))
    own = program("in > map", node("in", OperatorKind.SOURCE, co_location="a"), node("map", co_location="b"))

    assert generated(graph).vertices[0].co_location_group == "b"
    with pytest.raises(GraphError, match=r"'a' \(in\), 'b' \(map\)"):
        generated(own)


def test_a_chain_needs_the_sum_of_its_operators_resources() -> None:
    needs = ResourceSpec(cpu_millis=100, heap_mib=50)
    graph = program("in > map, map > sum", source_node("in"), replace(node("map"), resources=needs), keys="sum")
    more = program("in > map", replace(source_node("in"), resources=needs), replace(node("map"), resources=needs))

    assert [vertex.resources for vertex in generated(graph).vertices] == [needs, ResourceSpec()]
    assert generated(more).vertices[0].resources == ResourceSpec(cpu_millis=200, heap_mib=100)


# Batch


def test_exchanges_of_a_batch_job_are_blocking() -> None:
    sums = node("sums", OperatorKind.WINDOW_AGGREGATE, event_time=True)
    made = generated(program("in > sums, sums > out", sums, sinks="out", keys="sums", job_type=JobType.BATCH))

    assert chains(made) == [["in"], ["sums", "out"]]
    assert made.job_type is JobType.BATCH
    assert vertex_of(made, "sums").inputs[0].result_partition_type is ResultPartitionType.BLOCKING
    assert vertex_of(made, "sums").firing_mode is FiringMode.ON_WATERMARK


def test_a_batch_sink_is_chained_if_it_is_the_only_consumer() -> None:
    made = generated(program("in > out, in > log", sinks="out log", job_type=JobType.BATCH))

    assert chains(made) == [["in", "out", "log"]]


def test_a_batch_sink_with_sibling_consumers_is_a_separate_task() -> None:
    arrows = "in > log, in > map, map > sums, sums > out"
    sums = node("sums", OperatorKind.WINDOW_AGGREGATE)
    made = generated(program(arrows, sums, sinks="out log", keys="sums", job_type=JobType.BATCH))

    assert chains(made) == [["in", "map"], ["log"], ["sums", "out"]]
    assert vertex_of(made, "log").inputs[0].result_partition_type is ResultPartitionType.BLOCKING


def test_a_batch_job_takes_no_checkpoint_before_its_end() -> None:
    made = job_graph(
        program("in > out", sinks="out", job_type=JobType.BATCH),
        job_id=JobId("job"),
        name="a job",
        checkpointing=CheckpointingSettings(directory="/checkpoints", interval_ms=100),
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        heartbeat_timeout_ms=HEARTBEAT_TIMEOUT_MS,
    )

    assert made.checkpointing.interval_ms is None
