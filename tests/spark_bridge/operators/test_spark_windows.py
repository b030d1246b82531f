"""Tests windows as columns: split into panes and merged again, they equal Spark's own windows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
from flykka.spark_bridge.functions.event_time import EventTime
from flykka.spark_bridge.operators.spark_windows import WindowCode, WindowLayout, by_window
from flykka.spark_bridge.program.aggregates import TIME, analyze
from tests.spark_bridge.harness import END

pytestmark = [pytest.mark.spark, pytest.mark.slow]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECONDS = [-20.0, -6.000001, -6.0, -0.000001, 0.0, 0.699999, 0.7, 3.0, 3.7, 4.0, 4.7, 9.999999, 11.0, 11.7, None]
SIZES = [
    pytest.param((3000, 3000, 700), id="tumbling"),
    pytest.param((10_000, 5000, 0), id="every window in two panes", marks=pytest.mark.long),
    pytest.param((10_000, 3000, 1000), id="a size that is not a multiple of the slide"),
    pytest.param((7000, 6999, 5), id="barely overlapping", marks=pytest.mark.long),
    pytest.param((4700, 700, 699), id="seven windows per row"),
]


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """Rows before and after the epoch and at the edges of windows, and one row without a time."""
    times = [
        (number % 2, number, None if seconds is None else EPOCH + timedelta(seconds=seconds))
        for number, seconds in enumerate(SECONDS * 2)
    ]
    return spark.createDataFrame(times, "key long, amount long, at timestamp").coalesce(1).localCheckpoint()


def code_of(rows: DataFrame, windows: tuple[int, int, int], *aggregates: Column) -> WindowCode:
    size_ms, slide_ms, offset_ms = windows
    return WindowCode(
        keys=("key",),
        windows=EventTimeWindows(size_ms=size_ms, slide_ms=slide_ms, offset_ms=offset_ms),
        event_time=EventTime(column="at"),
        plan=analyze(rows.limit(0), ("key",), aggregates),
    )


def by_spark(rows: DataFrame, windows: tuple[int, int, int], *aggregates: Column) -> DataFrame:
    size, slide, offset = (f"{milliseconds} milliseconds" for milliseconds in windows)
    return rows.groupBy(F.window("at", size, slide, offset).alias("w"), "key").agg(*aggregates)


def in_order(rows: list[Row]) -> list[str]:
    return sorted(map(repr, map(tuple, rows)))


@pytest.mark.parametrize("windows", SIZES)
def test_windows_equal_those_of_spark(rows: DataFrame, windows: tuple[int, int, int]) -> None:
    aggregates = F.count("*").alias("n"), F.sum("amount").alias("sum"), F.avg("amount").alias("mean")
    code = code_of(rows, windows, *aggregates)

    ours = code.fired(by_window(code.windows, code.local_state(rows), None, END))
    spark = by_spark(rows, windows, *aggregates).select("w.start", "w.end", "key", "n", "sum", "mean")

    assert in_order(ours.collect()) == in_order(spark.collect())


def test_unaggregated_rows_are_assigned_to_the_same_windows(rows: DataFrame) -> None:
    distinct = F.countDistinct("amount").alias("different")
    code = code_of(rows, (10_000, 3000, 1000), distinct)

    ours = code.fired(by_window(code.windows, code.local_state(rows), None, END))
    spark = by_spark(rows, (10_000, 3000, 1000), distinct).select("w.start", "w.end", "key", "different")

    assert in_order(ours.collect()) == in_order(spark.collect())


def test_every_window_fires_in_exactly_one_step(rows: DataFrame) -> None:
    code = code_of(rows, (10_000, 3000, 1000), F.count("*").alias("n"))
    state, windows = code.local_state(rows).localCheckpoint(), code.windows
    steps = [windows.last_fired_start(watermark) for watermark in (-10_001, 3999, 6000, 12_345)]

    fired_in_steps: list[Row] = []
    for after_ms, to_ms in zip([None, *steps], [*steps, END], strict=True):
        from_ms = None if after_ms is None else windows.next_start(after_ms)
        panes = WindowLayout(code).between(state, from_ms, windows.end_of_last(to_ms))
        fired_in_steps += code.fired(by_window(windows, panes, after_ms, to_ms)).collect()
    at_once = code.fired(by_window(windows, state, None, END))

    assert in_order(fired_in_steps) == in_order(at_once.collect())


def test_rows_between_windows_belong_to_no_window(rows: DataFrame) -> None:
    code = code_of(rows, (1000, 5000, 700), F.count("*").alias("n"))

    ours = code.fired(code.local_state(rows)).select(F.unix_millis("window_start"), F.unix_millis("window_end"), "n")
    since_start = F.pmod(F.unix_micros("at") - 700_000, F.lit(5_000_000))
    start = ((F.unix_micros("at") - since_start) / 1000).cast("long")
    expected = rows.where(since_start < 1_000_000).groupBy(start.alias("start"), "key").count()

    assert in_order(ours.collect()) == in_order(expected.selectExpr("start", "start + 1000", "count").collect())


@pytest.mark.parametrize(("windows", "panes"), [((12_000, 3000, 0), 1), ((10_000, 3001, 0), 2), ((3000, 3000, 0), 1)])
def test_a_key_has_few_panes_per_slide(
    spark: SparkSession, rows: DataFrame, windows: tuple[int, int, int], panes: int
) -> None:
    code = code_of(rows, windows, F.count("*").alias("n"))
    one_slide = spark.range(windows[1]).select(
        F.lit(0).alias("key"), "id", F.col("id").alias("amount"), F.timestamp_millis("id").alias("at")
    )

    state = code.local_state(one_slide.coalesce(1))

    assert state.select(TIME).distinct().count() == panes
