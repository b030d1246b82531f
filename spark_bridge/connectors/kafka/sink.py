"""KafkaSink: records that appear exactly once for readers of committed records, or at least once without delay.

Exactly-once uses Kafka's transactions: the rows that a subtask has staged for a checkpoint are produced in one
transaction, which also commits the id of the checkpoint as the offset of the writer's own group. A restore checks that
group first. A group is deleted if nothing is committed for the broker's `offsets.retention.minutes`, a week by default.
A producer with the same transactional id fences the previous producer, and ends its open transaction.

Columns of a row become fields of its record by name: `value` is required; `key`, `headers`, `partition`, `topic` and
`timestamp` are optional, as in Spark's own sink.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from flykka.spark_bridge.connectors.kafka.client import Cluster, checked_properties, topics_there
from flykka.spark_bridge.connectors.kafka.publishing import ProduceRecords, PublishFiles, PublishKafkaTransaction
from flykka.spark_bridge.connectors.kafka.reading import METADATA
from flykka.spark_bridge.connectors.transactional import Transaction, TransactionalSink, TransactionalWriter
from flykka.spark_bridge.errors import SinkError
from flykka.spark_bridge.program.prototype import PrototypeError
from flykka.spark_bridge.program.sink import SinkContext
from flykka.spark_bridge.program.sink_writer import SinkWriter, Staged
from flykka.spark_bridge.worker.outputs import ROWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.messages.wire.ids import JobId
    from flykka.spark_bridge.rows.filesystem import FileSystem

_WHAT = "a KafkaSink"
_TYPES = {**METADATA, "value": "binary"}
_ARRIVAL = "__arrival"
_TEXTS = frozenset({"value", "key"})


class DeliveryGuarantee(StrEnum):
    """The delivery guarantees of a sink (Flink's DeliveryGuarantee)."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSink(TransactionalSink):
    """A topic to write to. Rows with a non-null column `topic` go to that topic instead.

    With `DeliveryGuarantee.AT_LEAST_ONCE`, records appear as soon as their batch is processed, and some are repeated
    after a failure.
    """

    cluster: Cluster
    topic: str
    guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE

    @classmethod
    def to_topic(cls, bootstrap_servers: str, topic: str, **properties: object) -> Self:
        """Write to a topic of a cluster. `properties` are librdkafka's, with `_` for `.`: `compression_type="zstd"`.

        Raises:
            MissingExtraError: confluent-kafka is not installed.
            ValueError: flykka sets a property itself.
        """
        return cls(cluster=Cluster(bootstrap_servers, checked_properties(properties, _WHAT)), topic=topic)

    def delivery_guarantee(self, guarantee: DeliveryGuarantee | str) -> Self:
        """Set the delivery guarantee. Raises `ValueError` if it is unknown."""
        return replace(self, guarantee=DeliveryGuarantee(guarantee))

    @property
    def publishes_per_checkpoint(self) -> bool:
        return self.guarantee is DeliveryGuarantee.EXACTLY_ONCE

    @property
    def format(self) -> str:
        return "kafka"

    def __str__(self) -> str:
        return f"{self.format} {self.topic}"

    def check_rows(self, prototype: DataFrame) -> None:
        """Raise `PrototypeError` if the rows have no column `value`, or a column that is no field of a record."""
        types = dict(prototype.dtypes)
        if "value" not in types:
            raise PrototypeError(
                f"a KafkaSink writes the column 'value' of its rows, which have {', '.join(types)}: make one, as with"
                " selectExpr('to_json(struct(*)) AS value')"
            )
        if unknown := sorted(types.keys() - _TYPES.keys()):
            raise PrototypeError(
                f"a record has no {unknown[0]!r}: a KafkaSink takes the columns {', '.join(sorted(_TYPES))}"
            )
        for name, is_type in types.items():
            if is_type != _TYPES[name].replace(": ", ":") and not (name in _TEXTS and is_type == "string"):
                raise PrototypeError(f"the column {name!r} of a record is of type {_TYPES[name]}, not {is_type}")

    def check_target(self, filesystem: FileSystem) -> None:
        if self.topic not in topics_there(self.cluster):
            raise SinkError(f"there is no topic {self.topic} at {self.cluster.bootstrap_servers}: create it")

    def staging_folder(self, job_id: JobId, checkpoint_directory: str) -> str | None:
        return (
            TransactionalSink.staging_folder(self, job_id, checkpoint_directory)
            if self.publishes_per_checkpoint
            else None
        )

    def writer(self, context: SinkContext) -> SinkWriter[DataFrame]:
        return TransactionalWriter(self, context) if self.publishes_per_checkpoint else AtLeastOnceWriter(self, context)

    def publish(self, transaction: Transaction) -> None:
        """Produce the rows and commit the id, in one Spark task, so that rows do not pass through the driver."""
        work = PublishKafkaTransaction(
            cluster=self.cluster,
            topic=self.topic,
            writer=transaction.writer,
            checkpoint_id=transaction.checkpoint_id,
        )
        if work.is_published():
            return
        files = transaction.local_files()
        if files is None:
            # Sorted because Spark reads the largest files first.
            rows = transaction.rows_with_arrival(_ARRIVAL).coalesce(1).sortWithinPartitions(_ARRIVAL).drop(_ARRIVAL)
            rows.mapInArrow(work, ROWS).collect()
        else:
            one = transaction.session.range(0, 1, 1, 1)
            one.mapInArrow(PublishFiles(transaction=work, files=files), ROWS).collect()


class AtLeastOnceWriter(SinkWriter["DataFrame"]):
    """Produces rows when they arrive, and waits until they are acknowledged."""

    def __init__(self, sink: KafkaSink, context: SinkContext) -> None:
        self._run = ProduceRecords(cluster=sink.cluster, topic=sink.topic)
        self._context = context

    def stage(self, rows: DataFrame) -> Staged:
        """Produce one batch with one Spark job. If rows have keys, the job has one task, to keep the order of each
        key.
        """
        self._context.scope.check()
        rows = rows.coalesce(1) if "key" in rows.columns else rows
        return Staged(rows=sum(row.rows for row in rows.mapInArrow(self._run, ROWS).collect()))
