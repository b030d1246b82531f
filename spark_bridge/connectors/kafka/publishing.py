"""Produces records in a Python worker of Spark, one by one or in a transaction, as arguments of `mapInArrow`.

Producers are closed with their task. The next producer with the same transactional id aborts an open transaction. Other
producers flush the records that they have accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from flykka.spark_bridge.connectors.kafka.client import TIMEOUT_SECONDS, Cluster, error_text
from flykka.spark_bridge.errors import SinkError
from flykka.spark_bridge.worker.outputs import number_of
from flykka.spark_bridge.worker.time_columns import millis

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer


_ROWS_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRecords:
    """Produces rows as records, to `topic` or to the topic that a row names."""

    cluster: Cluster
    topic: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        producer = self.cluster.producer(**{"enable.idempotence": True})
        yield number_of(self._produce(producer, batches))

    def _produce(self, producer: Producer, batches: Iterable[pa.RecordBatch]) -> int:
        """Produce all rows, wait for delivery, and return their number. Raises `SinkError` if a row is rejected."""
        from confluent_kafka import KafkaException

        refused: list[str] = []

        def delivered(error: Any, _: Any) -> None:
            if error is not None and not refused:
                refused.append(error_text(error))

        rows = unsent = 0
        try:
            for batch in batches:
                try:
                    _produce_all(producer, batch, self.topic, delivered)
                except KafkaException as too_large:
                    refused.append(error_text(too_large))
                rows += batch.num_rows
                producer.poll(0)
                if refused:
                    break
            unsent = producer.flush(TIMEOUT_SECONDS)
        except SystemError:
            # confluent-kafka 2.16 loses a fatal error if it then calls `delivered`, which gets the same reason.
            if not refused:
                raise
        if refused or unsent:
            why = refused[0] if refused else f"{unsent} records have not arrived after {TIMEOUT_SECONDS:.0f} s"
            raise SinkError(f"Kafka at {self.cluster.bootstrap_servers} does not accept the records: {why}")
        return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishKafkaTransaction(ProduceRecords):
    """Produces rows in one transaction of a writer, which also commits the id of a checkpoint, unless that id is
    committed already.

    The id is committed as an offset of the writer's group for the first partition of the topic, because Kafka requires
    an existing partition.
    """

    writer: str
    checkpoint_id: int

    def is_published(self) -> bool:
        """Return True if this or a later transaction of the writer is committed. Another attempt may be running it."""
        consumer = self._consumer()
        try:
            return self._is_published(consumer)
        finally:
            consumer.close()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from confluent_kafka import KafkaException, TopicPartition

        consumer = self._consumer()
        producer = self.cluster.producer(**{"transactional.id": f"flykka-{self.writer}"})
        try:
            # This ends an open transaction of the writer's previous producer, and fences that producer. Then the
            # outcome of its transaction is known.
            producer.init_transactions(TIMEOUT_SECONDS)
            if self._is_published(consumer):
                yield number_of(0)
                return
            producer.begin_transaction()
            rows = self._produce(producer, batches)
            mark = TopicPartition(self.topic, 0, self.checkpoint_id)
            producer.send_offsets_to_transaction([mark], consumer.consumer_group_metadata(), TIMEOUT_SECONDS)
            producer.commit_transaction(TIMEOUT_SECONDS)
            yield number_of(rows)
        except KafkaException as refused:
            raise SinkError(
                f"Kafka at {self.cluster.bootstrap_servers} does not accept the transaction of checkpoint"
                f" {self.checkpoint_id}: {error_text(refused)}"
            ) from refused
        finally:
            consumer.close()

    def _consumer(self) -> Consumer:
        return self.cluster.consumer(f"flykka-{self.writer}")

    def _is_published(self, consumer: Consumer) -> bool:
        from confluent_kafka import KafkaException, TopicPartition

        try:
            (last,) = consumer.committed([TopicPartition(self.topic, 0)], timeout=TIMEOUT_SECONDS)
        except KafkaException as refused:
            raise SinkError(
                f"Kafka at {self.cluster.bootstrap_servers} does not return its last checkpoint: {error_text(refused)}"
            ) from refused
        return bool(last.offset >= self.checkpoint_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishFiles:
    """The rows of parquet files, read by the worker itself: in the JVM, reading would take as long as producing."""

    transaction: PublishKafkaTransaction
    files: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield from self.transaction(self._rows())

    def _rows(self) -> Iterator[pa.RecordBatch]:
        for file in self.files:
            with pq.ParquetFile(file) as rows:
                yield from rows.iter_batches(_ROWS_AT_ONCE)


def _produce_all(producer: Producer, batch: pa.RecordBatch, topic: str, delivered: Callable[[Any, Any], None]) -> None:
    """Produce a batch's rows. Nulls and missing columns are left to Kafka. As little as possible is done per row."""
    columns = {name: read(batch.column(name)) for name, read in _ARGUMENTS.items() if name in batch.schema.names}
    columns["topic"] = [each or topic for each in columns.get("topic", [None] * batch.num_rows)]
    rows = zip(*(columns.get(name, repeat(left_out)) for name, left_out in _LEFT_OUT.items()), strict=False)
    produce = producer.produce
    for to, value, key, partition, timestamp, headers in rows:
        while True:
            try:
                produce(to, value, key, partition, on_delivery=delivered, timestamp=timestamp, headers=headers)
                break
            except BufferError:
                # The queue is full.
                producer.poll(0.1)


def _or(left_out: int, column: pa.Array) -> list[Any]:
    values: list[Any] = column.fill_null(left_out).to_pylist()
    return values


def _headers(column: pa.Array) -> list[list[tuple[str, bytes]] | None]:
    of_rows = column.to_pylist()
    return [None if row is None else [(each["key"], each["value"]) for each in row] for row in of_rows]


_ANY_PARTITION, _NOW = -1, 0
_LEFT_OUT = {
    "topic": None,
    "value": None,
    "key": None,
    "partition": _ANY_PARTITION,
    "timestamp": _NOW,
    "headers": None,
}
"""The arguments of a producer by column name, with their defaults."""

_ARGUMENTS: dict[str, Callable[[pa.Array], list[Any]]] = {
    "value": pa.Array.to_pylist,
    "key": pa.Array.to_pylist,
    "topic": pa.Array.to_pylist,
    "partition": partial(_or, _ANY_PARTITION),
    "timestamp": lambda times: _or(_NOW, millis(times)),
    "headers": _headers,
}
