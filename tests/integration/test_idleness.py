"""A source subtask that nothing arrives for holds no window back, and what the job does is told while it does it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flykka import FileSink, FileSource, StreamExecutionEnvironment, TumblingEventTimeWindows, WatermarkStrategy
from flykka.messages.control.job import MetricsReported
from flykka.messages.wire.message import Message
from tests.integration import arrivals

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]


def test_windows_fire_while_one_of_two_source_subtasks_is_silent(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], sales_files: Path, tmp_path: Path
) -> None:
    arrivals.begin(sales_files, tmp_path / "arrivals", files=1)
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
