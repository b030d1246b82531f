"""Reads records in a Python worker of Spark, as Arrow. For `mapInArrow`, whose rows are numbers of tasks.

A consumer stays open in its worker process, for the next batch to find it connected. It reads what it is told to and
no more: where the last offsets of a range are those of no record, as behind a transaction, the broker says that the end
is reached.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flykka.spark_bridge.connectors.kafka.client import READ_COMMITTED, Cluster, quiet, told
from flykka.spark_bridge.connectors.kafka.ranges import OffsetRange, TopicPartition
from flykka.spark_bridge.errors import SourceError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

_RECORDS_AT_ONCE = 10_000
_WAIT_SECONDS = 0.05
# Offset out of range, and no rule for where to go on then.
_GONE = (1, -140)
_PATIENCE_SECONDS = 60.0
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

_consumers: dict[Cluster, Consumer] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecords:
    """The records of the ranges of a task, with these of Kafka's columns; `places` are those of the partitions."""

    cluster: Cluster
    tasks: Sequence[Sequence[OffsetRange]]
    columns: tuple[str, ...]
    places: dict[TopicPartition, int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the tasks whose numbers are in the batches."""
        for batch in batches:
            for (task,) in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                for records in _records(self.cluster, self.tasks[task]):
                    columns = [_COLUMNS[name](records, self.places) for name in self.columns]
                    yield pa.RecordBatch.from_arrays(columns, names=list(self.columns))


def _records(cluster: Cluster, ranges: Sequence[OffsetRange]) -> Iterator[list[Message]]:
    """The records of ranges, each of another partition or behind the one before, in lists of many."""
    from confluent_kafka import TopicPartition as Named

    consumer = _consumer(cluster)
    ends = {each.at: each.end for each in ranges if each.offsets}
    left = {each.at: each.offsets for each in ranges if each.offsets}
    consumer.assign([Named(*each.at, each.start) for each in ranges if each.offsets])
    try:
        heard = time.monotonic()
        while left:
            # It waits for as many as it is asked for; some offsets are those of no record.
            wanted = min(_RECORDS_AT_ONCE, sum(left.values()))
            messages = consumer.consume(wanted, timeout=_WAIT_SECONDS)
            if messages:
                heard = time.monotonic()
            elif time.monotonic() - heard > _PATIENCE_SECONDS:
                raise SourceError(
                    f"Kafka at {cluster.bootstrap_servers} sends no records of {', '.join(map(str, left))} for"
                    f" {_PATIENCE_SECONDS:.0f} s, which it has said are there"
                )
            records = [each for each in messages if _is_wanted(each, ends, left, cluster)]
            if records:
                yield records
    finally:
        consumer.unassign()


def _is_wanted(
    message: Message, ends: Mapping[TopicPartition, int], left: dict[TopicPartition, int], cluster: Cluster
) -> bool:
    """True for a record of a range, whose offsets that are `left` are noted; at its end it is taken out of them."""
    from confluent_kafka import KafkaError

    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        hint = ": it has deleted them before they were read" if error.code() in _GONE else ""
        raise SourceError(
            f"Kafka at {cluster.bootstrap_servers} does not give the records of {_at(message)}{hint}: {told(error)}"
        )
    at = _at(message)
    offset = message.offset() or 0
    if at not in left:
        return False
    # An end of the partition is where the next record will be.
    left[at] = ends[at] - offset - (error is None)
    if left[at] <= 0:
        del left[at]
    return error is None and offset < ends[at]


def _at(message: Message) -> TopicPartition:
    return TopicPartition(message.topic() or "", message.partition() or 0)


def _consumer(cluster: Cluster) -> Consumer:
    known = _consumers.get(cluster)
    if known is None:
        from confluent_kafka import Consumer

        known = _consumers[cluster] = Consumer(
            cluster.settings(
                **{
                    # Nothing is committed to it: it is Kafka that wants a name.
                    "group.id": "flykka",
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    # Records that are gone must not be passed over.
                    "auto.offset.reset": "error",
                    "fetch.wait.max.ms": 10,
                },
                **READ_COMMITTED,
            ),
            logger=quiet(),
        )
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
    return pa.array([places[_at(each)] for each in records], pa.int32())


_COLUMNS: dict[str, Callable[[list[Any], dict[TopicPartition, int]], pa.Array]] = {
    "value": lambda records, _: pa.array([each.value() for each in records], pa.binary()),
    "key": lambda records, _: pa.array([each.key() for each in records], pa.binary()),
    "topic": lambda records, _: pa.array([each.topic() for each in records], pa.string()),
    "partition": lambda records, _: pa.array([each.partition() for each in records], pa.int32()),
    "offset": lambda records, _: pa.array([each.offset() for each in records], pa.int64()),
    "timestamp": _timestamps,
    "headers": _headers,
    "__partition": _places,
}
