"""Tests unions, side outputs and several sinks: the results of batch jobs and streams equal those of plain Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flykka import (
    FileSink,
    FileSource,
    JobClient,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flykka.messages.control.job import ExecutionStateChanged
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.message import Message

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

SINKS = ("dear", "others", "daily")


def start_batch_program(env: StreamExecutionEnvironment, files: Path, folder: Path, *, parallelism: int) -> JobClient:
    """Write all sales twice: the expensive sales, the other sales, and the daily sales of each shop among the latter.

    Every operator has another parallelism than its inputs, as far as four slots allow.
    """
    env.set_checkpoint_dir(str(folder / "checkpoints"))
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
    source = FileSource.parquet(str(files)).files_per_batch(4)
    north = env.from_source(source, in_order, "north").set_parallelism(parallelism)
    south = env.from_source(source, in_order, "south").set_parallelism(1)
    paid = north.union(south).transform(lambda rows: rows.where("amount IS NOT NULL")).set_parallelism(parallelism + 1)
    others, dear = paid.side_output("amount > 900")
    dear.sink_to(FileSink.parquet(str(folder / "dear"))).set_parallelism(1)
    others.sink_to(FileSink.parquet(str(folder / "others"))).set_parallelism(parallelism)
    days = others.key_by("shop").window(TumblingEventTimeWindows.of("1d"))
    daily = days.aggregate(F.sum("amount").alias("total"), F.count("*").alias("sales")).set_parallelism(parallelism + 1)
    daily.sink_to(FileSink.parquet(str(folder / "daily"))).set_parallelism(1)
    return env.execute_async("sales in parts")


def batch_outputs(spark: SparkSession, files: Path) -> dict[str, DataFrame]:
    once = spark.read.parquet(str(files)).where("amount IS NOT NULL")
    paid = once.union(once)
    others = paid.where("amount <= 900")
    daily = others.groupBy(F.window("at", "1 day"), "shop").agg(
        F.sum("amount").alias("total"), F.count("*").alias("sales")
    )
    start, end = F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end")
    return {
        "dear": paid.where("amount > 900"),
        "others": others,
        "daily": daily.select(start, end, "shop", "total", "sales"),
    }


@pytest.mark.parametrize(
    ("mode", "parallelism", "in_turn"),
    [
        pytest.param("STREAMING", 1, False, marks=pytest.mark.long),
        pytest.param("BATCH", 2, True, marks=pytest.mark.long),
        pytest.param("AUTOMATIC", 1, True, marks=pytest.mark.long),
    ],
)
def test_unions_side_outputs_and_several_sinks_equal_plain_spark(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    sales_files: Path,
    tmp_path: Path,
    mode: str,
    parallelism: int,
    in_turn: bool,
) -> None:
    env = environment().set_runtime_mode(mode)
    changes: list[ExecutionStateChanged] = []

    def hear(message: Message) -> None:
        if isinstance(message, ExecutionStateChanged):
            changes.append(message)

    client = start_batch_program(env, sales_files, tmp_path, parallelism=parallelism)
    client.add_listener(hear)
    client.wait(timeout=300)

    states = [(each.state, each.task_name.startswith("Source")) for each in changes]
    first_end, first_reader = (
        states.index((ExecutionState.FINISHED, True)),
        states.index((ExecutionState.RUNNING, False)),
    )
    assert (first_end < first_reader) is in_turn
    expected = batch_outputs(spark, sales_files)
    for name in SINKS:
        seen = spark.read.parquet(str(tmp_path / name))
        assert seen.count() == expected[name].count()
        assert expected[name].exceptAll(seen).isEmpty()
