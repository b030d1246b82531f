"""Tests that a KafkaSource reads every record once, stores offsets in checkpoints, and names unreadable records."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from itertools import count

import pytest
from pyspark.sql import DataFrame, SparkSession

from benchmarks.connectors.broker import Broker
from flykka import KafkaSource, OffsetsInitializer
from flykka.connectors import Boundedness, FileSystem, OperatorId, SourceError
from flykka.connectors.testing import Row, SourceContract
from flykka.messages.tasks.source import SplitsDiscovered
from flykka.spark_bridge.connectors.kafka import source as kafka_source
from flykka.spark_bridge.connectors.kafka.formats import (
    CsvFormat,
    DebeziumJsonFormat,
    JsonFormat,
    RawFormat,
    ValueFormat,
)
from flykka.spark_bridge.program.prototype import PrototypeError
from flykka.spark_bridge.rows.marks import IS_CORRUPT, PARTITION

NOW_MS = round(time.time() * 1000)
"""The time of records must be current, because a broker deletes old records."""

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class TestKafkaSource(SourceContract):
    broker: Broker
    topic: str

    @pytest.fixture(autouse=True)
    def _topic(self, broker: Broker, topic: str) -> None:
        self.broker, self.topic = broker, topic
        self._numbers = count()
        broker.create(topic, 3)

    def source(self) -> KafkaSource:
        source = KafkaSource.of_topics(self.broker.address, self.topic).values(JsonFormat("id long, name string"))
        return source.group_id("readers")

    def add(self, rows: Sequence[Row]) -> None:
        for number, (key, name) in enumerate(rows):
            value = json.dumps({"id": key, "name": name}).encode()
            self.broker.send(self.topic, value, partition=number % 3)

    def rows(self) -> list[Row]:
        return [(number, f"row {number}") for number in (next(self._numbers) for _ in range(3))]


def discover_by_bound_source(source: KafkaSource, position: bytes = b"") -> SplitsDiscovered:
    return source.split_discovery(OperatorId("source"), FileSystem(SparkSession.active())).discover(position)


def read_splits(spark: SparkSession, source: KafkaSource, discovered: SplitsDiscovered) -> DataFrame:
    (rows,) = source.read(spark, source.prototype(spark).schema, discovered.splits, in_slices=False)
    return rows


def sorted_records(spark: SparkSession, source: KafkaSource) -> list[tuple[object, ...]]:
    bound = source.bound(spark, None)
    return sorted(
        tuple(row)
        for row in read_splits(spark, bound, discover_by_bound_source(bound)).drop(PARTITION, IS_CORRUPT).collect()
    )


def test_a_record_has_the_requested_columns(spark: SparkSession, broker: Broker, topic: str) -> None:
    broker.create(topic, 2)
    broker.send(topic, b"v", partition=1, key=b"k", headers={"h": b"x"}, timestamp=NOW_MS)
    source = KafkaSource.of_topics(broker.address, topic).with_metadata(
        "key", "headers", "timestamp", "partition", "offset", "topic"
    )

    ((value, key, headers, timestamp, partition, offset, of),) = sorted_records(spark, source)

    assert (value, key, partition, offset, of) == (b"v", b"k", 1, 0, topic)
    assert [tuple(header) for header in headers] == [("h", b"x")]  # type: ignore[attr-defined]
    assert round(timestamp.timestamp() * 1000) == NOW_MS  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("value_format", "value", "expected"),
    [
        pytest.param(RawFormat(), b"\x00\xff", (b"\x00\xff",), marks=pytest.mark.long),
        (RawFormat(text=True), "né".encode(), ("né",)),
        pytest.param(
            JsonFormat("id long, tags array<string>"),
            b'{"tags": ["a"], "id": 7, "more": 1}',
            (7, ["a"]),
            marks=pytest.mark.long,
        ),
        (CsvFormat("id long, name string", sep=";"), b"7;a b", (7, "a b")),
        (
            DebeziumJsonFormat("id long"),
            b'{"before": null, "after": {"id": 1}, "op": "c", "ts_ms": 5}',
            (1, "+I", 5),
        ),
        (
            DebeziumJsonFormat("id long"),
            b'{"schema": {}, "payload": {"before": {"id": 1}, "after": null, "op": "d", "ts_ms": 6}}',
            (1, "-D", 6),
        ),
    ],
)
def test_values_are_decoded(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    value_format: ValueFormat,
    value: bytes,
    expected: tuple[object, ...],
) -> None:
    broker.create(topic)
    broker.send(topic, value)

    assert sorted_records(spark, KafkaSource.of_topics(broker.address, topic).values(value_format)) == [expected]


def test_a_record_without_a_value_is_dropped_unless_read_as_bytes(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    broker.create(topic)
    broker.send(topic, None)
    source = KafkaSource.of_topics(broker.address, topic)

    assert sorted_records(spark, source) == [(None,)]
    assert sorted_records(spark, source.values(JsonFormat("id long"))) == []


def test_an_error_names_a_corrupt_record(spark: SparkSession, broker: Broker, topic: str) -> None:
    broker.create(topic)
    broker.send(topic, b'{"id": 1}', b"{oops")

    with pytest.raises(Exception, match=rf"record of {topic}-0 at offset 1 is not JSON .*\{{oops"):
        sorted_records(spark, KafkaSource.of_topics(broker.address, topic).values(JsonFormat("id long")))


def test_a_corrupt_record_is_retained_if_configured(spark: SparkSession, broker: Broker, topic: str) -> None:
    broker.create(topic)
    broker.send(topic, b'{"id": 1}', b"{oops")
    source = KafkaSource.of_topics(broker.address, topic).values(JsonFormat("id long", on_corrupt="keep"))

    bound = source.bound(spark, None)
    rows = {tuple(row) for row in read_splits(spark, bound, discover_by_bound_source(bound)).drop(PARTITION).collect()}

    assert rows == {(1, None), (None, "{oops")}


def test_a_source_starts_at_the_configured_offsets(spark: SparkSession, broker: Broker, topic: str) -> None:
    broker.create(topic)
    for number in range(4):
        broker.send(topic, b"%d" % number, timestamp=NOW_MS + number)
    source = KafkaSource.of_topics(broker.address, topic)

    def first(offsets: OffsetsInitializer) -> int:
        return 4 - len(sorted_records(spark, source.start_from(offsets)))

    assert first(OffsetsInitializer.earliest()) == 0
    assert first(OffsetsInitializer.latest()) == 4
    assert first(OffsetsInitializer.timestamp(NOW_MS + 2)) == 2
    assert first(OffsetsInitializer.offsets({(topic, 0): 3})) == 3
    assert len(sorted_records(spark, source.bounded(OffsetsInitializer.offsets({(topic, 0): 3})))) == 3


def test_a_bounded_source_ends_with_its_initial_records(spark: SparkSession, broker: Broker, topic: str) -> None:
    broker.create(topic)
    broker.send(topic, b"1")
    source = KafkaSource.of_topics(broker.address, topic).bounded(OffsetsInitializer.latest()).bound(spark, None)

    discovered = discover_by_bound_source(source)
    broker.send(topic, b"2")
    again = discover_by_bound_source(source, discovered.position)

    assert source.boundedness is Boundedness.BOUNDED
    assert discovered.finished
    assert (discovered.splits[0].rows, again.splits, again.finished) == (1, (), True)


def test_a_backlog_is_discovered_in_portions_of_all_partitions(
    spark: SparkSession, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_source, "RECORDS_PER_SPLIT", 10)
    broker.create(topic, 2)
    broker.send(topic, *[b"x"] * 30, partition=0)
    broker.send(topic, *[b"x"] * 10, partition=1)

    discovered = discover_by_bound_source(KafkaSource.of_topics(broker.address, topic))

    contents = [json.loads(split.content)[topic] for split in discovered.splits]  # type: ignore[attr-defined]
    assert contents[0] == {"0": [0, 8], "1": [0, 3]}
    assert sum(split.rows for split in discovered.splits) == 40
    assert not discovered.more


def test_the_earliest_records_of_a_backlog_are_read_first_if_configured(
    spark: SparkSession, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_source, "RECORDS_PER_SPLIT", 10)
    broker.create(topic, 2)
    for number in range(30):
        broker.send(topic, b"x", partition=0, timestamp=NOW_MS - 60_000 + number)
    for number in range(10):
        broker.send(topic, b"x", partition=1, timestamp=NOW_MS + number)

    discovered = discover_by_bound_source(KafkaSource.of_topics(broker.address, topic).align_partitions())

    read = [json.loads(split.content)[topic] for split in discovered.splits]  # type: ignore[attr-defined]
    of_late = [content["1"] for content in read if content["0"][1] < 30]
    assert len(of_late) > 1
    assert all(start == end == 0 for start, end in of_late)
    assert sum(split.rows for split in discovered.splits) == 40


def test_a_new_partition_is_read_from_its_beginning(spark: SparkSession, broker: Broker, topic: str) -> None:
    broker.create(topic)
    broker.send(topic, b"1")
    source = KafkaSource.of_topics(broker.address, topic).start_from(OffsetsInitializer.latest())
    position = discover_by_bound_source(source).position

    broker.grow(topic, 2)
    broker.send(topic, b"2", partition=1)
    discovered = discover_by_bound_source(source, position)

    assert [tuple(row) for row in read_splits(spark, source, discovered).drop(PARTITION).collect()] == [(b"2",)]


def test_topics_that_match_a_pattern_are_discovered(spark: SparkSession, broker: Broker, topic: str) -> None:
    source = KafkaSource.of_topic_pattern(broker.address, f"{topic}-.")
    before = discover_by_bound_source(source)
    broker.create(f"{topic}-a")
    broker.create(f"{topic}-long")
    broker.send(f"{topic}-a", b"1")

    assert before.splits == ()
    assert discover_by_bound_source(source, before.position).splits[0].rows == 1


def test_deleted_records_are_not_skipped_silently(spark: SparkSession, broker: Broker, topic: str) -> None:
    broker.create(topic)
    broker.send(topic, b"1", b"2", b"3")
    source = KafkaSource.of_topics(broker.address, topic)
    discovered = discover_by_bound_source(source)

    broker.delete_before(topic, 0, 2)

    with pytest.raises(
        Exception, match=rf"does not return the records of {topic}-0: it has deleted them before they were read"
    ):
        read_splits(spark, source, discovered).collect()


def test_a_missing_topic_is_refused(broker: Broker) -> None:
    with pytest.raises(SourceError, match="there is no topic nowhere at 127"):
        discover_by_bound_source(KafkaSource.of_topics(broker.address, "nowhere"))


def test_a_group_without_offsets_needs_a_start_position(broker: Broker, topic: str) -> None:
    broker.create(topic)
    source = (
        KafkaSource.of_topics(broker.address, topic).group_id("new").start_from(OffsetsInitializer.committed_offsets())
    )

    with pytest.raises(SourceError, match=f"group 'new' has committed no offset of {topic}-0: choose where"):
        discover_by_bound_source(source)


def test_invalid_settings_are_refused(spark: SparkSession) -> None:
    source = KafkaSource.of_topics("127.0.0.1:1", "orders")

    with pytest.raises(ValueError, match="needs the name of a topic"):
        KafkaSource.of_topics("127.0.0.1:1")
    with pytest.raises(ValueError, match=r"property .enable\.auto\.commit. is not allowed"):
        KafkaSource.of_topics("127.0.0.1:1", "orders", enable_auto_commit=True)
    with pytest.raises(ValueError, match="a record has no 'colour'"):
        source.with_metadata("colour")
    with pytest.raises(ValueError, match="on_corrupt is"):
        JsonFormat("id long", on_corrupt="ignore")  # type: ignore[arg-type]
    with pytest.raises(PrototypeError, match="two columns 'offset'"):
        source.values(JsonFormat("offset long")).with_metadata("offset").bound(spark, None)
    with pytest.raises(PrototypeError, match="offsets of a group"):
        source.start_from(OffsetsInitializer.committed_offsets()).bound(spark, None)


def test_an_error_names_an_unreachable_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    source = KafkaSource.of_topics("127.0.0.1:1", "orders", log_level=0)
    looking = source.split_discovery(OperatorId("source"), FileSystem(SparkSession.active()))
    monkeypatch.setattr(looking._offsets, "_timeout", 0.5)

    with pytest.raises(SourceError, match=r"Kafka at 127.0.0.1:1 does not return"):
        looking.discover(b"")


def test_checkpoints_commit_offsets_to_the_group(spark: SparkSession, broker: Broker, topic: str) -> None:
    broker.create(topic)
    broker.send(topic, b"1", b"2")
    source = KafkaSource.of_topics(broker.address, topic).group_id(topic).bound(spark, None)

    source.notify_checkpoint_complete(1, discover_by_bound_source(source).splits)
    source.committer.wait()

    assert broker.committed(topic, topic) == 2
    assert len(sorted_records(spark, source.start_from(OffsetsInitializer.committed_offsets()))) == 0


def test_a_rate_limit_defers_records(broker: Broker, topic: str) -> None:
    broker.create(topic)
    broker.send(topic, *[b"x"] * 100)
    now = [0.0]
    source = KafkaSource.of_topics(broker.address, topic).rate_limit(10)
    looking = kafka_source.KafkaSplitDiscovery(source, OperatorId("source"), clock=lambda: now[0])

    discovered, counts = looking.discover(b""), []
    for _ in range(3):
        now[0] += 1
        discovered = looking.discover(discovered.position)
        counts.append(sum(split.rows for split in discovered.splits))

    assert counts == [10, 10, 10]
