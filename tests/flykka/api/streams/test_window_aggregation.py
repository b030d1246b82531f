"""Validation of windows: assigners, and the handling of late rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flykka.actors.machines.job_graph.chaining import chains
from flykka.api.streams.data_stream import DataStream, SideOutputDataStream
from flykka.api.streams.program import Program
from flykka.api.streams.side_outputs import OutputTag
from flykka.api.streams.stream_graph_generator import Defaults, stream_graph
from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import ShipStrategy
from flykka.runtime.errors import DurationError
from flykka.spark_bridge.connectors.file.sink import FileSink
from flykka.spark_bridge.functions.windowing.time_windows import SlidingEventTimeWindows
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from tests.flykka.programs import HOURS, bids

pytestmark = pytest.mark.spark

LATE = OutputTag("late")


def bids_per_hour(spark: SparkSession, program: Program | None = None, tag: OutputTag | None = LATE) -> DataStream:
    windowed = bids(spark, program).key_by("auction").window(HOURS)
    if tag is not None:
        windowed = windowed.side_output_late_data(tag)
    return windowed.aggregate(F.count("*").alias("bids")).uid("counts")


@pytest.mark.parametrize("assigner", ["1h", HOURS.size_ms, None, type(HOURS)])
def test_only_window_assigners_define_windows(spark: SparkSession, assigner: object) -> None:
    keyed = bids(spark).key_by("auction")

    with pytest.raises(ProgramError, match=r"take an assigner such as TumblingEventTimeWindows\.of"):
        keyed.window(assigner)  # type: ignore[arg-type]


def test_sliding_windows_are_aggregated_before_the_exchange_too(spark: SparkSession) -> None:
    program = Program()
    sliding = SlidingEventTimeWindows.of("1h", "5min")
    bids(spark, program).key_by("auction").window(sliding).aggregate(F.count("*").alias("bids")).uid("counts")

    graph = stream_graph(program.transformations, CodeRegistry(), Defaults())

    assert [node.uid for node in graph.nodes] == ["source-1", "counts-local", "counts"]


def test_windows_that_may_fire_again_emit_upserts_by_window_and_keys(spark: SparkSession) -> None:
    program = Program()
    stream = bids(spark, program)
    windows = stream.key_by("auction", F.upper("channel").alias("of")).window(HOURS)
    windows.aggregate(F.count("*")).uid("once")
    windows.allowed_lateness("5min").aggregate(F.count("*")).uid("again")
    windows.allowed_lateness("5min").apply(lambda rows: rows).uid("function")
    stream.window_all(HOURS).allowed_lateness("5min").aggregate(F.count("*")).uid("all")

    graph = stream_graph(program.transformations, CodeRegistry(), Defaults())

    assert {uid: graph.node(uid).upsert_keys for uid in ("once", "again", "function", "all")} == {
        "once": (),
        "again": ("window_start", "window_end", "auction", "of"),
        "function": (),
        "all": ("window_start", "window_end"),
    }
    assert graph.node("once").ref.fingerprint == graph.node("again").ref.fingerprint, "the state of one fits the other"


def test_windows_that_may_fire_again_are_preaggregated_too(spark: SparkSession) -> None:
    program = Program()
    bids(spark, program).key_by("auction").window(HOURS).allowed_lateness("5min").aggregate(F.count("*")).uid("counts")

    graph = stream_graph(program.transformations, CodeRegistry(), Defaults())

    assert [node.uid for node in graph.nodes] == ["source-1", "counts-local", "counts"]


def test_allowed_lateness_is_a_duration(spark: SparkSession) -> None:
    with pytest.raises(DurationError, match="allowed lateness '-1s' is negative"):
        bids(spark).window_all(HOURS).allowed_lateness("-1s")


def test_late_rows_have_the_columns_and_the_event_time_of_the_input(spark: SparkSession) -> None:
    late = bids_per_hour(spark).get_side_output(LATE)

    windowed_again = late.where("price > 1").key_by("channel").window(HOURS)

    assert isinstance(late, SideOutputDataStream)
    assert isinstance(windowed_again.aggregate(F.max("bidder")), DataStream)


def test_all_rows_are_exchanged_unaggregated_if_late_rows_are_read(spark: SparkSession) -> None:
    program = Program()
    stream = bids_per_hour(spark, program).set_parallelism(2)
    stream.get_side_output(LATE).sink_to(FileSink.parquet("/late"))
    stream.sink_to(FileSink.parquet("/counts")).set_parallelism(2)

    graph = stream_graph(program.transformations, CodeRegistry(), Defaults())

    assert [[node.uid for node in chain.nodes] for chain in chains(graph)] == [
        ["source-1"],
        ["counts", "stateless-3", "sink-5"],
        ["sink-4"],
    ]
    assert graph.node("stateless-3").parallelism == 2


def test_late_rows_inherit_the_settings_of_their_windows(spark: SparkSession) -> None:
    program = Program()
    stream = bids_per_hour(spark, program).set_parallelism(4).set_max_parallelism(8).slot_sharing_group("heavy")
    stream.get_side_output(LATE)

    graph = stream_graph(program.transformations, CodeRegistry(), Defaults(max_parallelism=2))

    assert [[node.uid for node in chain.nodes] for chain in chains(graph)] == [["source-1"], ["counts", "stateless-3"]]


def test_late_rows_of_a_union_come_from_each_of_its_streams(spark: SparkSession) -> None:
    program = Program()
    both = bids(spark, program).union(bids(spark, program))
    windowed = both.key_by("auction").window(HOURS).side_output_late_data(LATE)
    windowed.aggregate(F.count("*").alias("bids")).uid("counts").get_side_output(LATE)

    graph = stream_graph(program.transformations, CodeRegistry(), Defaults())

    assert [(edge.source_uid, edge.ship_strategy) for edge in graph.inputs("counts")] == [
        ("source-1", ShipStrategy.HASH),
        ("source-2", ShipStrategy.HASH),
    ]


@pytest.mark.parametrize(
    ("declared", "text"),
    [(None, "has no side outputs: "), (OutputTag("l"), "has no side output OutputTag('late'), only OutputTag('l')")],
)
def test_an_undeclared_side_output_is_refused(spark: SparkSession, declared: OutputTag | None, text: str) -> None:
    stream = bids_per_hour(spark, tag=declared)

    with pytest.raises(ProgramError) as refused:
        stream.get_side_output(LATE)

    assert str(refused.value).startswith(f"counts (aggregate(count(*) AS bids)) {text}")
    assert declared is not None or ".side_output_late_data(tag)" in str(refused.value)


def test_only_windows_have_a_late_data_output(spark: SparkSession) -> None:
    with pytest.raises(ProgramError, match="bids has no side output"):
        bids(spark).get_side_output(LATE)


def test_a_side_output_is_declared_by_a_tag(spark: SparkSession) -> None:
    windowed = bids(spark).key_by("auction").window(HOURS)

    with pytest.raises(ProgramError, match=r"takes an OutputTag, such as OutputTag\('late'\), not 'late'"):
        windowed.side_output_late_data("late")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("setting", "what"),
    [
        (lambda late: late.set_parallelism(3), "parallelism"),
        (lambda late: late.set_max_parallelism(3), "maximum parallelism"),
        (lambda late: late.slot_sharing_group("other"), "slot sharing group"),
    ],
)
def test_late_rows_are_emitted_by_the_tasks_of_their_windows(
    spark: SparkSession, setting: Callable[[DataStream], DataStream], what: str
) -> None:
    late = bids_per_hour(spark).get_side_output(LATE)

    with pytest.raises(
        ProgramError, match=rf"^get_side_output\(late\) runs in the tasks of counts .*, so set the {what} there"
    ):
        setting(late)
    assert late.name("too late").uid("late") is late
