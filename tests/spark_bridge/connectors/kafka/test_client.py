"""Tests that Kafka's errors are reported with a remedy, if one is known."""

from __future__ import annotations

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from flykka.spark_bridge.connectors.kafka.client import Cluster, OffsetCommitter, error_text
from flykka.spark_bridge.connectors.kafka.publishing import ProduceRecords
from flykka.spark_bridge.connectors.kafka.ranges import TopicPartition
from flykka.spark_bridge.errors import SinkError


@pytest.mark.slow
def test_a_too_large_record_is_refused_with_advice() -> None:
    cluster = Cluster("127.0.0.1:1", (("message.max.bytes", "1000"), ("log_level", "0")))
    rows = pa.RecordBatch.from_pylist([{"value": b"x" * 2000}])

    with pytest.raises(SinkError) as refused:
        next(ProduceRecords(cluster=cluster, topic="topic")([rows]))

    assert str(refused.value) == (
        "Kafka at 127.0.0.1:1 does not accept the records: Unable to produce message: Broker: Message size too large:"
        " make the rows smaller, or raise max.message.bytes of the topic and message_max_bytes of the sink"
    )


def test_an_error_without_advice_is_reported_unchanged() -> None:
    assert error_text(KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))) == "no answer"
    assert error_text(ValueError("none of Kafka's")) == "none of Kafka's"


def test_each_commit_is_attempted_even_if_an_earlier_consumer_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster, committer = Cluster("127.0.0.1:1", (("no.such.setting", "1"),)), OffsetCommitter()

    for _ in range(2):
        committer.commit(cluster, "group", {TopicPartition("topic", 0): 7})
        committer.wait()

    messages = [record.getMessage() for record in caplog.records]
    assert (
        messages
        == ['group group at 127.0.0.1:1 refuses offsets: No such configuration property: "no.such.setting"'] * 2
    )
