"""The graphs that are made of a program."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from flykka.actors.graph.job_graph_generator import job_graph
from flykka.actors.graph.stream_graph import StreamGraph
from flykka.errors import ProgramError
from flykka.local_cluster import slots_needed
from flykka.messages.ids import JobId
from flykka.messages.job_graph import CheckpointingSettings, FiringMode, JobGraph, OperatorKind, ShipStrategy
from flykka.program import Program
from flykka.spark_bridge.code_registry import CodeRegistry
from flykka.stream_graph_generator import Defaults, stream_graph
from tests.flykka.programs import bids, counting

pytestmark = pytest.mark.spark


def graph_of(program: Program, defaults: Defaults | None = None) -> StreamGraph:
    return stream_graph(program.transformations, CodeRegistry(), defaults or Defaults())


def job_of(program: Program) -> JobGraph:
    checkpointing = CheckpointingSettings(directory="/checkpoints")
    return job_graph(
        graph_of(program),
        job_id=JobId("job"),
        name="job",
        checkpointing=checkpointing,
        heartbeat_interval_ms=1_000,
        heartbeat_timeout_ms=10_000,
    )


def test_a_window_aggregation_has_a_local_part_before_the_exchange(spark: SparkSession) -> None:
    graph = graph_of(counting(spark))

    assert [(node.uid, node.kind) for node in graph.nodes] == [
        ("source-1", OperatorKind.SOURCE),
        ("counts-local", OperatorKind.LOCAL_WINDOW_AGGREGATE),
        ("counts", OperatorKind.WINDOW_AGGREGATE),
        ("output", OperatorKind.SINK),
    ]
    (to_windows,) = graph.inputs("counts")
    assert to_windows.ship_strategy is ShipStrategy.HASH
    assert to_windows.key_by is not None
    assert to_windows.key_by.uid == "counts-keys"


def test_the_local_part_runs_in_the_task_that_feeds_it(spark: SparkSession) -> None:
    graph = job_of(counting(spark, parallelism=2))

    chains = [[operator.ref.uid for operator in vertex.operators] for vertex in graph.vertices]
    assert chains == [["source-1", "counts-local"], ["counts", "output"]]
    assert [vertex.parallelism for vertex in graph.vertices] == [1, 2]


def test_windows_before_a_sink_that_publishes_per_checkpoint_fire_per_checkpoint(spark: SparkSession) -> None:
    graph = job_of(counting(spark))

    assert graph.vertices[-1].firing_mode is FiringMode.ON_CHECKPOINT


def test_every_node_is_bound_to_code(spark: SparkSession) -> None:
    registry = CodeRegistry()

    graph = stream_graph(counting(spark).transformations, registry, Defaults())

    assert [registry.resolve(node.ref).fingerprint for node in graph.nodes] == [
        node.ref.fingerprint for node in graph.nodes
    ]


def test_two_runs_of_one_program_name_the_same_operators(spark: SparkSession) -> None:
    first, second = job_of(counting(spark)), job_of(counting(spark))

    assert first == second


def test_what_an_operator_leaves_open_the_environment_decides(spark: SparkSession) -> None:
    graph = graph_of(counting(spark), Defaults(parallelism=3, max_parallelism=12))

    assert {(node.parallelism, node.max_parallelism) for node in graph.nodes if node.uid != "counts-local"} == {(3, 12)}
    assert graph.node("counts-local").parallelism == 3


def test_unequal_parallelism_is_rebalanced(spark: SparkSession) -> None:
    program = Program()
    bids(spark, program).select("price").set_parallelism(2)

    (edge,) = graph_of(program).inputs("stateless-2")

    assert edge.ship_strategy is ShipStrategy.REBALANCE


def test_a_keyed_stream_brings_keys_together_before_any_operator(spark: SparkSession) -> None:
    program = Program()
    bids(spark, program).key_by("auction").transform(lambda rows: rows.dropDuplicates(["auction"]))

    (edge,) = graph_of(program).inputs("stateless-2")

    assert edge.ship_strategy is ShipStrategy.HASH


def test_a_program_without_operators_is_refused() -> None:
    with pytest.raises(ProgramError, match="no operators"):
        graph_of(Program())


def test_a_program_that_cannot_be_connected_names_the_operator(spark: SparkSession) -> None:
    program = Program()
    bids(spark, program).select("price").set_parallelism(4).set_max_parallelism(2)

    with pytest.raises(ProgramError, match="'stateless-2'"):
        graph_of(program)


def test_subtasks_of_one_sharing_group_share_slots(spark: SparkSession) -> None:
    shared = counting(spark, parallelism=2)
    apart = Program()
    bids(spark, apart).set_parallelism(2).select("price").set_parallelism(3).slot_sharing_group("heavy")

    assert slots_needed(job_of(shared)) == 2
    assert slots_needed(job_of(apart)) == 5
