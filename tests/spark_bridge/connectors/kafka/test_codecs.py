"""Tests that records are read and written in each of Kafka's codecs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.connectors.broker import Broker
from flykka import KafkaSink, KafkaSource
from flykka.spark_bridge.connectors.kafka.publishing import ProduceRecords, PublishKafkaTransaction
from tests.spark_bridge.connectors.kafka.records import record_values

pytestmark = pytest.mark.slow

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
"""Codecs ordered by their ids in record batches."""
VALUES = [b"%d " % number * 100 for number in range(50)]


def codecs_of(broker: Broker, topic: str) -> set[str]:
    """Return the codecs of the batches in the broker's own file, except transaction markers, which have no codec."""
    content = Path(broker.folder, f"{topic}-0", "00000000000000000000.log").read_bytes()
    codecs: set[str] = set()
    while content:
        attributes = int.from_bytes(content[21:23], "big")
        if not attributes & 0b100000:
            codecs.add(CODECS[attributes & 0b111])
        content = content[12 + int.from_bytes(content[8:12], "big") :]
    return codecs


# Java frames snappy in its own way; the other codecs are covered by the test of the sink below.
@pytest.mark.parametrize(
    "codec", [pytest.param(codec, marks=() if codec == "snappy" else pytest.mark.long) for codec in CODECS]
)
def test_records_compressed_by_another_library_are_read(kafka: Broker, topic: str, codec: str) -> None:
    # The broker compresses the batches again, with Java's libraries.
    kafka.create(topic, compression_type="uncompressed" if codec == "none" else codec)
    kafka.send(topic, *VALUES)

    assert codecs_of(kafka, topic) == {codec}
    assert record_values(KafkaSource.of_topics(kafka.address, topic)) == VALUES


@pytest.mark.parametrize(
    ("codec", "is_transaction"),
    [
        # Both producers take the codec from the same setting.
        pytest.param(codec, is_transaction, id=f"{name}-{codec}", marks=() if is_run else pytest.mark.long)
        for is_transaction, name in ((True, "exactly-once"), (False, "at-least-once"))
        for codec in CODECS
        for is_run in [codec != "none" and is_transaction == (codec not in ("gzip", "snappy"))]
    ],
)
def test_records_are_written_in_the_configured_codec(
    kafka: Broker, topic: str, codec: str, is_transaction: bool
) -> None:
    kafka.create(topic)
    cluster = KafkaSink.to_topic(kafka.address, topic, compression_type=codec).cluster
    work = (
        PublishKafkaTransaction(cluster=cluster, topic=topic, writer=topic, checkpoint_id=1)
        if is_transaction
        else ProduceRecords(cluster=cluster, topic=topic)
    )

    list(work([pa.RecordBatch.from_pylist([{"value": value} for value in VALUES])]))

    assert codecs_of(kafka, topic) == {codec}
    assert kafka.values(topic) == VALUES
    assert record_values(KafkaSource.of_topics(kafka.address, topic)) == VALUES
