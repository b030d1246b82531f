"""Windows that call user functions, from the environment to the output folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from flykka import (
    AggregateFunction,
    EventTimeSessionWindows,
    FileSink,
    FileSource,
    OutputTag,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flykka.spark_bridge.functions.windowing.window_function import ProcessWindowContext

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.cluster(task_managers=2, slots_per_task_manager=2),
    pytest.mark.checkpoints("5s"),
]

Row = dict[str, Any]

IN_ORDER = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
LATE = OutputTag("late")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def write_clicks(folder: Path, *files: Sequence[float]) -> Path:
    """Write clicks at these seconds, file by file; `user` is the second modulo 3."""
    folder.mkdir()
    for number, seconds in enumerate(files):
        at = pa.array([EPOCH + timedelta(seconds=second) for second in seconds], pa.timestamp("us", "UTC"))
        table = pa.table({"user": [int(second) % 3 for second in seconds], "pages": list(map(int, seconds)), "at": at})
        pq.write_table(table, folder / f"clicks-{number}.parquet")
    return folder


class Sessions(ProcessWindowFunction):
    def process(self, key: int, context: ProcessWindowContext, elements: list[Row]) -> Iterator[Row]:
        window = context.window()
        yield {"user": key, "start": window.start, "end": window.end, "pages": sorted(row["pages"] for row in elements)}


class Mean(AggregateFunction[Row, Row, Row]):
    def create_accumulator(self) -> Row:
        return {"n": 0, "total": 0}

    def add(self, value: Row, accumulator: Row) -> Row:
        return {"n": accumulator["n"] + 1, "total": accumulator["total"] + value["pages"]}

    def get_result(self, accumulator: Row) -> Row:
        return {"mean": accumulator["total"] / accumulator["n"]}


@pytest.mark.parametrize("parallelism", [1, pytest.param(2, marks=pytest.mark.long)])
def test_sessions_equal_those_of_the_batch(
    spark: SparkSession, env: StreamExecutionEnvironment, tmp_path: Path, parallelism: int
) -> None:
    seconds = [n + gap * 20 for gap in range(4) for n in range(12)]
    clicks = write_clicks(tmp_path / "clicks", seconds[:20], seconds[20:])
    (
        env.from_source(FileSource.parquet(str(clicks)).files_per_batch(1), IN_ORDER, "clicks")
        .key_by("user")
        .window(EventTimeSessionWindows.with_gap("5s"))
        .process(Sessions(), "user bigint, start bigint, end bigint, pages array<bigint>")
        .set_parallelism(parallelism)
        .sink_to(FileSink.parquet(str(tmp_path / "sessions")))
    )

    env.execute("sessions")

    expected = [
        (user, min(pages) * 1000, max(pages) * 1000 + 5000, pages)
        for user in range(3)
        for gap in range(4)
        if (pages := [second for second in seconds if second % 3 == user and second // 20 == gap])
    ]
    columns = "user bigint, start bigint, end bigint, pages array<bigint>"
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "sessions")), spark.createDataFrame(expected, columns))


def test_late_rows_fire_a_window_again_or_go_to_the_side_output(
    spark: SparkSession, env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    clicks = write_clicks(tmp_path / "clicks", [0, 3, 12], [6, 24], [9, 27])
    means = (
        env.from_source(FileSource.parquet(str(clicks)).files_per_batch(1), IN_ORDER, "clicks")
        .key_by("user")
        .window(TumblingEventTimeWindows.of("10s"))
        .allowed_lateness("5s")
        .side_output_late_data(LATE)
        .aggregate(Mean(), accumulator_type="struct<n:bigint,total:bigint>", output="mean double")
        .set_parallelism(1)
    )
    means.get_side_output(LATE).sink_to(FileSink.parquet(str(tmp_path / "late")))
    means.sink_to(FileSink.parquet(str(tmp_path / "means"))).set_parallelism(1)

    env.execute("means")

    means_there = sorted(row.mean for row in spark.read.parquet(str(tmp_path / "means")).collect())
    assert means_there == [1.5, 3.0, 12.0, 25.5]
    assert [row.pages for row in spark.read.parquet(str(tmp_path / "late")).collect()] == [9]


def test_count_windows_are_reduced(spark: SparkSession, env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    clicks = write_clicks(tmp_path / "clicks", range(0, 12, 3), range(12, 24, 3))
    (
        env.from_source(FileSource.parquet(str(clicks)).files_per_batch(1), IN_ORDER, "clicks")
        .key_by("user")
        .count_window(3)
        .reduce(lambda one, two: {**two, "pages": one["pages"] + two["pages"]})
        .set_parallelism(1)
        .sink_to(FileSink.parquet(str(tmp_path / "threes")))
    )

    env.execute("threes")

    assert sorted(row.pages for row in spark.read.parquet(str(tmp_path / "threes")).collect()) == [9, 36]
