"""Tests that a KafkaSink publishes the rows of a checkpoint once for readers of committed records, in any attempt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from benchmarks.connectors.broker import Broker
from flykka import KafkaSink
from flykka.connectors import FileSystem, SinkError
from flykka.connectors.testing import Row
from flykka.spark_bridge.connectors.transactional import Transaction
from flykka.spark_bridge.program.prototype import PrototypeError
from flykka.spark_bridge.session.session import engine_session
from tests.spark_bridge.connectors.contracts import ShortestSinkContract
from tests.spark_bridge.sink_contexts import sink_context

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class KafkaContract(ShortestSinkContract):
    broker: Broker
    topic: str
    schema = "value string"

    @pytest.fixture(autouse=True)
    def _topic(self, broker: Broker, topic: str) -> None:
        self.broker, self.topic = broker, topic
        broker.create(topic)

    def row(self, number: int) -> Row:
        return (f"row {number}",)

    def published(self) -> list[Row]:
        return [(value.decode(),) for value in self.broker.values(self.topic)]


class TestExactlyOnce(KafkaContract):
    def sink(self) -> KafkaSink:
        return KafkaSink.to_topic(self.broker.address, self.topic)


@pytest.mark.long
class TestAtLeastOnce(KafkaContract):
    shows_rows_once = False

    def sink(self) -> KafkaSink:
        return KafkaSink.to_topic(self.broker.address, self.topic).delivery_guarantee("at-least-once")


def test_a_row_becomes_a_record_by_its_column_names(spark: SparkSession, broker: Broker, topic: str) -> None:
    broker.create(topic, 2)
    broker.create(f"{topic}-other")
    rows = spark.sql(
        f"SELECT * FROM VALUES ('a', 'k', 1, CAST(NULL AS STRING)), (NULL, NULL, 0, '{topic}-other')"
        " AS t(value, key, partition, topic)"
    )
    writer = KafkaSink.to_topic(broker.address, topic).delivery_guarantee("at-least-once").writer(sink_context(spark))

    writer.stage(rows)

    assert broker.values(topic) == [b"a"]
    assert broker.values(f"{topic}-other") == [b""]


def numbered(spark: SparkSession, start: int, end: int) -> DataFrame:
    return spark.range(start, end, 1, 1).selectExpr("'k' AS key", "CAST(id AS STRING) AS value")


def test_at_least_once_records_of_a_key_keep_row_order(spark: SparkSession, broker: Broker, topic: str) -> None:
    broker.create(topic)
    writer = KafkaSink.to_topic(broker.address, topic).delivery_guarantee("at-least-once").writer(sink_context(spark))
    # Separate tasks would end in a different order.
    session = engine_session(spark)
    rows = numbered(session, 0, 20_000).union(numbered(session, 20_000, 20_001))

    writer.stage(rows)

    assert broker.values(topic) == [b"%d" % number for number in range(20_001)]


def test_a_transaction_keeps_row_order_across_staging_tasks(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Transaction, "local_files", lambda _: None)
    broker.create(topic)
    writer = KafkaSink.to_topic(broker.address, topic).writer(sink_context(spark, f"{tmp_path}/staged", uid=topic))
    names = [name for end in (1, 1_000) for name in writer.stage(numbered(spark, end // 1_000, end)).names]
    writer.prepare_commit(1, tuple(names))

    writer.commit(1)

    assert broker.values(topic) == [b"%d" % number for number in range(1_000)]


# test_transactions.py kills a process that leaves a transaction open.
@pytest.mark.long
def test_an_abandoned_open_transaction_does_not_block_readers(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: object
) -> None:
    broker.create(topic)
    sink = KafkaSink.to_topic(broker.address, topic)
    context = sink_context(spark, f"{tmp_path}/staged", uid=topic)
    writer = sink.writer(context)
    rows = spark.createDataFrame([("mine",)], "value string")
    prepared = writer.prepare_commit(1, writer.stage(rows).names)
    name = prepared[0].writer  # type: ignore[attr-defined]
    dead = Producer(broker.client(transactional_id=f"flykka-{name}"))
    dead.init_transactions()
    dead.begin_transaction()
    dead.produce(topic, value=b"of the dead")
    dead.flush()
    broker.send(topic, b"behind it")

    sink.writer(context).restore(prepared)

    assert sorted(broker.values(topic)) == [b"behind it", b"mine"]


def test_unwritable_rows_are_refused(spark: SparkSession, broker: Broker, topic: str) -> None:
    sink = KafkaSink.to_topic(broker.address, topic)

    with pytest.raises(PrototypeError, match=r"writes the column 'value' of its rows, which have id: make one"):
        sink.check_rows(spark.sql("SELECT 1 AS id"))
    with pytest.raises(PrototypeError, match="a record has no 'colour'"):
        sink.check_rows(spark.sql("SELECT 'a' AS value, 1 AS colour"))
    with pytest.raises(PrototypeError, match="the column 'key' of a record is of type binary, not int"):
        sink.check_rows(spark.sql("SELECT 'a' AS value, 1 AS key"))
    with pytest.raises(SinkError, match=f"there is no topic {topic} at"):
        sink.check_target(FileSystem(spark))
    with pytest.raises(ValueError, match=r"property .transactional\.id. is not allowed"):
        KafkaSink.to_topic(broker.address, topic, transactional_id="mine")


@pytest.mark.long
def test_a_row_as_json_is_the_record_value(spark: SparkSession, broker: Broker, topic: str) -> None:
    broker.create(topic)
    rows = spark.sql("SELECT 1 AS id, 'x' AS name").selectExpr("to_json(struct(*)) AS value")

    KafkaSink.to_topic(broker.address, topic).delivery_guarantee("at-least-once").writer(sink_context(spark)).stage(
        rows
    )

    assert [json.loads(value) for value in broker.values(topic)] == [{"id": 1, "name": "x"}]
