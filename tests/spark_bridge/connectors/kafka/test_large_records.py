"""Tests that records of 4 MB are read and written, and that an error names the setting that forbids them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from benchmarks.connectors.broker import Broker
from flykka import KafkaSink, KafkaSource
from flykka.connectors import SinkError, SourceError
from flykka.spark_bridge.connectors.kafka.publishing import PublishKafkaTransaction
from tests.spark_bridge.connectors.kafka.records import record_values
from tests.spark_bridge.sink_contexts import sink_context

pytestmark = pytest.mark.slow

LARGE = 4_000_000
LIMIT = 5_000_000


def publish(sink: KafkaSink, *rows: bytes) -> None:
    work = PublishKafkaTransaction(cluster=sink.cluster, topic=sink.topic, writer=sink.topic, checkpoint_id=1)
    list(work([pa.RecordBatch.from_pylist([{"value": row} for row in rows])]))


@pytest.mark.spark
def test_large_records_are_written_and_read_if_the_limits_are_raised(
    spark: SparkSession, kafka: Broker, topic: str, tmp_path: object
) -> None:
    kafka.create(topic, max_message_bytes=LIMIT)
    sink = KafkaSink.to_topic(kafka.address, topic, message_max_bytes=LIMIT)
    writer = sink.writer(sink_context(spark, f"{tmp_path}/staged"))
    rows = spark.sql(f"SELECT repeat(x, {LARGE}) AS value FROM VALUES ('a'), ('b') AS t(x)")

    writer.prepare_commit(1, writer.stage(rows).names)
    writer.commit(1)

    read = record_values(KafkaSource.of_topics(kafka.address, topic))
    assert len(read) == 2
    assert set(read) == {letter * LARGE for letter in (b"a", b"b")}


def test_an_error_names_the_clients_size_setting(kafka: Broker, topic: str) -> None:
    kafka.create(topic, max_message_bytes=LIMIT)

    with pytest.raises(SinkError, match="message_max_bytes of the sink"):
        publish(KafkaSink.to_topic(kafka.address, topic), b"x" * LARGE)

    assert kafka.values(topic) == []


def test_an_error_names_the_topics_size_setting(kafka: Broker, topic: str) -> None:
    kafka.create(topic)
    sink = KafkaSink.to_topic(kafka.address, topic, message_max_bytes=LIMIT)

    with pytest.raises(SinkError, match=r"raise max\.message\.bytes of the topic"):
        publish(sink, b"small", b"x" * LARGE)

    assert kafka.visible_values(topic) == []


def test_an_error_names_the_sources_size_setting(kafka: Broker, topic: str) -> None:
    kafka.create(topic, max_message_bytes=LIMIT)
    kafka.send(topic, b"x" * LARGE)
    source = KafkaSource.of_topics(
        kafka.address,
        topic,
        receive_message_max_bytes=1_000_512,
        fetch_max_bytes=1_000_000,
        message_max_bytes=1_000_000,
    )

    with pytest.raises(
        SourceError,
        match=f"records of {topic}-0: .*Invalid response size.*raise receive_message_max_bytes of the source",
    ):
        record_values(source)
