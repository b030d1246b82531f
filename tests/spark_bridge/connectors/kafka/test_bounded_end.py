"""Tests that a bounded source ends if its last offsets contain no committed record, but aborted records, transaction
markers or gaps.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from benchmarks.connectors.broker import Broker
from flykka import FileSink, KafkaSource, OffsetsInitializer, StreamExecutionEnvironment, WatermarkStrategy
from flykka.spark_bridge.connectors.kafka import reading
from tests.spark_bridge.connectors.kafka.records import (
    discover_splits,
    record_values,
    records,
    send_aborted,
    send_committed,
    transaction,
)

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_PATIENCE_SECONDS", 15.0)


def all_that_is_there(broker: Broker, topic: str) -> KafkaSource:
    return KafkaSource.of_topics(broker.address, topic).bounded(OffsetsInitializer.latest())


def mark_of_a_commit(broker: Broker, topic: str) -> None:
    send_committed(broker, topic, b"2")


def aborted_records(broker: Broker, topic: str) -> None:
    broker.send(topic, b"2")
    send_aborted(broker, topic, b"no", b"nor this")


def several_aborted_transactions(broker: Broker, topic: str) -> None:
    send_committed(broker, topic, b"2")
    send_aborted(broker, topic, b"no")
    send_aborted(broker, topic, b"nor this")


@pytest.mark.parametrize(
    "end", [mark_of_a_commit, aborted_records, pytest.param(several_aborted_transactions, marks=pytest.mark.long)]
)
def test_a_bounded_source_ends_after_the_last_record(
    kafka: Broker, topic: str, end: Callable[[Broker, str], None]
) -> None:
    kafka.create(topic)
    kafka.send(topic, b"1")
    end(kafka, topic)
    source = all_that_is_there(kafka, topic)

    discovered = discover_splits(source)
    kafka.send(topic, b"later")

    assert discovered.finished
    assert [record.value for record in records(source, discovered.splits)] == [b"1", b"2"]


def test_a_partition_with_only_aborted_records_is_empty(kafka: Broker, topic: str) -> None:
    kafka.create(topic, 2)
    send_aborted(kafka, topic, b"no")
    kafka.send(topic, b"1", partition=1)

    assert record_values(all_that_is_there(kafka, topic)) == [b"1"]


def test_a_bounded_source_ends_before_an_open_transaction(kafka: Broker, topic: str) -> None:
    kafka.create(topic)
    send_committed(kafka, topic, b"1", b"2")
    with transaction(kafka, topic, b"not yet"):
        kafka.send(topic, b"behind it")
        source = all_that_is_there(kafka, topic)

        discovered = discover_splits(source)

        assert discovered.finished
        assert [record.value for record in records(source, discovered.splits)] == [b"1", b"2"]


def test_records_after_an_open_transaction_are_read_after_its_end(kafka: Broker, topic: str) -> None:
    kafka.create(topic)
    source = KafkaSource.of_topics(kafka.address, topic)
    with transaction(kafka, topic, b"1"), transaction(kafka, topic, b"no") as aborting:
        kafka.send(topic, b"2")
        first = discover_splits(source)
        aborting.abort_transaction()
        second = discover_splits(source, first.position)
        aborting.begin_transaction()

    third = discover_splits(source, second.position)

    assert (first.splits, second.splits) == ((), ())
    assert [record.value for record in records(source, third.splits)] == [b"2"]


def test_each_portion_of_a_backlog_with_aborted_records_ends(
    kafka: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flykka.spark_bridge.connectors.kafka.source.RECORDS_PER_SPLIT", 3)
    kafka.create(topic)
    for number in range(3):
        send_committed(kafka, topic, b"%d" % number)
        send_aborted(kafka, topic, b"no", b"nor this", b"nor that")
    source = all_that_is_there(kafka, topic)

    discovered = discover_splits(source)

    several = [records(source, (split,)) for split in discovered.splits]
    assert len(several) > 4
    assert [record.value for portion in several for record in portion] == [b"0", b"1", b"2"]


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.integration
def test_a_job_ends_with_the_committed_records(
    spark: SparkSession, kafka: Broker, topic: str, tmp_path: object
) -> None:
    kafka.create(topic, 2)
    send_committed(kafka, topic, b"1")
    send_aborted(kafka, topic, b"no")
    with (
        transaction(kafka, topic, b"not yet", partition=1),
        StreamExecutionEnvironment.get_execution_environment() as env,
    ):
        env.enable_checkpointing("100ms").set_checkpoint_dir(f"{tmp_path}/checkpoints")
        source = all_that_is_there(kafka, topic)
        rows = env.from_source(source, WatermarkStrategy.no_watermarks(), uid="in")
        rows.sink_to(FileSink.parquet(f"{tmp_path}/out")).uid("out")
        env.execute_async("bounded").wait(timeout=60)

    assert [bytes(row.value) for row in spark.read.parquet(f"{tmp_path}/out").collect()] == [b"1"]
