"""Validation of windows over all rows that call functions, and of session and count windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.program import Program
from flykka.api.streams.side_outputs import OutputTag
from flykka.api.streams.stream_graph_generator import Defaults, stream_graph
from flykka.errors import ProgramError, StreamTypeError
from flykka.messages.graph.job_graph import ShipStrategy
from flykka.spark_bridge.connectors.file.sink import FileSink
from flykka.spark_bridge.functions.windowing.evictors import CountEvictor
from flykka.spark_bridge.functions.windowing.session_windows import EventTimeSessionWindows, GlobalWindows
from flykka.spark_bridge.functions.windowing.time_windows import TumblingProcessingTimeWindows
from flykka.spark_bridge.functions.windowing.triggers import CountTrigger
from flykka.spark_bridge.functions.windowing.window_function import ProcessAllWindowFunction, ProcessWindowFunction
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from tests.flykka.api.streams.test_windowed_stream import Nothing, Number, first
from tests.flykka.programs import HOURS, bids

pytestmark = pytest.mark.spark

LATE = OutputTag("late")
SESSIONS = EventTimeSessionWindows.with_gap("5min")


class EmitNothingForAll(ProcessAllWindowFunction):
    def process(self, context: Any, elements: list[Any]) -> None: ...


NUMBER: dict[str, Any] = {"accumulator_type": "bigint", "output": "n bigint"}

COLUMNS: dict[str, tuple[Callable[[DataStream], DataStream], list[str]]] = {
    "process": (lambda rows: rows.window_all(SESSIONS).process(EmitNothingForAll(), "n bigint"), ["n"]),
    "aggregate": (lambda rows: rows.window_all(SESSIONS).aggregate(Number(), **NUMBER), ["n"]),
    "aggregate and a function": (
        lambda rows: rows.count_window_all(3, 2).aggregate(Number(), EmitNothingForAll(), **NUMBER),
        ["n"],
    ),
    "reduce": (lambda rows: rows.count_window_all(3).reduce(first), ["auction", "bidder", "price", "channel", "at"]),
    "processing time": (
        lambda rows: rows.window_all(TumblingProcessingTimeWindows.of("1s")).process(EmitNothingForAll(), "n bigint"),
        ["n"],
    ),
    "a trigger and an evictor": (
        lambda rows: (
            rows.window_all(GlobalWindows.create())
            .trigger(CountTrigger.of(2))
            .evictor(CountEvictor.of(3))
            .process(EmitNothingForAll(), "n bigint")
        ),
        ["n"],
    ),
    "sessions in columns": (
        lambda rows: rows.window_all(SESSIONS).aggregate(F.count("*").alias("n")),
        ["window_start", "window_end", "n"],
    ),
    "sessions of a column that is called like the only key": (
        lambda rows: (
            rows.with_column_renamed("price", "__all").window_all(SESSIONS).aggregate(F.max("__all").alias("__all"))
        ),
        ["window_start", "window_end", "__all"],
    ),
    "late rows": (
        lambda rows: (
            rows.window_all(SESSIONS)
            .allowed_lateness("1min")
            .side_output_late_data(LATE)
            .process(EmitNothingForAll(), "n bigint")
            .get_side_output(LATE)
        ),
        ["auction", "bidder", "price", "channel", "at"],
    ),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_results_have_no_key_and_one_subtask_receives_all_rows(spark: SparkSession, name: str) -> None:
    write, columns = COLUMNS[name]
    program = Program()
    made = write(bids(spark, program))
    made.sink_to(FileSink.parquet("/out"))

    graph = stream_graph(program.transformations, CodeRegistry(), Defaults(parallelism=3))

    assert made.columns == columns
    windows = next(each.uid for each in program.transformations if each.parallelism_limit == 1)
    assert [edge.ship_strategy for edge in graph.inputs(windows)] == [ShipStrategy.GLOBAL]
    assert (graph.node("source-1").parallelism, graph.node(windows).parallelism) == (3, 1)


def test_more_than_one_subtask_is_refused(spark: SparkSession) -> None:
    counted = bids(spark).count_window_all(3).process(EmitNothingForAll(), "n bigint").uid("threes")

    with pytest.raises(ProgramError, match=r"^the parallelism of threes .* must be at most 1, not 2$"):
        counted.set_parallelism(2)


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (lambda bids: bids.window_all("1h"), r"^windows after bids take an assigner such as .*, not '1h'$"),
        (lambda bids: bids.count_window_all(0), "number of rows of a window"),
        (
            lambda bids: bids.window_all(SESSIONS).process(Nothing(), "n int"),
            "process after bids takes a ProcessAllWindowFunction, not",
        ),
        (
            lambda bids: bids.key_by("auction").window(SESSIONS).process(EmitNothingForAll(), "n int"),
            "process after bids takes a ProcessWindowFunction, not",
        ),
        (
            lambda bids: bids.window_all(GlobalWindows.create()).reduce(first),
            "GlobalWindows never end, so they need a trigger",
        ),
        (lambda bids: bids.count_window_all(3).aggregate(F.count("*")), "not in GlobalWindows"),
        (lambda bids: bids.window_all(SESSIONS).aggregate(F.collect_list("price")), "sessions are aggregated in col"),
        (lambda bids: bids.window_all(HOURS).aggregate(), "needs at least one column"),
        (
            lambda bids: bids.count_window_all(3).side_output_late_data(LATE),
            "side_output_late_data after bids: no row is late for GlobalWindows",
        ),
    ],
)
def test_unsupported_calls_on_windows_are_refused_with_an_alternative(
    spark: SparkSession, refused: Callable[[DataStream], object], why: str
) -> None:
    with pytest.raises(ProgramError, match=why):
        refused(bids(spark))


def test_event_time_windows_without_event_time_are_refused(spark: SparkSession) -> None:
    rows = bids(spark, event_time=None)

    with pytest.raises(StreamTypeError, match="bids gives no event time to window by"):
        rows.window_all(HOURS)
    assert isinstance(rows.count_window_all(3).reduce(first), DataStream)


def test_keyed_and_all_window_functions_are_not_interchangeable() -> None:
    assert not issubclass(ProcessAllWindowFunction, ProcessWindowFunction)
    assert not issubclass(ProcessWindowFunction, ProcessAllWindowFunction)
