"""Tests that a recreated topic is a new topic: its records are neither skipped nor read twice."""

from __future__ import annotations

import threading
import time
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from pyspark.sql import SparkSession

from benchmarks.connectors.broker import Broker
from flykka import FileSink, JobClient, KafkaSource, OffsetsInitializer, StreamExecutionEnvironment, WatermarkStrategy
from flykka.connectors import SourceError
from flykka.messages.control.job import MetricsReported
from flykka.messages.wire.message import Message
from flykka.spark_bridge.connectors.kafka.source import KafkaSplitDiscovery
from flykka.spark_bridge.errors import ReplacedTopicError
from tests.spark_bridge.connectors.kafka.records import discover_splits

pytestmark = pytest.mark.slow

DEADLINE_S = 60.0


def make_again(broker: Broker, topic: str, *values: bytes) -> None:
    broker.delete(topic)
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            broker.create(topic)
            break
        except KafkaException:
            # Topics are deleted asynchronously.
            assert time.monotonic() < deadline
    broker.send(topic, *values)


def replaced(topic: str, offset: int) -> str:
    return (
        rf"the topic {topic} at 127.* was deleted and created again since it was read \({topic}-0 up to .* {offset}\)"
    )


@pytest.mark.parametrize(
    "records", [pytest.param(1, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long), 8]
)
def test_offsets_of_a_checkpoint_do_not_apply_to_a_recreated_topic(kafka: Broker, topic: str, records: int) -> None:
    kafka.create(topic)
    kafka.send(topic, b"1", b"2", b"3")
    source = KafkaSource.of_topics(kafka.address, topic)
    position = discover_splits(source).position

    make_again(kafka, topic, *[b"x"] * records)

    with pytest.raises(ReplacedTopicError, match=replaced(topic, 3)):
        discover_splits(source, position)
    assert ReplacedTopicError.suppress_restarts


def test_a_position_in_the_older_format_is_compared_by_offset(kafka: Broker, topic: str) -> None:
    kafka.create(topic)
    kafka.send(topic, b"1")
    position = b'{"next": {"%s": {"0": 3}}, "end": {}, "splits": 1}' % topic.encode()

    with pytest.raises(SourceError, match=f"{topic}-0 ends at offset 1, but was read up to 3: was the topic deleted"):
        discover_splits(KafkaSource.of_topics(kafka.address, topic), position)


def test_a_bounded_source_does_not_end_at_records_of_a_recreated_topic(kafka: Broker, topic: str) -> None:
    kafka.create(topic)
    kafka.send(topic, b"1", b"2")
    source = KafkaSource.of_topics(kafka.address, topic).bounded(OffsetsInitializer.offsets({(topic, 0): 4}))
    discovery = KafkaSplitDiscovery(source, "source")  # type: ignore[arg-type]
    position = discovery.discover(b"").position

    make_again(kafka, topic, b"3", b"4", b"5", b"6")

    with pytest.raises(ReplacedTopicError, match=replaced(topic, 2)):
        discovery.discover(position)


def test_an_error_names_a_deleted_topic(kafka: Broker, topic: str) -> None:
    kafka.create(topic)
    discovery = KafkaSplitDiscovery(KafkaSource.of_topics(kafka.address, topic), "source")  # type: ignore[arg-type]
    position = discovery.discover(b"").position

    kafka.delete(topic)

    with pytest.raises(SourceError, match=topic):
        # Topics are deleted asynchronously.
        any(discovery.discover(position) is None for _ in count())


def start_topic_to_files(env: StreamExecutionEnvironment, broker: Broker, topic: str, folder: Path) -> JobClient:
    env.enable_checkpointing("100ms", tolerable_failures=100).set_checkpoint_dir(str(folder / "checkpoints"))
    source = KafkaSource.of_topics(broker.address, topic, log_level=0).discover_partitions_every("100ms")
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), uid="in")
    rows.sink_to(FileSink.parquet(folder / "out")).uid("out")
    return env.execute_async("replaced")


def wait_read(client: JobClient, rows: int) -> None:
    reached = threading.Event()

    def listen(said: Message) -> None:
        if isinstance(said, MetricsReported) and said.metrics.rows_in >= rows:
            reached.set()

    client.add_listener(listen)
    assert reached.wait(DEADLINE_S)


def published(spark: SparkSession, folder: Path) -> list[bytes]:
    return sorted(bytes(row.value) for row in spark.read.schema("value binary").parquet(str(folder / "out")).collect())


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.integration
def test_a_job_fails_without_restart_when_its_topic_is_recreated(
    spark: SparkSession, kafka: Broker, topic: str, tmp_path: Path
) -> None:
    kafka.create(topic)
    kafka.send(topic, b"1", b"2", b"3")
    with StreamExecutionEnvironment.get_execution_environment() as env:
        client = start_topic_to_files(env, kafka, topic, tmp_path)
        wait_read(client, 3)
        make_again(kafka, topic, *[b"x"] * 5)

        with pytest.raises(Exception, match=rf"(?s)ReplacedTopicError.*{replaced(topic, 3)}"):
            client.wait(timeout=DEADLINE_S)

    assert set(published(spark, tmp_path)) <= {b"1", b"2", b"3"}


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.integration
def test_a_savepoint_does_not_resume_on_a_recreated_topic(
    spark: SparkSession, kafka: Broker, topic: str, tmp_path: Path
) -> None:
    kafka.create(topic)
    kafka.send(topic, b"1", b"2", b"3")
    with StreamExecutionEnvironment.get_execution_environment() as env:
        client = start_topic_to_files(env, kafka, topic, tmp_path)
        wait_read(client, 3)
        savepoint = client.stop_with_savepoint(str(tmp_path / "savepoints"))
        make_again(kafka, topic, b"x")

        env.from_savepoint(savepoint)
        with pytest.raises(Exception, match=rf"(?s)ReplacedTopicError.*{replaced(topic, 3)}"):
            start_topic_to_files(env, kafka, topic, tmp_path).wait(timeout=DEADLINE_S)

    assert published(spark, tmp_path) == [b"1", b"2", b"3"]
