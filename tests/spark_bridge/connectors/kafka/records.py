"""Reads records as the tasks of a KafkaSource do, in this process and without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, cast

import pyarrow as pa
from confluent_kafka import Producer

from benchmarks.connectors.broker import Broker
from flykka import KafkaSource
from flykka.connectors import OperatorId
from flykka.messages.tasks.source import SerializedSplit, SourceSplit, SplitsDiscovered
from flykka.spark_bridge.connectors.kafka.ranges import dealt, ranges_of
from flykka.spark_bridge.connectors.kafka.reading import ReadRecords
from flykka.spark_bridge.connectors.kafka.source import KafkaSplitDiscovery


class Record(NamedTuple):
    partition: int
    offset: int
    value: bytes | None


def discover_splits(source: KafkaSource, position: bytes = b"") -> SplitsDiscovered:
    """Discover splits after a position, as a source that has just been started."""
    discovery = KafkaSplitDiscovery(source, OperatorId("source"))
    try:
        return discovery.discover(position)
    finally:
        discovery.close()


def records(source: KafkaSource, splits: Sequence[SourceSplit], tasks: int = 1) -> list[Record]:
    """Return the records of splits, partition by partition, read by `tasks` tasks."""
    ranges = ranges_of(cast("Sequence[SerializedSplit]", splits))
    work = ReadRecords(
        cluster=source.cluster,
        tasks=dealt(ranges, tasks),
        columns=("partition", "offset", "value"),
        places={each.at: number for number, each in enumerate(ranges)},
    )
    batches = work([pa.RecordBatch.from_pydict({"id": range(len(work.tasks))})])
    return sorted(Record(**row) for batch in batches for row in batch.to_pylist())


def record_values(source: KafkaSource) -> list[bytes | None]:
    return [record.value for record in records(source, discover_splits(source).splits)]


@contextmanager
def transaction(broker: Broker, topic: str, *of: bytes, partition: int = 0) -> Iterator[Producer]:
    """Open a transaction with these values; it is aborted at the end of the block unless it has already ended."""
    producer = Producer(broker.client(transactional_id=f"foreign-{topic}-{of!r}"))
    producer.init_transactions()
    producer.begin_transaction()
    for value in of:
        producer.produce(topic, value=value, partition=partition)
    producer.flush()
    yield producer
    producer.abort_transaction()


def send_aborted(broker: Broker, topic: str, *of: bytes, partition: int = 0) -> None:
    with transaction(broker, topic, *of, partition=partition):
        pass


def send_committed(broker: Broker, topic: str, *of: bytes, partition: int = 0) -> None:
    with transaction(broker, topic, *of, partition=partition) as producer:
        producer.commit_transaction()
        producer.begin_transaction()
