"""KafkaSource: the records of topics, by offset (Flink's KafkaSource; columns and types are those of Spark's source).

The source runs in one subtask: its batches are read by all cores, and records of one partition stay in their order.
Offsets are the splits of the source and lie in its checkpoints; the group learns of them when a checkpoint is complete,
for others to look at. Rows never pass the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from pyspark.sql.types import StructField, StructType

from flykka.messages.tasks.source import SerializedSplit, SourceSplit
from flykka.runtime.durations import Duration, positive_duration_ms
from flykka.spark_bridge.connectors.kafka.client import Cluster, checked_properties
from flykka.spark_bridge.connectors.kafka.discovery import KafkaSplitDiscovery
from flykka.spark_bridge.connectors.kafka.formats import ValueFormat
from flykka.spark_bridge.connectors.kafka.offsets import OffsetKind, OffsetsInitializer
from flykka.spark_bridge.connectors.kafka.ranges import ranges_of
from flykka.spark_bridge.connectors.kafka.reading import METADATA, read_records
from flykka.spark_bridge.connectors.kafka.source_settings import KafkaSourceSettings
from flykka.spark_bridge.program.prototype import PrototypeError
from flykka.spark_bridge.program.source import Boundedness, Source, split_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flykka.messages.wire.ids import OperatorId
    from flykka.spark_bridge.rows.filesystem import FileSystem
    from flykka.spark_bridge.rows.materialise import Slices

_WHAT = "a KafkaSource"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSource(KafkaSourceSettings, Source):
    """Topics to read. Made by `of_topics` or `of_topic_pattern`; the other methods return changed copies.

    Each record is a row: the columns that `value_format` makes of its value, then those of `metadata`. Without an end
    it is read until the job is cancelled. Only records are read whose transaction was committed.
    """

    parallelism_limit: ClassVar[int | None] = 1

    @classmethod
    def of_topics(cls, bootstrap_servers: str, *topics: str, **properties: object) -> Self:
        """These topics of a cluster; `properties` are librdkafka's, with `_` for `.`: `security_protocol="SSL"`.

        Raises:
            MissingExtraError: confluent-kafka is not installed.
            ValueError: no topic is named, or flykka decides on a property.
        """
        if not topics or not all(topics):
            raise ValueError(
                "a KafkaSource needs the name of a topic: KafkaSource.of_topics('localhost:9092', 'orders')"
            )
        return cls(cluster=Cluster(bootstrap_servers, checked_properties(properties, _WHAT)), topics=topics)

    @classmethod
    def of_topic_pattern(cls, bootstrap_servers: str, pattern: str, **properties: object) -> Self:
        """The topics whose whole name matches a regular expression, also those that are made later.

        Raises as `of_topics` does.
        """
        return cls(cluster=Cluster(bootstrap_servers, checked_properties(properties, _WHAT)), pattern=pattern)

    def values(self, value_format: ValueFormat) -> Self:
        """Decode values in this format; without one they are bytes, in a column `value`."""
        if not isinstance(value_format, ValueFormat):
            raise TypeError(f"values takes a format such as JsonFormat('id long'), not {value_format!r}")
        return replace(self, value_format=value_format)

    def with_metadata(self, *columns: str) -> Self:
        """Add columns of a record beside its value: `key`, `topic`, `partition`, `offset`, `timestamp`, `headers`.

        Raises:
            ValueError: there is no such column.
        """
        if unknown := [column for column in columns if column not in METADATA]:
            raise ValueError(f"a record has no {unknown[0]!r}; its columns are {', '.join(METADATA)}")
        return replace(self, metadata=columns)

    def start_from(self, offsets: OffsetsInitializer) -> Self:
        """Begin at these offsets; without it at the earliest. A job that begins from a checkpoint goes on there."""
        return replace(self, starting=offsets)

    def bounded(self, offsets: OffsetsInitializer) -> Self:
        """End before these offsets, which are looked for when the job begins, and make the source a bounded one.

        `latest()` is all that is there then.
        """
        return replace(self, stopping=offsets)

    def group_id(self, group: str) -> Self:
        """Commit the offsets of complete checkpoints to this group. The source does not go by them."""
        return replace(self, group=group)

    def rate_limit(self, records_per_second: float) -> Self:
        """Read no more than this on the average. Raises `ValueError` where it is not above 0."""
        if not records_per_second > 0:
            raise ValueError(f"the rate limit must be above 0, not {records_per_second!r}")
        return replace(self, rate=records_per_second)

    def align_partitions(self) -> Self:
        """Read of a backlog what is earliest in all partitions, by the timestamps of the records in Kafka.

        So no partition's event time runs ahead while others are read, if those times go with event time. Without it
        each partition is read in proportion to what waits in it: all are through at the same moment.
        """
        return replace(self, aligns_partitions=True)

    def discover_partitions_every(self, interval: Duration) -> Self:
        """Look for new topics and partitions at this interval (10 s by default). Raises `DurationError`."""
        return replace(self, discovery_interval_ms=positive_duration_ms(interval, "partition discovery interval"))

    @property
    def boundedness(self) -> Boundedness:
        """Bounded with an end."""
        return Boundedness.BOUNDED if self.is_bounded else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def is_notified_of_checkpoints(self) -> bool:
        """True if a group is to learn of offsets."""
        return self.group is not None

    @property
    def format(self) -> str:
        """The word of Flink's connector."""
        return "kafka"

    def __str__(self) -> str:
        return f"{self.format} {', '.join(self.topics) or self.pattern}"

    def bound(self, session: SparkSession, event_time: str | None) -> Self:
        """With this event-time column. Raises `PrototypeError` where columns do not fit, or a group is missing."""
        needs_group = any(
            each is not None and each.kind is OffsetKind.COMMITTED for each in (self.starting, self.stopping)
        )
        if needs_group and self.group is None:
            raise PrototypeError(f"{self} begins at the offsets of a group: say which with group_id(...)")
        self.prototype(session)
        return replace(self, event_time=event_time)

    def prototype(self, session: SparkSession) -> DataFrame:
        """An empty DataFrame with the columns. Raises `PrototypeError` where two have one name."""
        own = self.value_format.schema(session)
        if twice := [name for name in self.metadata if name in own.names]:
            raise PrototypeError(
                f"{self} has two columns {twice[0]!r}: one of its values, and one of with_metadata(...)"
            )
        declared = ", ".join(f"`{name}` {METADATA[name]}" for name in self.metadata)
        more = session.createDataFrame([], declared).schema if declared else StructType()
        return session.createDataFrame(
            [], StructType([StructField(each.name, each.dataType) for each in (*own.fields, *more.fields)])
        )

    def check_input(self, operator_id: OperatorId, filesystem: FileSystem) -> None:
        """Ask the cluster for the topics. Raises `SourceError` where it does not answer, or there are none."""
        discovery = self.split_discovery(operator_id, filesystem)
        try:
            discovery.discover(b"")
        finally:
            discovery.close()

    def split_discovery(self, operator_id: OperatorId, filesystem: FileSystem) -> KafkaSplitDiscovery:
        """Asks for new records."""
        return KafkaSplitDiscovery(self, operator_id)

    def partitions_of(self, splits: Sequence[SourceSplit]) -> Sequence[str]:
        """The partitions of all topics, where there is event time."""
        if self.event_time is None:
            return ()
        return [str(each.at) for each in ranges_of(split_of(SerializedSplit, split, self) for split in splits)]

    def read(
        self, session: SparkSession, schema: StructType, splits: Sequence[SourceSplit], *, in_slices: bool
    ) -> Slices:
        """The records of ranges of offsets."""
        ranges = ranges_of(split_of(SerializedSplit, split, self) for split in splits)
        return (read_records(session, self, schema, ranges),)

    def notify_checkpoint_complete(self, checkpoint_id: int, splits: Sequence[SourceSplit]) -> None:
        """Let the group know how far the job has come. Does not wait for it."""
        assert self.group is not None, "without a group it is not told of checkpoints"
        ranges = ranges_of(split_of(SerializedSplit, split, self) for split in splits)
        self.committer.commit(self.cluster, self.group, {each.at: each.end for each in ranges})
