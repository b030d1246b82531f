"""Reads records in a Python worker of Spark as Arrow, as an argument of `mapInArrow`. Input rows are task numbers.

A consumer stays open in its worker process, and connected for the next batch. It reads only its assigned ranges. If the
last offsets of a range have no record, such as after a transaction, the broker reports the end of the partition.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from flykka.spark_bridge.connectors.kafka.client import Cluster, error_text
from flykka.spark_bridge.connectors.kafka.ranges import OffsetRange, TopicPartition
from flykka.spark_bridge.errors import SourceError
from flykka.spark_bridge.rows.marks import PARTITION

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

_RECORDS_AT_ONCE = 10_000
_WAIT_SECONDS = 0.05
# The offset is out of range, and no rule defines another offset.
_GONE = frozenset({1, -140})
# A broker is down, a name is not resolved, all brokers are down, or a request took too long: librdkafka retries.
_PASSING = frozenset({-195, -193, -187, -185})
# A response is too large, or a password or a certificate is rejected: librdkafka retries these too, in vain.
_LASTING = frozenset({"_BAD_MSG", "_AUTHENTICATION", "_SSL"})
_PATIENCE_SECONDS = 60.0
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

_Key = tuple[str | None, int | None]

_connections: dict[Cluster, _Connection] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecords:
    """Reads the ranges of a task, with the given columns of Kafka. `places` are the indexes of the partitions."""

    cluster: Cluster
    tasks: Sequence[Sequence[OffsetRange]]
    columns: tuple[str, ...]
    places: dict[TopicPartition, int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for records in _records(self.cluster, self.tasks[task]):
                    columns = [_COLUMNS[name](records, self.places) for name in self.columns]
                    yield pa.RecordBatch.from_arrays(columns, names=list(self.columns))


def _records(cluster: Cluster, ranges: Sequence[OffsetRange]) -> Iterator[list[Message]]:
    connection = _connection(cluster)
    there = [each for each in ranges if each.offsets]
    # Reading one partition at a time needs fewer checks per record but more fetches, so it is only faster for long
    # ranges.
    are_long = all(each.offsets >= _RECORDS_AT_ONCE for each in there)
    for together in [[each] for each in there] if are_long else [there]:
        yield from _assigned(connection, cluster, together)


def _assigned(connection: _Connection, cluster: Cluster, ranges: Sequence[OffsetRange]) -> Iterator[list[Message]]:
    from confluent_kafka import TopicPartition as Named

    reading, consumer = _Reading(cluster, ranges), connection.consumer
    connection.errors.clear()
    consumer.assign([Named(*each.at, each.start) for each in ranges])
    try:
        last_received = time.monotonic()
        while reading.remaining:
            # The call waits until it has this many records. Some offsets have no record.
            messages = consumer.consume(min(_RECORDS_AT_ONCE, reading.remaining), timeout=_WAIT_SECONDS)
            reading.check_errors(connection.errors)
            records = reading.advance(messages)
            if records:
                last_received = time.monotonic()
                yield records
            elif time.monotonic() - last_received > _PATIENCE_SECONDS:
                raise SourceError(
                    f"Kafka at {cluster.bootstrap_servers} sends no records of {reading} for {_PATIENCE_SECONDS:.0f} s,"
                    f" though it reports that they exist{reading.trouble}"
                )
    finally:
        consumer.unassign()


class _Reading:
    """The progress in the ranges of a task. Methods of records are slow, so they are called only if necessary."""

    def __init__(self, cluster: Cluster, ranges: Sequence[OffsetRange]) -> None:
        self._cluster = cluster
        self._ends: dict[_Key, int] = {each.at: each.end for each in ranges}
        self._remaining: dict[_Key, int] = {each.at: each.offsets for each in ranges}
        self.trouble = ""

    def __str__(self) -> str:
        return ", ".join(f"{topic}-{partition}" for topic, partition in self._remaining)

    @property
    def remaining(self) -> int:
        return sum(self._remaining.values())

    def advance(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages' records in the ranges, and advance the ranges. Raises `SourceError` for unreadable
        records.
        """
        from confluent_kafka import Message

        if len(self._ends) == 1 and messages and not any(map(Message.error, messages)):
            ((key, end),) = self._ends.items()
            behind = (messages[-1].offset() or 0) + 1
            if behind <= end:
                self._remaining = {key: end - behind} if behind < end else {}
                return list(messages)
        records: list[Message] = []
        last: dict[_Key, int] = {}
        for message in messages:
            key, offset = (message.topic(), message.partition()), message.offset()
            if message.error() is not None:
                if self._is_end(message):
                    # The message has the offset of the next record.
                    last[key] = (offset or 0) - 1
            elif offset is not None and offset < self._ends[key]:
                records.append(message)
                last[key] = offset
            else:
                last[key] = self._ends[key]
        for key, offset in last.items():
            self._remaining[key] = max(0, self._ends[key] - offset - 1)
        self._remaining = {key: offsets for key, offsets in self._remaining.items() if offsets}
        return records

    def _is_end(self, message: Message) -> bool:
        """Return True for the end of a partition. Raise other errors unless waiting may help."""
        from confluent_kafka import KafkaError

        error = message.error()
        assert error is not None
        if error.code() == KafkaError._PARTITION_EOF:
            return True
        if error.code() in _PASSING:
            self.trouble = f": {error_text(error)}"
            return False
        # An error that concerns the cluster has no topic.
        of = str(self) if message.topic() is None else f"{message.topic()}-{message.partition()}"
        hint = ": it has deleted them before they were read" if error.code() in _GONE else ""
        raise self._refusal(error, of + hint)

    def check_errors(self, errors: list[KafkaError]) -> None:
        for error in errors:
            if error.name() in _LASTING:
                raise self._refusal(error, str(self))
            self.trouble = f": {error_text(error)}"
        errors.clear()

    def _refusal(self, error: KafkaError, of: str) -> SourceError:
        return SourceError(
            f"Kafka at {self._cluster.bootstrap_servers} does not return the records of {of}: {error_text(error)}"
        )


@dataclass(frozen=True, slots=True)
class _Connection:
    consumer: Consumer
    errors: list[KafkaError]
    """Errors that broke connections to brokers, which librdkafka reports only here. It reconnects."""


def _connection(cluster: Cluster) -> _Connection:
    connection = _connections.get(cluster)
    if connection is None:
        own = {
            "enable.partition.eof": True,
            # Deleted records must not be skipped.
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 10,
            # A partition with enough queued records is not fetched for this time, by default a second, but the next
            # batch may be assigned earlier.
            "fetch.queue.backoff.ms": 2,
            # Prefetched records are discarded with the assignment of the batch.
            "queued.min.messages": _RECORDS_AT_ONCE,
        }
        # Nothing is committed to the group, but Kafka requires a name.
        errors: list[KafkaError] = []
        consumer = cluster.consumer("flykka", error_cb=errors.append, **own)
        connection = _connections[cluster] = _Connection(consumer, errors)
    return connection


def _timestamps(records: list[Message], places: dict[TopicPartition, int]) -> pa.Array:
    times = [each.timestamp()[1] for each in records]
    return pa.array(times, pa.int64()).cast(pa.timestamp("ms")).cast(pa.timestamp("us", tz="UTC"))


def _headers(records: list[Any], places: dict[TopicPartition, int]) -> pa.Array:
    headers: list[list[dict[str, Any]]] = [
        [
            {"key": key, "value": value.encode() if isinstance(value, str) else value}
            for key, value in each.headers() or ()
        ]
        for each in records
    ]
    return pa.array(headers, _HEADERS)


def _places(records: list[Message], places: dict[TopicPartition, int]) -> pa.Array:
    of = cast("dict[_Key, int]", places)
    return pa.array([of[each.topic(), each.partition()] for each in records], pa.int32())


METADATA = {
    "key": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "headers": "array<struct<key: string, value: binary>>",
}
"""The columns of a record in addition to its value, with the names and types of Spark's own source."""
_COLUMNS: dict[str, Callable[[list[Any], dict[TopicPartition, int]], pa.Array]] = {
    "value": lambda records, _: pa.array([each.value() for each in records], pa.binary()),
    "key": lambda records, _: pa.array([each.key() for each in records], pa.binary()),
    "topic": lambda records, _: pa.array([each.topic() for each in records], pa.string()),
    "partition": lambda records, _: pa.array([each.partition() for each in records], pa.int32()),
    "offset": lambda records, _: pa.array([each.offset() for each in records], pa.int64()),
    "timestamp": _timestamps,
    "headers": _headers,
    PARTITION: _places,
}
