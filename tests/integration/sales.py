"""The program of the kill tests: sales per shop and hour, some of them without an amount, and the expected output."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from flykka import (
    FileSink,
    FileSource,
    JobClient,
    RestartStrategies,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)

FILES = 6
ROWS_PER_FILE = 2_000


def write_sales(folder: Path, rows: int = ROWS_PER_FILE, files: int = FILES) -> Path:
    """Write parquet files of seeded sales in time order; a tenth of the amounts is missing."""
    folder.mkdir()
    chance = np.random.default_rng(7)
    for number in range(files):
        first_ms = number * rows * 10_000
        amounts = chance.integers(1, 1_000, rows)
        sales = pd.DataFrame(
            {
                "shop": chance.integers(0, 9, rows).astype("int64"),
                "amount": pd.array(amounts, dtype="Int64"),
                "at": pd.to_datetime(first_ms + np.arange(rows) * 10_000, unit="ms", utc=True),
            }
        )
        sales.loc[chance.random(rows) < 0.1, "amount"] = pd.NA
        sales.to_parquet(folder / f"sales-{number:02}.parquet", coerce_timestamps="us")
    return folder


def aggregates() -> tuple[Column, ...]:
    return (
        F.count("*").alias("sales"),
        F.count("amount").alias("paid"),
        F.sum("amount").alias("total"),
        F.avg("amount").alias("mean"),
        F.max("amount").alias("dearest"),
    )


def start_hourly_sales(
    env: StreamExecutionEnvironment, sales: Path, output: Path, *, parallelism: int = 2, interval: str = "100ms"
) -> JobClient:
    """Submit the program: one file per batch, a checkpoint every `interval`, unlimited immediate restarts."""
    env.enable_checkpointing(interval, tolerable_failures=100).set_checkpoint_dir(str(output.with_name("checkpoints")))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(delay=0))
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1h").with_timestamp_column("at")
    hourly = (
        env.from_source(FileSource.parquet(str(sales)).files_per_batch(1), watermarks, "sales", uid="sales")
        .key_by("shop")
        .window(TumblingEventTimeWindows.of("1h"))
        .aggregate(*aggregates())
        .uid("hourly")
        .set_parallelism(parallelism)
    )
    hourly.sink_to(FileSink.parquet(str(output))).uid("output").set_parallelism(parallelism)
    return env.execute_async("sales")


def hourly_batch(spark: SparkSession, sales: Path) -> DataFrame:
    """Run the same query as one plain batch."""
    hourly = spark.read.parquet(str(sales)).groupBy(F.window("at", "1 hour"), "shop").agg(*aggregates())
    names = [name for name in hourly.columns if name != "window"]
    return hourly.select(F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end"), *names)
