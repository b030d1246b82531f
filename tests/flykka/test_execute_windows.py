"""Overlapping windows, and rows that are too late for them, from the environment to the output folders."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from flykka import (
    FileSink,
    FileSource,
    OutputTag,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.cluster(task_managers=2, slots_per_task_manager=2),
    pytest.mark.checkpoints("5s"),
]

IN_ORDER = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
LATE = OutputTag("late")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def write_sales(folder: Path, *files: Sequence[float]) -> Path:
    """Write sales at these seconds, file by file; the second modulo three determines the item."""
    folder.mkdir()
    for number, seconds in enumerate(files):
        table = pa.table(
            {
                "item": [int(second) % 3 for second in seconds],
                "note": [f"{number}/{second}" for second in seconds],
                "at": pa.array([EPOCH + timedelta(seconds=second) for second in seconds], pa.timestamp("us", "UTC")),
            }
        )
        pq.write_table(table, folder / f"sales-{number}.parquet")
    return folder


# The job of test_upgrades has such windows too.
@pytest.mark.long
@pytest.mark.parametrize("parallelism", [1, 2])
def test_sliding_windows_equal_the_batch(
    spark: SparkSession, env: StreamExecutionEnvironment, tmp_path: Path, parallelism: int
) -> None:
    sales = write_sales(tmp_path / "sales", *([n * 50 + m / 4 for m in range(200)] for n in range(4)))
    (
        env.from_source(FileSource.parquet(str(sales)).files_per_batch(1), IN_ORDER, "sales")
        .key_by("item")
        .window(SlidingEventTimeWindows.of("30s", "12s", offset="5s"))
        .aggregate(F.count("*").alias("sold"), F.max("note").alias("last"))
        .set_parallelism(parallelism)
        .sink_to(FileSink.parquet(str(tmp_path / "sold")))
        .set_parallelism(parallelism)
    )

    env.execute("sliding")

    cut = spark.read.parquet(str(sales)).groupBy(F.window("at", "30 seconds", "12 seconds", "5 seconds"), "item")
    batch = cut.agg(F.count("*").alias("sold"), F.max("note").alias("last"))
    expected = batch.select("window.start", "window.end", "item", "sold", "last").toDF(
        "window_start", "window_end", "item", "sold", "last"
    )
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "sold")), expected)


# Windows of functions fire repeatedly in each run.
@pytest.mark.long
@pytest.mark.parametrize("parallelism", [1, 2])
def test_the_newest_rows_of_repeatedly_fired_windows_equal_the_batch(
    spark: SparkSession, env: StreamExecutionEnvironment, tmp_path: Path, parallelism: int
) -> None:
    seconds = [[n * 20 + m / 2 for m in range(60)] for n in range(2, 6)]
    sales = write_sales(tmp_path / "sales", *seconds, [80.0, 119.0, 200.0])
    (
        env.from_source(FileSource.parquet(str(sales)).files_per_batch(1), IN_ORDER, "sales")
        .key_by("item")
        .window(SlidingEventTimeWindows.of("30s", "12s"))
        .allowed_lateness("40s")
        .aggregate(F.count("*").alias("sold"), F.max("note").alias("last"))
        .set_parallelism(parallelism)
        .sink_to(FileSink.parquet(str(tmp_path / "sold")))
        .set_parallelism(parallelism)
    )

    env.execute("again")

    cut = spark.read.parquet(str(sales)).groupBy(F.window("at", "30 seconds", "12 seconds"), "item")
    batch = cut.agg(F.count("*").alias("sold"), F.max("note").alias("last"))
    expected = batch.select("window.start", "window.end", "item", "sold", "last").toDF(
        "window_start", "window_end", "item", "sold", "last"
    )
    emitted = spark.read.parquet(str(tmp_path / "sold"))
    newest = emitted.groupBy("window_start", "window_end", "item").agg(
        F.max("sold").alias("sold"), F.max("last").alias("last")
    )
    assertDataFrameEqual(newest, expected)


def test_a_row_is_in_its_windows_or_in_the_side_output(
    spark: SparkSession, env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    # After the first file the watermark is just before 60 s, and all windows up to the one that starts at 30 s are
    # closed.
    sales = write_sales(tmp_path / "sales", [1, 25, 60], [2, 39.5, 40, 61], [90])
    sold = (
        env.from_source(FileSource.parquet(str(sales)).files_per_batch(1), IN_ORDER, "sales")
        .key_by("item")
        .window(SlidingEventTimeWindows.of("30s", "10s"))
        .side_output_late_data(LATE)
        .aggregate(F.collect_list("note").alias("notes"))
        .set_parallelism(2)
    )
    sold.sink_to(FileSink.parquet(str(tmp_path / "sold"))).set_parallelism(2)
    late = sold.get_side_output(LATE)
    late.where("item >= 0").sink_to(FileSink.parquet(str(tmp_path / "late")))

    env.execute("late")

    windows: dict[str, list[int]] = {}
    for row in spark.read.parquet(str(tmp_path / "sold")).selectExpr("unix_seconds(window_start) s", "notes").collect():
        for note in row.notes:
            windows.setdefault(note, []).append(row.s)
    assert {note: sorted(starts) for note, starts in windows.items()} == {
        "0/1": [-20, -10, 0],
        "0/25": [0, 10, 20],
        "0/60": [40, 50, 60],
        "1/40": [40],
        "1/61": [40, 50, 60],
        "2/90": [70, 80, 90],
    }
    too_late = spark.read.parquet(str(tmp_path / "late")).select("item", "note", F.unix_millis("at"))
    assert sorted(map(tuple, too_late.collect())) == [(0, "1/39.5", 39_500), (2, "1/2", 2000)]
