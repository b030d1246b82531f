"""Reads records in a Python worker of Spark, as Arrow. For `mapInArrow`, whose rows are numbers of tasks.

A consumer stays open in its worker process, for the next batch to find it connected. It reads what it is told to and
no more: where the last offsets of a range are those of no record, as behind a transaction, the broker says that the end
is reached.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from flykka.spark_bridge.connectors.kafka.client import Cluster, told
from flykka.spark_bridge.connectors.kafka.ranges import OffsetRange, TopicPartition
from flykka.spark_bridge.errors import SourceError
from flykka.spark_bridge.rows.marks import PARTITION

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

_RECORDS_AT_ONCE = 10_000
_WAIT_SECONDS = 0.05
# Offset out of range, and no rule for where to go on then.
_GONE = frozenset({1, -140})
# A broker is away, a name is not resolved, all brokers are away, a request took too long: librdkafka goes on by itself.
_PASSING = frozenset({-195, -193, -187, -185})
# An answer is too large, a password or a certificate is refused: librdkafka goes on by itself here too, in vain.
_LASTING = frozenset({"_BAD_MSG", "_AUTHENTICATION", "_SSL"})
_PATIENCE_SECONDS = 60.0
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

_Key = tuple[str | None, int | None]
"""A topic and a partition, as a record gives them: a plain tuple is made in no time."""

_connections: dict[Cluster, _Connection] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecords:
    """The records of the ranges of a task, with these of Kafka's columns; `places` are those of the partitions."""

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
    # One partition at a time takes fewer questions to each record, and a fetch for each partition: that is worth it
    # where they are long.
    are_long = all(each.offsets >= _RECORDS_AT_ONCE for each in there)
    for together in [[each] for each in there] if are_long else [there]:
        yield from _assigned(connection, cluster, together)


def _assigned(connection: _Connection, cluster: Cluster, ranges: Sequence[OffsetRange]) -> Iterator[list[Message]]:
    from confluent_kafka import TopicPartition as Named

    reading, consumer = _Reading(cluster, ranges), connection.consumer
    connection.errors.clear()
    consumer.assign([Named(*each.at, each.start) for each in ranges])
    try:
        heard = time.monotonic()
        while reading.offsets_left:
            # It waits for as many as it is asked for; some offsets are those of no record.
            messages = consumer.consume(min(_RECORDS_AT_ONCE, reading.offsets_left), timeout=_WAIT_SECONDS)
            reading.note(connection.errors)
            records = reading.take(messages)
            if records:
                heard = time.monotonic()
                yield records
            elif time.monotonic() - heard > _PATIENCE_SECONDS:
                raise SourceError(
                    f"Kafka at {cluster.bootstrap_servers} sends no records of {reading} for {_PATIENCE_SECONDS:.0f} s,"
                    f" which it has said are there{reading.trouble}"
                )
    finally:
        consumer.unassign()


class _Reading:
    """Progress of the ranges of a task. Each question to a record costs: only those are asked that decide something."""

    def __init__(self, cluster: Cluster, ranges: Sequence[OffsetRange]) -> None:
        self._cluster = cluster
        self._ends: dict[_Key, int] = {each.at: each.end for each in ranges}
        self._left: dict[_Key, int] = {each.at: each.offsets for each in ranges}
        self.trouble = ""

    def __str__(self) -> str:
        return ", ".join(f"{topic}-{partition}" for topic, partition in self._left)

    @property
    def offsets_left(self) -> int:
        return sum(self._left.values())

    def take(self, messages: Sequence[Message]) -> list[Message]:
        """Return the records of the ranges among messages. Raises `SourceError` where some cannot be read."""
        from confluent_kafka import Message

        if len(self._ends) == 1 and messages and not any(map(Message.error, messages)):
            ((key, end),) = self._ends.items()
            behind = (messages[-1].offset() or 0) + 1
            if behind <= end:
                self._left = {key: end - behind} if behind < end else {}
                return list(messages)
        records: list[Message] = []
        last: dict[_Key, int] = {}
        for message in messages:
            key, offset = (message.topic(), message.partition()), message.offset()
            if message.error() is not None:
                if self._is_end(message):
                    # It is where the next record will be.
                    last[key] = (offset or 0) - 1
            elif offset is not None and offset < self._ends[key]:
                records.append(message)
                last[key] = offset
            else:
                last[key] = self._ends[key]
        for key, offset in last.items():
            self._left[key] = max(0, self._ends[key] - offset - 1)
        self._left = {key: left for key, left in self._left.items() if left}
        return records

    def _is_end(self, message: Message) -> bool:
        """True for the end of a partition; another error raises, unless waiting may help."""
        from confluent_kafka import KafkaError

        error = message.error()
        assert error is not None
        if error.code() == KafkaError._PARTITION_EOF:
            return True
        if error.code() in _PASSING:
            self.trouble = f": {told(error)}"
            return False
        # An error of the cluster's has no topic.
        of = str(self) if message.topic() is None else f"{message.topic()}-{message.partition()}"
        hint = ": it has deleted them before they were read" if error.code() in _GONE else ""
        raise self._refusal(error, of + hint)

    def note(self, errors: list[KafkaError]) -> None:
        """Take the errors of connections. Raises `SourceError` for one that comes again at each attempt to connect."""
        for error in errors:
            if error.name() in _LASTING:
                raise self._refusal(error, str(self))
            self.trouble = f": {told(error)}"
        errors.clear()

    def _refusal(self, error: KafkaError, of: str) -> SourceError:
        return SourceError(
            f"Kafka at {self._cluster.bootstrap_servers} does not give the records of {of}: {told(error)}"
        )


@dataclass(frozen=True, slots=True)
class _Connection:
    consumer: Consumer
    errors: list[KafkaError]
    """The errors that broke its connections to brokers: librdkafka connects again, and reports them here alone."""


def _connection(cluster: Cluster) -> _Connection:
    known = _connections.get(cluster)
    if known is None:
        own = {
            "enable.partition.eof": True,
            # Records that are gone must not be passed over.
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 10,
            # A partition of which enough waits to be read is left alone for so long, by default for a second: it may be
            # assigned again before, for the next batch.
            "fetch.queue.backoff.ms": 2,
            # What is fetched ahead is thrown away with the assignment of the batch.
            "queued.min.messages": _RECORDS_AT_ONCE,
        }
        # Nothing is committed to the group: it is Kafka that wants a name.
        errors: list[KafkaError] = []
        consumer = cluster.consumer("flykka", error_cb=errors.append, **own)
        known = _connections[cluster] = _Connection(consumer, errors)
    return known


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
"""The columns of a record beside its value, by the names and with the types of Spark's own source."""
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
