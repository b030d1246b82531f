"""Windows after windows, and functions after them: the event time of a result is the end of its window."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from flykka import (
    FileSink,
    FileSource,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flykka.spark_bridge.functions.process_function import KeyedProcessFunction

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.cluster(task_managers=2, slots_per_task_manager=2),
    pytest.mark.checkpoints("5s"),
]

IN_ORDER = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    """Sales of 70 seconds in two files, which end in the middle of windows."""
    folder = tmp_path / "sales"
    folder.mkdir()
    for number in range(2):
        seconds = [number * 35 + n / 2 for n in range(70)]
        table = pa.table(
            {
                "item": [int(second) % 5 for second in seconds],
                "at": pa.array([EPOCH + timedelta(seconds=second) for second in seconds], pa.timestamp("us", "UTC")),
            }
        )
        pq.write_table(table, folder / f"sales-{number}.parquet")
    return folder


def batch_counts(spark: SparkSession, sales: Path) -> DataFrame:
    rows = spark.read.parquet(str(sales)).groupBy(F.window("at", "10 seconds").alias("w"), "item")
    return rows.agg(F.count("*").alias("sold")).select("w.start", "w.end", "item", "sold")


@pytest.mark.parametrize("parallelism", [1, pytest.param(2, marks=pytest.mark.long)])
def test_windows_over_window_results_equal_the_batch(
    spark: SparkSession, env: StreamExecutionEnvironment, sales: Path, tmp_path: Path, parallelism: int
) -> None:
    (
        env.from_source(FileSource.parquet(str(sales)).files_per_batch(1), IN_ORDER, "sales")
        .key_by("item")
        .window(TumblingEventTimeWindows.of("10s"))
        .aggregate(F.count("*").alias("sold"))
        .set_parallelism(parallelism)
        .with_column_renamed("window_end", "until")
        .key_by("item")
        .window(SlidingEventTimeWindows.of("40s", "20s"))
        .aggregate(F.max("sold").alias("most"), F.count("*").alias("parts"), F.max("until").alias("last"))
        .set_parallelism(parallelism)
        .sink_to(FileSink.parquet(str(tmp_path / "most")))
    )

    env.execute("windows of windows")

    tens = batch_counts(spark, sales).withColumn("time", F.expr("end - interval 1 millisecond"))
    cut = tens.groupBy(F.window("time", "40 seconds", "20 seconds").alias("w"), "item")
    batch = cut.agg(F.max("sold").alias("most"), F.count("*").alias("parts"), F.max("end").alias("last"))
    expected = batch.select(
        F.col("w.start").alias("window_start"), F.col("w.end").alias("window_end"), "item", "most", "parts", "last"
    )
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "most")), expected)


class EmitTime(KeyedProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Iterator[dict[str, object]]:
        yield {
            "item": row["item"],
            "end": row["window_end"],
            "timestamp": ctx.timestamp(),
            "is_late": ctx.timestamp() <= ctx.current_watermark(),
        }


@pytest.mark.long
def test_a_function_reads_window_end_timestamps_that_are_never_late(
    spark: SparkSession, env: StreamExecutionEnvironment, sales: Path, tmp_path: Path
) -> None:
    (
        env.from_source(FileSource.parquet(str(sales)).files_per_batch(1), IN_ORDER, "sales")
        .key_by("item")
        .window(TumblingEventTimeWindows.of("10s"))
        .aggregate(F.count("*").alias("sold"))
        .key_by("item")
        .process(EmitTime(), "item long, end timestamp, timestamp long, is_late boolean")
        .sink_to(FileSink.parquet(str(tmp_path / "times")))
    )

    env.execute("times of windows")

    expected = batch_counts(spark, sales).selectExpr(
        "item", "end", "unix_millis(end) - 1 as timestamp", "false as is_late"
    )
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "times")), expected)
