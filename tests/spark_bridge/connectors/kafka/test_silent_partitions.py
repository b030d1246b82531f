"""Tests that a silent partition holds back event time until it is idle, and that an added partition is read."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.connectors.broker import Broker
from flykka import (
    FileSink,
    JobClient,
    JsonFormat,
    KafkaSource,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flykka.messages.control.job import CheckpointCompleted, MetricsReported
from flykka.messages.wire.message import Message

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.checkpoints("100ms", tolerable_failures=100),
]

DEADLINE_S = 60.0
SECONDS = 5


def send(broker: Broker, topic: str, partition: int) -> None:
    """Send one record for each second."""
    times = (f"2024-01-01T00:00:0{second}Z" for second in range(SECONDS))
    broker.send(topic, *(json.dumps({"at": at}).encode() for at in times), partition=partition)


def start_count_per_second(
    env: StreamExecutionEnvironment, broker: Broker, topic: str, folder: Path, watermarks: WatermarkStrategy
) -> JobClient:
    source = (
        KafkaSource.of_topics(broker.address, topic, log_level=0)
        .values(JsonFormat("at timestamp"))
        .with_metadata("topic")
        .discover_partitions_every("100ms")
    )
    (
        env.from_source(source, watermarks.with_timestamp_column("at"), uid="in")
        .key_by("topic")
        .window(TumblingEventTimeWindows.of("1s"))
        .aggregate(F.count("*").alias("records"))
        .sink_to(FileSink.parquet(folder / "out"))
        .uid("out")
    )
    return env.execute_async("seconds")


class JobMessages:
    def __init__(self, client: JobClient) -> None:
        self.rows = 0
        self.checkpoints = 0
        self.watermark = False
        self._changed = threading.Condition()
        self._deadline = time.monotonic() + DEADLINE_S
        client.add_listener(self._listen)

    def wait(self, holds: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(holds, DEADLINE_S)

    def comes(self, holds: Callable[[], bool]) -> bool:
        assert time.monotonic() < self._deadline
        with self._changed:
            return self._changed.wait_for(holds, 0.1)

    def _listen(self, said: Message) -> None:
        with self._changed:
            if isinstance(said, CheckpointCompleted):
                self.checkpoints += 1
            elif isinstance(said, MetricsReported) and said.task_name.startswith("Source"):
                self.rows = max(self.rows, said.metrics.rows_in)
            elif isinstance(said, MetricsReported) and said.metrics.watermark_ms is not None:
                self.watermark = True
            self._changed.notify_all()


def seconds(spark: SparkSession, folder: Path) -> int:
    return spark.read.schema("records bigint").parquet(str(folder / "out")).count()


# test_ranges.py and tests/actors/machines/exchange/test_watermark_generators.py cover the cause.
@pytest.mark.long
def test_a_silent_partition_holds_back_event_time_until_a_record_arrives(
    spark: SparkSession, env: StreamExecutionEnvironment, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create(topic, 2)
    send(broker, topic, 0)
    client = start_count_per_second(env, broker, topic, tmp_path, WatermarkStrategy.for_monotonous_timestamps())
    messages = JobMessages(client)
    messages.wait(lambda: messages.rows == SECONDS)
    before = messages.checkpoints
    messages.wait(lambda: messages.checkpoints > before + 3)
    held = not messages.watermark

    send(broker, topic, 1)
    messages.wait(lambda: messages.watermark)
    client.stop()

    assert held
    assert seconds(spark, tmp_path) > 0


def test_an_idle_partition_does_not_hold_back_event_time(
    spark: SparkSession, env: StreamExecutionEnvironment, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create(topic, 2)
    send(broker, topic, 0)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness("300ms")
    client = start_count_per_second(env, broker, topic, tmp_path, strategy)
    messages = JobMessages(client)

    # The other partition continues, because there is no event time if all partitions are idle.
    while not messages.comes(lambda: messages.watermark):
        send(broker, topic, 0)
    client.stop()

    assert seconds(spark, tmp_path) > 0


# test_source.py covers the new partition.
@pytest.mark.long
def test_a_partition_added_to_a_running_job_is_read_from_its_beginning(
    spark: SparkSession, env: StreamExecutionEnvironment, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create(topic)
    send(broker, topic, 0)
    client = start_count_per_second(env, broker, topic, tmp_path, WatermarkStrategy.for_monotonous_timestamps())
    messages = JobMessages(client)
    messages.wait(lambda: messages.rows == SECONDS)

    broker.grow(topic, 3)
    send(broker, topic, 2)

    messages.wait(lambda: messages.rows == 2 * SECONDS)
    client.stop()
