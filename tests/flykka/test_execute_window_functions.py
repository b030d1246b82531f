"""Functions of all rows of windows, and windows over all rows, compared with the same query as a plain Spark batch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from flykka import (
    EventTimeSessionWindows,
    FileSink,
    FileSource,
    RestartStrategies,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flykka.errors import JobExecutionError

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.cluster(task_managers=2, slots_per_task_manager=2),
    pytest.mark.checkpoints("5s"),
]

IN_ORDER = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TENS = TumblingEventTimeWindows.of("10s")


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    """Sales of 70 seconds in two files, which end in the middle of windows."""
    folder = tmp_path / "sales"
    folder.mkdir()
    for number in range(2):
        seconds = [number * 35 + n / 2 for n in range(70)]
        table = pa.table(
            {
                "item": [int(second * 4) * 7919 % 11 for second in seconds],
                "at": pa.array([EPOCH + timedelta(seconds=second) for second in seconds], pa.timestamp("us", "UTC")),
            }
        )
        pq.write_table(table, folder / f"sales-{number}.parquet")
    return folder


def gap(row: dict[str, Any]) -> str:
    return "3s"


def top_three(rows: DataFrame) -> DataFrame:
    best_first = Window.partitionBy("window_start", "window_end").orderBy(F.desc("sold"), "item")
    return rows.withColumn("place", F.row_number().over(best_first)).where("place <= 3")


def last_two(rows: DataFrame) -> DataFrame:
    """Return the last two rows of each session of an item, with their positions and the session's row count."""
    sessions = Window.partitionBy("item", "window_start", "window_end")
    placed = rows.withColumn("n", F.count("*").over(sessions))
    last_first = sessions.orderBy(F.desc("at"))
    return placed.withColumn("place", F.row_number().over(last_first)).where("place <= 2")


@pytest.mark.parametrize(
    "gap",
    [
        # Sessions with the same gap for all rows are reduced in another test.
        pytest.param(EventTimeSessionWindows.with_gap("3s"), marks=pytest.mark.long),
        EventTimeSessionWindows.with_dynamic_gap(gap),
    ],
)
def test_a_function_receives_the_rows_of_sessions(
    spark: SparkSession, env: StreamExecutionEnvironment, sales: Path, tmp_path: Path, gap: EventTimeSessionWindows
) -> None:
    ends = (
        env.from_source(FileSource.parquet(str(sales)).files_per_batch(1), IN_ORDER, "sales")
        .where("pmod(unix_millis(at), 21000) < 14000")
        .key_by("item")
        .window(gap)
        .apply(last_two)
        .uid("ends")
    )
    ends.sink_to(FileSink.parquet(str(tmp_path / "ends")))
    ends.window_all(TENS).aggregate(F.count("*").alias("n")).sink_to(FileSink.parquet(str(tmp_path / "tens")))

    env.execute("ends")

    rows = spark.read.parquet(str(sales)).where("pmod(unix_millis(at), 21000) < 14000")
    cut = rows.withColumn("w", F.session_window("at", "3 seconds"))
    bounds = cut.groupBy("item", "w").agg(F.collect_list("at").alias("ats"))
    batch = last_two(bounds.selectExpr("w.start window_start", "w.end window_end", "item", "explode(ats) at"))
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "ends")), batch)
    by_end = batch.groupBy(F.window(F.col("window_end") - F.expr("interval 1 millisecond"), "10 seconds"))
    counts = by_end.agg(F.count("*").alias("n")).selectExpr("window.start window_start", "window.end window_end", "n")
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "tens")), counts)


@pytest.mark.parametrize("parallelism", [pytest.param(1, marks=pytest.mark.long), 2])
def test_the_best_rows_of_each_window_equal_the_batch(
    spark: SparkSession, env: StreamExecutionEnvironment, sales: Path, tmp_path: Path, parallelism: int
) -> None:
    (
        env.from_source(FileSource.parquet(str(sales)).files_per_batch(1), IN_ORDER, "sales")
        .key_by("item")
        .window(TENS)
        .aggregate(F.count("*").alias("sold"))
        .set_parallelism(parallelism)
        .window_all(TENS)
        .apply(top_three)
        .sink_to(FileSink.parquet(str(tmp_path / "best")))
    )

    env.execute("best")

    counted = spark.read.parquet(str(sales)).groupBy(F.window("at", "10 seconds").alias("w"), "item")
    totals = counted.agg(F.count("*").alias("sold")).selectExpr("w.start window_start", "w.end window_end", "*")
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "best")), top_three(totals.drop("w")))


@pytest.mark.long
def test_a_keyed_function_receives_every_row_once_per_window(
    spark: SparkSession, env: StreamExecutionEnvironment, sales: Path, tmp_path: Path
) -> None:
    def spread(rows: DataFrame) -> DataFrame:
        times = rows.groupBy("item", "window_start", "window_end").agg(F.min("at").alias("a"), F.max("at").alias("b"))
        return times.withColumn("seconds", F.col("b").cast("double") - F.col("a").cast("double"))

    (
        env.from_source(FileSource.parquet(str(sales)).files_per_batch(1), IN_ORDER, "sales")
        .key_by("item")
        .window(SlidingEventTimeWindows.of("30s", "12s", offset="5s"))
        .apply(spread)
        .set_parallelism(2)
        .sink_to(FileSink.parquet(str(tmp_path / "spread")))
        .set_parallelism(2)
    )

    env.execute("spread")

    cut = spark.read.parquet(str(sales)).select(F.window("at", "30 seconds", "12 seconds", "5 seconds").alias("w"), "*")
    batch = spread(cut.selectExpr("w.start window_start", "w.end window_end", "item", "at"))
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "spread")), batch)


@pytest.mark.long  # The windows after sessions are such windows in each run.
def test_windows_over_all_rows_equal_the_batch(
    spark: SparkSession, env: StreamExecutionEnvironment, sales: Path, tmp_path: Path
) -> None:
    totals = (F.count("*").alias("sold"), F.avg("item").alias("mean"), F.countDistinct("item").alias("items"))
    rows = env.from_source(FileSource.parquet(str(sales)).files_per_batch(1), IN_ORDER, "sales").set_parallelism(2)
    rows.window_all(TENS).aggregate(*totals[:2]).sink_to(FileSink.parquet(str(tmp_path / "parts")))
    rows.window_all(TENS).aggregate(*totals).sink_to(FileSink.parquet(str(tmp_path / "whole")))

    env.execute("totals")

    cut = spark.read.parquet(str(sales)).groupBy(F.window("at", "10 seconds").alias("w"))
    batch = cut.agg(*totals).selectExpr("w.start window_start", "w.end window_end", "sold", "mean", "items")
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "parts")), batch.drop("items"))
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "whole")), batch)


def test_a_failing_window_function_is_named_with_its_line(
    env: StreamExecutionEnvironment, sales: Path, tmp_path: Path
) -> None:
    def failing(rows: DataFrame) -> DataFrame:
        if rows.count():
            raise RuntimeError("there are rows")
        return rows

    env.set_restart_strategy(RestartStrategies.no_restart())
    rows = env.from_source(FileSource.parquet(str(sales)), IN_ORDER, "sales")
    rows.window_all(TENS).apply(failing).uid("fails").sink_to(FileSink.parquet(str(tmp_path / "none")))

    with pytest.raises(JobExecutionError) as failed:
        env.execute("failing")

    text = str(failed.value)
    assert "RuntimeError: operator 'fails' (" in text
    assert "): there are rows" in text
    assert "window_all(TENS).apply(failing)" in text
    assert 'raise RuntimeError("there are rows")' in text


@pytest.mark.long
def test_non_nullable_columns_are_reduced(spark: SparkSession, env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    numbers = spark.range(60).select("id", F.timestamp_millis(F.col("id") * 1_000).alias("at"), F.lit("a").alias("key"))
    (
        env.from_dataframe(numbers, IN_ORDER)
        .key_by("key")
        .window(TENS)
        .reduce(lambda one, two: {**two, "id": one["id"] + two["id"]})
        .sink_to(FileSink.parquet(str(tmp_path / "sums")))
    )

    env.execute("sums")

    sums = numbers.groupBy(F.window("at", "10 seconds")).agg(F.sum("id").alias("id"))
    bounds = sums.selectExpr("window.start window_start", "window.end window_end", "id")
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "sums")).select(*bounds.columns), bounds)


@pytest.mark.long
def test_windows_may_follow_reduced_sessions(
    spark: SparkSession, env: StreamExecutionEnvironment, sales: Path, tmp_path: Path
) -> None:
    (
        env.from_source(FileSource.parquet(str(sales)).files_per_batch(1), IN_ORDER, "sales")
        .where("pmod(unix_millis(at), 21000) < 14000")
        .key_by("item")
        .window(EventTimeSessionWindows.with_gap("3s"))
        .reduce(lambda one, _: one)
        .window_all(TENS)
        .aggregate(F.count("*").alias("sessions"))
        .sink_to(FileSink.parquet(str(tmp_path / "tens")))
    )

    env.execute("tens")

    rows = spark.read.parquet(str(sales)).where("pmod(unix_millis(at), 21000) < 14000")
    sessions = rows.groupBy("item", F.session_window("at", "3 seconds").alias("w")).count()
    ends = sessions.groupBy(F.window(F.col("w.end") - F.expr("interval 1 millisecond"), "10 seconds").alias("w"))
    counts = ends.agg(F.count("*").alias("sessions")).selectExpr("w.start window_start", "w.end window_end", "sessions")
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "tens")), counts)
