"""The query of all engines: bids and the highest price per auction in one-second windows, from parquet to parquet.

Each engine implements the query as its own users would; this module contains the parts that must be equal.
"""

from __future__ import annotations

import os

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

EVENT_TIME = "event_time"
KEY = "auction"
WINDOW = "1 second"
WATERMARK_DELAY = "1 second"
"""The bound of out-of-orderness of bids. No bid is late, because event time is ascending."""

LARGE_STATE = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state"
    ".RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""The settings of RocksDB, Structured Streaming's state store for large state."""

RESULT = ("window_start", "window_end", KEY, "bids", "highest_price")


def aggregates() -> tuple[Column, ...]:
    """Return the aggregates per auction and window. (A Column needs a running session, hence a function.)"""
    return F.count("*").alias("bids"), F.max("price").alias("highest_price")


def aggregated(bids: DataFrame) -> DataFrame:
    """Return the query as written for Spark, which is the same for batch and streaming."""
    counted = bids.groupBy(F.window(EVENT_TIME, WINDOW), KEY).agg(*aggregates())
    return counted.select(
        F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end"), KEY, *RESULT[3:]
    )


def plain_session(**config: str) -> SparkSession:
    """Start a Spark session on all cores, with `config` under the names of Spark's settings (`_` for `.`)."""
    # Spark's default of 200 shuffle partitions is meant for terabytes; here each would be an almost empty task.
    settings = {
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        **config,
    }
    builder = SparkSession.builder.master("local[*]").appName("benchmark")
    for key, text in settings.items():
        builder = builder.config(key, text)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
