"""Tests that an idle source subtask holds back no window, and that the job reports its progress while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flykka import FileSink, FileSource, StreamExecutionEnvironment, TumblingEventTimeWindows, WatermarkStrategy
from flykka.messages.control.job import MetricsReported
from flykka.messages.wire.message import Message
from tests.integration import arrivals

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]


def test_windows_fire_while_one_of_two_source_subtasks_is_idle(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], sales_files: Path, tmp_path: Path
) -> None:
    arrivals.deliver_first_files(sales_files, tmp_path / "arrivals", files=1)
    env = environment().enable_checkpointing("100ms").set_checkpoint_dir(str(tmp_path / "checkpoints"))
    watermarks = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at").with_idleness("200ms")
    source = FileSource.parquet(str(tmp_path / "arrivals")).monitor_continuously("50ms", until=arrivals.END)
    (
        env.from_source(source, watermarks, "sales", uid="sales")
        .set_parallelism(2)
        .key_by("shop")
        .window(TumblingEventTimeWindows.of("1h"))
        .aggregate(F.count("*").alias("sales"))
        .sink_to(FileSink.parquet(str(tmp_path / "output")))
    )
    fired = threading.Event()

    def listen(said: Message) -> None:
        if isinstance(said, MetricsReported) and "Sink" in said.task_name and said.metrics.watermark_ms is not None:
            fired.set()

    client = env.execute_async("sales")
    client.add_listener(listen)

    assert fired.wait(timeout=60)
    client.stop()
    assert spark.read.parquet(str(tmp_path / "output")).count() > 0


def test_the_last_window_fires_when_the_source_becomes_idle(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], tmp_path: Path
) -> None:
    (tmp_path / "arrivals").mkdir()
    times = [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(milliseconds=100 * n) for n in range(5)]
    table = pa.table({"shop": range(5), "at": pa.array(times, pa.timestamp("us", "UTC"))})
    pq.write_table(table, tmp_path / "arrivals" / "sales.parquet")
    env = environment().enable_checkpointing("100ms").set_checkpoint_dir(str(tmp_path / "checkpoints"))
    watermarks = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at").with_quiet_period("200ms")
    source = FileSource.parquet(str(tmp_path / "arrivals")).monitor_continuously("50ms", until=arrivals.END)
    counted = env.from_source(source, watermarks, "sales", uid="sales").window_all(TumblingEventTimeWindows.of("1s"))
    counted.aggregate(F.count("*").alias("sales")).sink_to(FileSink.parquet(str(tmp_path / "output")))
    fired = threading.Event()

    def listen(said: Message) -> None:
        if not isinstance(said, MetricsReported) or "Sink" not in said.task_name:
            return
        if (said.metrics.watermark_ms or 0) > times[0].timestamp() * 1000 + 999:
            fired.set()

    client = env.execute_async("sales")
    client.add_listener(listen)

    assert fired.wait(timeout=60)
    client.stop()
    assert [row.sales for row in spark.read.parquet(str(tmp_path / "output")).collect()] == [5]
