"""The stream graph of a program."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flykka.actors.errors import GraphError
from flykka.actors.machines.job_graph.job_graph_generator import job_graph
from flykka.actors.machines.job_graph.stream_graph import StreamGraph
from flykka.actors.machines.job_graph.validation import check_job_graph
from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.program import Program
from flykka.api.streams.stream_graph_generator import Defaults, stream_graph
from flykka.cluster.local_cluster import slots_needed
from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import CheckpointingSettings, FiringMode, JobGraph, OperatorKind, ShipStrategy
from flykka.messages.wire.ids import JobId
from flykka.spark_bridge.connectors.console import ConsoleSink
from flykka.spark_bridge.connectors.file.sink import FileSink
from flykka.spark_bridge.connectors.file.source import FileSource
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from flykka.spark_bridge.operators.source import SourceCode
from flykka.spark_bridge.program.rich_function import RichFunction
from tests.flykka.programs import HOURS, bids, counting

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


def chains(graph: JobGraph) -> list[list[str]]:
    return [[operator.ref.uid for operator in vertex.operators] for vertex in graph.vertices]


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


def test_the_local_part_of_a_window_aggregation_is_chained_to_its_input(spark: SparkSession) -> None:
    graph = job_of(counting(spark, parallelism=2))

    assert chains(graph) == [["source-1", "counts-local"], ["counts", "output"]]
    assert [vertex.parallelism for vertex in graph.vertices] == [1, 2]


def test_windows_before_a_checkpointed_sink_fire_on_checkpoints(spark: SparkSession) -> None:
    graph = job_of(counting(spark))

    assert graph.vertices[-1].firing_mode is FiringMode.ON_CHECKPOINT


def test_every_stream_node_is_bound_to_code(spark: SparkSession) -> None:
    registry = CodeRegistry()

    graph = stream_graph(counting(spark).transformations, registry, Defaults())

    assert [registry.resolve(node.ref).fingerprint for node in graph.nodes] == [
        node.ref.fingerprint for node in graph.nodes
    ]


def test_two_runs_of_one_program_have_equal_operator_ids(spark: SparkSession) -> None:
    first, second = job_of(counting(spark)), job_of(counting(spark))

    assert first == second


def test_unset_operator_settings_default_to_those_of_the_environment(spark: SparkSession) -> None:
    graph = graph_of(counting(spark), Defaults(parallelism=3, max_parallelism=12))

    assert {(node.parallelism, node.max_parallelism) for node in graph.nodes if node.uid != "counts-local"} == {(3, 12)}
    assert graph.node("counts-local").parallelism == 3


def test_unequal_parallelism_is_rebalanced(spark: SparkSession) -> None:
    program = Program()
    bids(spark, program).select("price").set_parallelism(2)

    (edge,) = graph_of(program).inputs("stateless-2")

    assert edge.ship_strategy is ShipStrategy.REBALANCE


def test_a_keyed_stream_is_partitioned_before_any_operator(spark: SparkSession) -> None:
    program = Program()
    bids(spark, program).key_by("auction").transform(lambda rows: rows.dropDuplicates(["auction"]), per_batch=True)

    (edge,) = graph_of(program).inputs("stateless-2")

    assert edge.ship_strategy is ShipStrategy.HASH


def test_a_consumer_of_a_union_has_an_input_from_each_stream(spark: SparkSession) -> None:
    program = Program()
    first, second = bids(spark, program), bids(spark, program).set_parallelism(2)
    first.union(second, first).where("price > 1").uid("dear").select("price").uid("prices")

    graph = graph_of(program)

    assert [(edge.source_uid, edge.ship_strategy) for edge in graph.inputs("dear")] == [
        ("source-1", ShipStrategy.FORWARD),
        ("source-2", ShipStrategy.REBALANCE),
        ("source-1", ShipStrategy.FORWARD),
    ]
    job = job_of(program)
    assert chains(job) == [["source-1"], ["source-2"], ["dear", "prices"]]
    assert [edge.source_output for edge in job.vertices[-1].inputs] == [0, 0, 1]
    check_job_graph(job)


def test_windows_after_a_union_preaggregate_each_stream_in_its_own_task(spark: SparkSession) -> None:
    program = Program()
    first, second = bids(spark, program), bids(spark, program).where("price > 1")
    counted = first.union(second, first).key_by("auction").window(HOURS).aggregate(F.count("*").alias("bids"))
    counted.uid("counts")

    job = job_of(program)

    assert chains(job) == [
        ["source-1", "counts-local-1", "counts-local-3"],
        ["source-2", "stateless-3", "counts-local-2"],
        ["counts"],
    ]
    assert {edge.key_by.uid for edge in job.vertices[-1].inputs if edge.key_by is not None} == {"counts-keys"}
    check_job_graph(job)


def test_each_side_of_a_join_has_its_own_keys(spark: SparkSession) -> None:
    program = Program()
    sellers, buyers = bids(spark, program), bids(spark, program)
    joined = sellers.key_by("auction").interval_join(buyers.key_by("bidder")).between("0s", "1s")
    joined.select("left.price", F.col("right.at").alias("seen")).uid("met")
    registry = CodeRegistry()

    graph = stream_graph(program.transformations, registry, Defaults())

    keys = [registry.keys(edge.key_by).columns for edge in graph.inputs("met") if edge.key_by is not None]
    assert [str(column) for (column,) in keys] == ["Column<'auction'>", "Column<'bidder'>"]


def test_both_parts_of_a_split_stream_are_chained(spark: SparkSession) -> None:
    program = Program()
    rest, side = bids(spark, program).side_output("price > 100")
    rest.sink_to(FileSink.parquet("/cheap"))
    side.sink_to(FileSink.parquet("/dear"))

    (vertex,) = job_of(program).vertices

    assert [operator.input_operator for operator in vertex.operators] == [None, 0, 0, 1, 2]


def _aggregate_windows(stream: DataStream) -> None:
    stream.where("price > 1").key_by("auction").window(HOURS).aggregate(F.count("*").alias("n")).uid("end")


def _append_to_files(stream: DataStream) -> None:
    stream.where("price > 1").sink_to(FileSink.parquet("/dear"))


def _join_intervals(stream: DataStream) -> None:
    other = stream.where("price > 1").key_by("bidder")
    stream.key_by("auction").interval_join(other).between("0s", "1s").select("left.price").uid("end")


def _reduce_by_key(stream: DataStream) -> None:
    stream.where("price > 1").key_by("auction").reduce(lambda first, last: last).uid("end")


def _print_to_console(stream: DataStream) -> None:
    stream.select("price").sink_to(ConsoleSink())


def _aggregated_and_without_duplicates(stream: DataStream) -> None:
    _aggregate_windows(stream)
    stream.drop_duplicates("bidder").uid("first")


def _enriched(stream: DataStream) -> None:
    stream.transform(Rates()).sink_to(FileSink.parquet("/rates"))


class Rates(RichFunction):
    def __call__(self, rows: DataFrame) -> DataFrame:
        return rows


@pytest.mark.parametrize(
    ("verbs", "ordered"),
    [
        (_aggregate_windows, False),
        (_append_to_files, False),
        (_join_intervals, False),
        (_reduce_by_key, True),
        (_print_to_console, True),
        (_enriched, True),
        (_aggregated_and_without_duplicates, True),
    ],
)
def test_a_source_keeps_the_order_of_files_if_an_operator_needs_it(
    spark: SparkSession, verbs: Callable[[DataStream], None], ordered: bool
) -> None:
    program, registry = Program(), CodeRegistry()
    verbs(bids(spark, program))

    graph = stream_graph(program.transformations, registry, Defaults())

    code = registry.resolve(graph.node("source-1").ref)
    assert isinstance(code, SourceCode)
    assert isinstance(code.source, FileSource)
    assert code.source.keeps_order is ordered
    keys = [edge.key_by for node in graph.nodes for edge in graph.inputs(node.uid) if node.uid == "end"]
    assert {registry.keys(key).keeps_order for key in keys if key is not None} <= {verbs is _reduce_by_key}


def test_an_operator_records_the_line_that_declared_it(spark: SparkSession) -> None:
    registry = CodeRegistry()
    program = Program()
    keyed = bids(spark, program).key_by("auction")
    keyed.window(HOURS).aggregate(F.count("*").alias("bids")).uid("counts")

    stream_graph(program.transformations, registry, Defaults())

    sites = [registry.call_site(uid) for uid in ("counts", "counts-local", "counts-keys")]
    assert [site.source.strip().partition(".")[0] for site in sites if site is not None] == [
        "keyed",
        "keyed",
        "keyed = bids(spark, program)",
    ]


def test_an_operator_cannot_be_added_after_an_executed_job(spark: SparkSession) -> None:
    program = Program()
    stream = bids(spark, program)
    program.close("counts")

    with pytest.raises(ProgramError, match=r"'select\(price\)' is too late: the job of its input was executed"):
        stream.select("price")


def test_an_error_about_a_disconnected_program_names_the_operator(spark: SparkSession) -> None:
    program = Program()
    bids(spark, program).select("price").set_parallelism(4).set_max_parallelism(2)

    with pytest.raises(GraphError, match="'stateless-2'"):
        job_of(program)


def test_subtasks_of_one_slot_sharing_group_share_slots(spark: SparkSession) -> None:
    shared = counting(spark, parallelism=2)
    apart = Program()
    bids(spark, apart).set_parallelism(2).select("price").set_parallelism(3).slot_sharing_group("heavy")

    assert slots_needed(job_of(shared)) == 2
    assert slots_needed(job_of(apart)) == 5
