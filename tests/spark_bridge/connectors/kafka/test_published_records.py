"""Tests how columns become the parts of a record, from files and from batches, and that Kafka sets the defaults for
nulls.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from pyspark.sql import SparkSession

from benchmarks.connectors.broker import Broker
from flykka import KafkaSink
from flykka.spark_bridge.connectors.kafka.client import Cluster
from flykka.spark_bridge.connectors.kafka.publishing import ProduceRecords, PublishFiles, PublishKafkaTransaction
from flykka.spark_bridge.connectors.transactional import Transaction
from tests.spark_bridge.sink_contexts import sink_context

pytestmark = pytest.mark.slow

NOW = datetime.now(UTC).replace(microsecond=0)
ROWS = pa.RecordBatch.from_pylist(
    [
        {"value": b"all", "key": b"k", "partition": 1, "timestamp": NOW, "headers": [{"key": "h", "value": b"x"}]},
        {"value": None, "key": None, "partition": None, "timestamp": None, "headers": None},
    ]
)


def message(broker: Broker, topic: str, value: bytes | None) -> Message:
    consumer = Consumer(broker.client(group_id="one", isolation_level="read_committed"))
    consumer.assign([TopicPartition(topic, number, 0) for number in range(2)])
    while True:
        record = consumer.poll(60)
        assert record is not None
        if record.value() == value:
            consumer.close()
            return record


@pytest.mark.parametrize("from_files", [True, False], ids=["from files", "from batches"])
def test_null_columns_get_kafkas_defaults(broker: Broker, topic: str, from_files: bool, tmp_path: Path) -> None:
    broker.create(topic, 2)
    cluster = Cluster(broker.address)
    if from_files:
        pq.write_table(pa.Table.from_batches([ROWS]), tmp_path / "rows.parquet")
        transaction = PublishKafkaTransaction(cluster=cluster, topic=topic, writer=topic, checkpoint_id=1)
        files = PublishFiles(transaction=transaction, files=(str(tmp_path / "rows.parquet"),))
        (done,) = files([pa.RecordBatch.from_pydict({"id": [0]})])
    else:
        (done,) = ProduceRecords(cluster=cluster, topic=topic)([ROWS])

    full, empty = message(broker, topic, b"all"), message(broker, topic, None)

    assert done.column(0).to_pylist() == [2]
    assert (full.key(), full.partition(), full.headers()) == (b"k", 1, [("h", b"x")])
    assert full.timestamp()[1] == NOW.timestamp() * 1000
    assert (empty.key(), empty.headers()) == (None, None)
    assert empty.timestamp()[1] >= NOW.timestamp() * 1000


@pytest.mark.spark
def test_rows_inaccessible_to_python_are_read_by_spark(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Transaction, "local_files", lambda _: None)
    broker.create(topic)
    writer = KafkaSink.to_topic(broker.address, topic).writer(sink_context(spark, f"{tmp_path}/staged"))

    writer.prepare_commit(1, writer.stage(spark.sql("SELECT 'a' AS value")).names)
    writer.commit(1)

    assert broker.values(topic) == [b"a"]
