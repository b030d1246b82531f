"""Validation of windows that call functions; errors name the line of the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.keyed_stream import KeyedStream
from flykka.api.streams.side_outputs import OutputTag
from flykka.errors import ProgramError, StreamTypeError
from flykka.spark_bridge.functions.aggregate_function import AggregateFunction
from flykka.spark_bridge.functions.event_time import OF_WINDOWS, EventTime
from flykka.spark_bridge.functions.windowing.evictors import CountEvictor
from flykka.spark_bridge.functions.windowing.session_windows import EventTimeSessionWindows, GlobalWindows
from flykka.spark_bridge.functions.windowing.time_windows import TumblingProcessingTimeWindows
from flykka.spark_bridge.functions.windowing.triggers import CountTrigger, DeltaTrigger, EventTimeTrigger
from flykka.spark_bridge.functions.windowing.window_assigner import WindowAssigner
from flykka.spark_bridge.functions.windowing.window_function import ProcessWindowFunction
from tests.flykka.programs import HOURS, bids

pytestmark = pytest.mark.spark

LATE = OutputTag("late")
SESSIONS = EventTimeSessionWindows.with_gap("5min")


class Nothing(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: list[Any]) -> None: ...


class Number(AggregateFunction[Any, int, Any]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> Any:
        return {"n": accumulator}


def first(one: dict[str, Any], two: dict[str, Any]) -> dict[str, Any]:
    return one


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (
            lambda bids: bids.window(SESSIONS).aggregate(F.collect_list("price")),
            r"sessions are aggregated in columns by count, sum, min, max and avg.* give aggregate\(\.\.\.\)",
        ),
        (
            lambda bids: bids.window(SESSIONS).allowed_lateness("1min").aggregate(F.count("*")),
            r"not in sessions with allowed_lateness\(\.\.\.\): give aggregate\(\.\.\.\)",
        ),
        (
            lambda bids: bids.window(SESSIONS).side_output_late_data(OutputTag("late")).aggregate(F.count("*")),
            r"not in sessions with side_output_late_data\(\.\.\.\)",
        ),
        (
            lambda bids: bids.window(EventTimeSessionWindows.with_dynamic_gap(str)).aggregate(F.count("*")),
            "not in sessions with a dynamic gap",
        ),
        (
            lambda bids: bids.window(HOURS).trigger(CountTrigger.of(2)).apply(lambda rows: rows),
            r"apply after .*: windows with a trigger may fire several times.* use process\(function, output\)",
        ),
        (
            lambda bids: bids.window(SESSIONS).allowed_lateness("1s").apply(lambda rows: rows),
            "apply after .*: these windows fire again for each late row",
        ),
        (
            lambda bids: bids.count_window(3).apply(lambda rows: rows),
            "apply after .*: these windows have no bounds that distinguish them",
        ),
        (lambda bids: bids.count_window(3).aggregate(F.count("*")), "not in GlobalWindows"),
        (
            lambda bids: bids.window(HOURS).allowed_lateness("1s").trigger(CountTrigger.of(2)).aggregate(F.count("*")),
            r"not with trigger\(\.\.\.\)",
        ),
        (
            lambda bids: bids.window(HOURS).evictor(CountEvictor.of(2)).aggregate(F.count("*")),
            r"not with evictor\(\.\.\.\)",
        ),
        (lambda bids: bids.window(HOURS).aggregate(), "needs at least one column"),
        (lambda bids: bids.window(HOURS).aggregate(Number(), output="n bigint"), "needs accumulator_type="),
        (lambda bids: bids.window(HOURS).aggregate(Number(), accumulator_type="bigint"), "needs output="),
        (lambda bids: bids.window(HOURS).reduce("sum"), "reduce after .*: a reduce function is a ReduceFunction or"),
        (lambda bids: bids.window(HOURS).reduce(first, Nothing()), "takes a window function together with its output"),
        (
            lambda bids: bids.window(HOURS).process(first, "n int"),
            "process after .* takes a ProcessWindowFunction, not",
        ),
        (
            lambda bids: bids.window(GlobalWindows.create()).reduce(first),
            "GlobalWindows never end, so they need a trigger",
        ),
        (
            lambda bids: bids.window(HOURS).trigger("often"),
            r"takes a Trigger such as CountTrigger.of\(3\), not 'often'",
        ),
        (lambda bids: bids.window(HOURS).evictor(3), r"takes an Evictor such as CountEvictor.of\(3\), not 3"),
        (
            lambda bids: bids.window(SESSIONS).trigger(DeltaTrigger.of(1, lambda *_: 1, "price long")),
            "DeltaTrigger cannot be used",
        ),
        (lambda bids: bids.count_window(0), "number of rows of a window"),
        (lambda bids: bids.count_window(3, 0), "number of rows between windows"),
        (
            lambda bids: bids.count_window(3).allowed_lateness("1s"),
            "allowed_lateness after .*: no row is late for Global",
        ),
        (
            lambda bids: bids.window(TumblingProcessingTimeWindows.of("1s")).side_output_late_data(LATE),
            "side_output_late_data after .*: no row is late for TumblingProcessingTimeWindows",
        ),
    ],
)
def test_unsupported_calls_on_windows_are_refused_with_an_alternative(
    spark: SparkSession, refused: Callable[[KeyedStream], object], why: str
) -> None:
    keyed = bids(spark).key_by("auction")

    with pytest.raises(ProgramError, match=why):
        refused(keyed)


def test_only_event_time_windows_need_event_time(spark: SparkSession) -> None:
    keyed = bids(spark).select("auction", "price").key_by("auction")

    with pytest.raises(StreamTypeError, match="gives no event time to window by"):
        keyed.window(SESSIONS)
    assert isinstance(keyed.count_window(5, 2).reduce(first), DataStream)
    assert isinstance(keyed.window(TumblingProcessingTimeWindows.of("1s")).reduce(first), DataStream)


def test_reduced_rows_have_the_bounds_and_the_event_time_of_windows(spark: SparkSession) -> None:
    stream = bids(spark)

    reduced = stream.key_by("auction").window(SESSIONS).reduce(first)

    assert reduced.columns == ["window_start", "window_end", *stream.columns]
    assert reduced.flow.type.event_time == OF_WINDOWS
    assert stream.key_by("auction").count_window(3).reduce(first).columns == stream.columns


@pytest.mark.parametrize("assigner", [SESSIONS, TumblingProcessingTimeWindows.of("1s"), HOURS])
def test_a_dataframe_function_receives_bounds_and_columns_in_windows_that_fire_once(
    spark: SparkSession, assigner: WindowAssigner
) -> None:
    windows = bids(spark).with_column_renamed("price", "window_end").key_by("auction").window(assigner)

    made = windows.evictor(CountEvictor.of(2)).apply(lambda rows: rows)

    assert made.columns == ["window_start", "window_end", "auction", "bidder", "channel", "at"]


def test_a_function_of_session_rows_must_group_by_window_and_key(spark: SparkSession) -> None:
    windows = bids(spark).key_by("auction").window(SESSIONS)

    with pytest.raises(StreamTypeError, match=r"aggregates rows .* of all windows that fire together"):
        windows.apply(lambda rows: rows.groupBy("auction").count())
    with pytest.raises(StreamTypeError, match=r"aggregates rows .* of all keys that a subtask has"):
        windows.apply(lambda rows: rows.groupBy("window_end").count())


@pytest.mark.parametrize(
    ("columns", "event_time"),
    [
        ("window_end timestamp", EventTime(column="window_end", offset_ms=-1)),
        ("at timestamp", EventTime(column="at")),
        ("window_end bigint", None),
    ],
)
def test_results_of_window_functions_with_the_window_end_have_event_time(
    spark: SparkSession, columns: str, event_time: EventTime | None
) -> None:
    stream = bids(spark).key_by("auction").window(HOURS).process(Nothing(), columns)

    assert stream.flow.type.event_time == event_time


def test_late_rows_have_the_columns_of_the_input(spark: SparkSession) -> None:
    stream = bids(spark)
    sessions = stream.key_by("auction").window(SESSIONS).side_output_late_data(LATE)

    late = sessions.aggregate(Number(), accumulator_type="bigint", output="n bigint").get_side_output(LATE)

    assert late.schema.names == stream.schema.names


def test_the_trigger_of_tumbling_windows_is_configurable_for_functions(spark: SparkSession) -> None:
    windows = bids(spark).key_by("auction").window(HOURS).trigger(EventTimeTrigger.create())

    assert windows.process(Nothing(), "n bigint").columns == ["n"]
