"""KafkaSource: the records of topics, by offset (Flink's KafkaSource; columns and types are those of Spark's source).

The source runs in one subtask, but all cores read its batches, and records of one partition keep their order. Offsets
are the splits of the source and are in its checkpoints. They are committed to the group when a checkpoint is complete,
for monitoring only. Rows never pass through the driver.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pyspark.sql.types import StructField, StructType

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.messages.tasks.source import SerializedSplit, SourceSplit, SplitsDiscovered
from flykka.runtime.durations import Duration, positive_duration_ms
from flykka.spark_bridge.connectors.kafka.client import Cluster, OffsetCommitter, OffsetReader, checked_properties
from flykka.spark_bridge.connectors.kafka.formats import RawFormat, ValueFormat
from flykka.spark_bridge.connectors.kafka.offsets import OffsetKind, OffsetResetStrategy, OffsetsInitializer
from flykka.spark_bridge.connectors.kafka.ranges import (
    OffsetRange,
    Offsets,
    TopicPartition,
    chunk,
    dealt,
    offset_split,
    ranges_of,
    read,
    written,
)
from flykka.spark_bridge.connectors.kafka.reading import METADATA, ReadRecords
from flykka.spark_bridge.errors import EmptySourceError, ReplacedTopicError, SourceError
from flykka.spark_bridge.program.prototype import PrototypeError
from flykka.spark_bridge.program.source import SPLITS_PER_LOOK, Boundedness, Source, split_of
from flykka.spark_bridge.rows.marks import IS_CORRUPT, PARTITION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flykka.messages.wire.ids import OperatorId
    from flykka.spark_bridge.rows.filesystem import FileSystem
    from flykka.spark_bridge.rows.materialise import Slices


_DISCOVERY_INTERVAL_MS = 10_000


_WHAT = "a KafkaSource"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSource(Source):
    """Topics to read. Created by `of_topics` or `of_topic_pattern`; the other methods return changed copies.

    Each record is a row: the columns that `value_format` decodes from its value, followed by the columns of `metadata`.
    An unbounded source is read until the job is cancelled. Only records of committed transactions are read.
    """

    parallelism_limit: ClassVar[int | None] = 1

    cluster: Cluster
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    value_format: ValueFormat = field(default_factory=RawFormat)
    metadata: tuple[str, ...] = ()
    starting: OffsetsInitializer = field(default_factory=OffsetsInitializer.earliest)
    stopping: OffsetsInitializer | None = None
    group: str | None = None
    rate: float | None = None
    aligns_partitions: bool = False
    discovery_interval_ms: int = _DISCOVERY_INTERVAL_MS
    event_time: str | None = None
    committer: OffsetCommitter = field(default_factory=OffsetCommitter, compare=False, repr=False)

    @classmethod
    def of_topics(cls, bootstrap_servers: str, *topics: str, **properties: object) -> Self:
        """Read these topics of a cluster. `properties` are librdkafka's, with `_` for `.`: `security_protocol="SSL"`.

        Raises:
            MissingExtraError: confluent-kafka is not installed.
            ValueError: there is no topic, or flykka sets a property itself.
        """
        if not topics or not all(topics):
            raise ValueError(
                "a KafkaSource needs the name of a topic: KafkaSource.of_topics('localhost:9092', 'orders')"
            )
        return cls(cluster=Cluster(bootstrap_servers, checked_properties(properties, _WHAT)), topics=topics)

    @classmethod
    def of_topic_pattern(cls, bootstrap_servers: str, pattern: str, **properties: object) -> Self:
        """Read the topics whose complete name matches a regular expression, including topics created later.

        Raises the same errors as `of_topics`.
        """
        return cls(cluster=Cluster(bootstrap_servers, checked_properties(properties, _WHAT)), pattern=pattern)

    def values(self, value_format: ValueFormat) -> Self:
        """Decode values in this format. By default values are bytes in a column `value`."""
        if not isinstance(value_format, ValueFormat):
            raise TypeError(f"values takes a format such as JsonFormat('id long'), not {value_format!r}")
        return replace(self, value_format=value_format)

    def with_metadata(self, *columns: str) -> Self:
        """Add columns of a record in addition to its value: `key`, `topic`, `partition`, `offset`, `timestamp`,
        `headers`.

        Raises:
            ValueError: there is no such column.
        """
        if unknown := [column for column in columns if column not in METADATA]:
            raise ValueError(f"a record has no {unknown[0]!r}; its columns are {', '.join(METADATA)}")
        return replace(self, metadata=columns)

    def start_from(self, offsets: OffsetsInitializer) -> Self:
        """Start at these offsets, by default the earliest. A restored job continues at the checkpoint's offsets."""
        return replace(self, starting=offsets)

    def bounded(self, offsets: OffsetsInitializer) -> Self:
        """Stop before these offsets, which are resolved when the job starts, and make the source bounded.

        With `latest()`, all records are read that exist when the job starts.
        """
        return replace(self, stopping=offsets)

    def group_id(self, group: str) -> Self:
        """Commit the offsets of complete checkpoints to this group. The source itself does not use them."""
        return replace(self, group=group)

    def rate_limit(self, records_per_second: float) -> Self:
        """Read at most this many records per second on average. Raises `ValueError` for a non-positive number."""
        if not records_per_second > 0:
            raise ValueError(f"the rate limit must be above 0, not {records_per_second!r}")
        return replace(self, rate=records_per_second)

    def align_partitions(self) -> Self:
        """Read a backlog in the order of the records' timestamps in Kafka, across all partitions.

        So no partition's event time runs ahead while others are read, if the timestamps follow event time. By default
        each partition is read in proportion to its backlog, so that all partitions catch up at the same time.
        """
        return replace(self, aligns_partitions=True)

    def discover_partitions_every(self, interval: Duration) -> Self:
        """Discover new topics and partitions at this interval (10 s by default). Raises `DurationError`."""
        return replace(self, discovery_interval_ms=positive_duration_ms(interval, "partition discovery interval"))

    @property
    def is_bounded(self) -> bool:
        """True if the source has end offsets."""
        return self.stopping is not None

    @property
    def counts_corrupt(self) -> bool:
        return self.value_format.on_corrupt == "skip"

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self.is_bounded else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def is_notified_of_checkpoints(self) -> bool:
        return self.group is not None

    @property
    def format(self) -> str:
        return "kafka"

    def __str__(self) -> str:
        return f"{self.format} {', '.join(self.topics) or self.pattern}"

    def bound(self, session: SparkSession, event_time: str | None) -> Self:
        """Return the source with this event-time column. Raises `PrototypeError` if names clash or no group is set."""
        needs_group = any(
            each is not None and each.kind is OffsetKind.COMMITTED for each in (self.starting, self.stopping)
        )
        if needs_group and self.group is None:
            raise PrototypeError(f"{self} starts at the offsets of a group: set it with group_id(...)")
        self.prototype(session)
        return replace(self, event_time=event_time)

    def prototype(self, session: SparkSession) -> DataFrame:
        own = self.value_format.schema(session)
        if twice := [name for name in self.metadata if name in own.names]:
            raise PrototypeError(
                f"{self} has two columns {twice[0]!r}: one from its values, and one from with_metadata(...)"
            )
        declared = ", ".join(f"`{name}` {METADATA[name]}" for name in self.metadata)
        more = session.createDataFrame([], declared).schema if declared else StructType()
        return session.createDataFrame(
            [], StructType([StructField(each.name, each.dataType) for each in (*own.fields, *more.fields)])
        )

    def check_input(self, operator_id: OperatorId, filesystem: FileSystem) -> None:
        discovery = self.split_discovery(operator_id, filesystem)
        try:
            discovery.discover(b"")
        finally:
            discovery.close()

    def split_discovery(self, operator_id: OperatorId, filesystem: FileSystem) -> KafkaSplitDiscovery:
        return KafkaSplitDiscovery(self, operator_id)

    def partitions_of(self, splits: Sequence[SourceSplit]) -> Sequence[str]:
        """Return the partitions of all topics, if the source has event time."""
        if self.event_time is None:
            return ()
        return [str(each.at) for each in ranges_of(split_of(SerializedSplit, split, self) for split in splits)]

    def read(
        self, session: SparkSession, schema: StructType, splits: Sequence[SourceSplit], *, in_slices: bool
    ) -> Slices:
        ranges = ranges_of(split_of(SerializedSplit, split, self) for split in splits)
        return (read_records(session, self, schema, ranges),)

    def notify_checkpoint_complete(self, checkpoint_id: int, splits: Sequence[SourceSplit]) -> None:
        """Commit the job's progress to the group, without waiting for the commit."""
        assert self.group is not None, "the source has no group to which it could commit offsets"
        ranges = ranges_of(split_of(SerializedSplit, split, self) for split in splits)
        self.committer.commit(self.cluster, self.group, {each.at: each.end for each in ranges})


RECORDS_PER_SPLIT = 50_000
_RATE_INTERVAL_MS = 100
_LOOKS_PER_SECOND_MAX = 50


@dataclass(slots=True)
class _Position:
    next: dict[TopicPartition, int] = field(default_factory=dict)
    end: dict[TopicPartition, int] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    splits: int = 0
    is_started: bool = False

    @classmethod
    def of(cls, position: bytes) -> _Position:
        if not position:
            return cls()
        try:
            content: Mapping[str, Any] = json.loads(position)
            return cls(
                next=read(content["next"]),
                end=read(content["end"]),
                # Checkpoints of earlier versions contain no ids.
                ids=dict(content.get("ids", {})),
                splits=content["splits"],
                is_started=True,
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            raise SourceError(f"the checkpoint's position {position!r} is not a position of a Kafka source") from None

    def encoded(self) -> bytes:
        content = {"next": written(self.next), "end": written(self.end), "ids": self.ids, "splits": self.splits}
        return json.dumps(content).encode()


class KafkaSplitDiscovery:
    """Discovers new records of the cluster. Not thread-safe, except `changed`.

    The position is a JSON text: `next`, the offsets from which records are new, by topic and partition; `end`, the
    offsets at which a bounded source ends; `ids`, the ids of the topics; and the number of splits so far. Partitions
    that appear while the job runs are read from their beginning, because all their records are new.
    """

    def __init__(
        self, source: KafkaSource, operator_id: OperatorId, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._source = source
        self._operator_id = operator_id
        self._clock = clock
        self._offsets = OffsetReader(source.cluster, source.group)
        self._chunk = TimeOrder(self._offsets.first_at_time).chunk if source.aligns_partitions else chunk
        self._partitions_of_s: float | None = None
        self._counted: tuple[float, int] | None = None
        self._ends: dict[TopicPartition, int] = {}
        self._looked_s = 0.0
        self.interval_ms: int | None = source.discovery_interval_ms if source.rate is None else _RATE_INTERVAL_MS
        self.changed: Callable[[], bool] | None = self._changed if source.rate is None else None

    def discover(self, position: bytes) -> SplitsDiscovered:
        """Return the ranges of records after `position`.

        Raises:
            SourceError: the cluster does not respond, unread records were deleted, or a topic does not exist.
        """
        at = _Position.of(position)
        self._find_partitions(at)
        self._ends = self._offsets.end_offsets(at.next)
        for each, end in self._ends.items():
            if end < at.next[each]:
                raise SourceError(
                    f"{each} ends at offset {end}, but was read up to {at.next[each]}: was the topic deleted and"
                    " created again?"
                )
        pending = [
            OffsetRange(at=each, start=start, end=max(start, min(self._ends[each], at.end.get(each, self._ends[each]))))
            for each, start in sorted(at.next.items())
        ]
        splits, remaining = self._splits(pending, at)
        reached = {each.at: each.start for each in remaining}
        is_finished = self._source.is_bounded and all(reached[each] >= end for each, end in at.end.items())
        if is_finished:
            # No later discovery would notice that the last records belong to a new topic with the same name.
            self._check_ids(at, {each.topic for each in reached})
        at.next = reached
        return SplitsDiscovered(
            operator_id=self._operator_id,
            splits=tuple(splits),
            finished=is_finished,
            begun_at=position,
            position=at.encoded(),
            more=not is_finished and self._source.rate is None and any(each.offsets for each in remaining),
        )

    def close(self) -> None:
        self._offsets.close()

    def _splits(self, pending: list[OffsetRange], at: _Position) -> tuple[list[SerializedSplit], list[OffsetRange]]:
        splits: list[SerializedSplit] = []
        room = self._due()
        while room and len(splits) < SPLITS_PER_LOOK and any(each.offsets for each in pending):
            ranges = self._chunk(pending, min(RECORDS_PER_SPLIT, room))
            ends = {each.at: each.end for each in ranges}
            splits.append(offset_split(at.splits, ranges))
            at.splits += 1
            room = max(0, room - splits[-1].rows)
            pending = [OffsetRange(at=each.at, start=ends[each.at], end=each.end) for each in pending]
        self._count(splits)
        return splits, pending

    def _due(self) -> int:
        """Return the number of records that the rate allows now. Time starts with the first discovery."""
        rate = self._source.rate
        if rate is None:
            return RECORDS_PER_SPLIT * SPLITS_PER_LOOK
        now = self._clock()
        if self._counted is None:
            self._counted = now, 0
        since, counted = self._counted
        return max(0, round((now - since) * rate) - counted)

    def _count(self, splits: Iterable[SerializedSplit]) -> None:
        if self._counted is not None:
            since, counted = self._counted
            self._counted = since, counted + sum(split.rows for split in splits)

    def _changed(self) -> bool:
        """Return True if there are new records since the last discovery. Queries the cluster only at intervals."""
        now = self._clock()
        if not self._ends or now - self._looked_s < 1 / _LOOKS_PER_SECOND_MAX:
            return False
        self._looked_s = now
        try:
            return any(self._offsets.bounds(each)[1] > end for each, end in list(self._ends.items()))
        except SourceError:
            # The next discovery reports the error.
            return True

    def _find_partitions(self, at: _Position) -> None:
        now = self._clock()
        interval_s = self._source.discovery_interval_ms / 1000
        if self._partitions_of_s is not None and now - self._partitions_of_s < interval_s and at.is_started:
            return
        self._partitions_of_s = now
        there = self._offsets.partitions(self._topics())
        missing = [topic for topic in self._source.topics if all(each.topic != topic for each in there)]
        if missing or (not there and self._source.is_bounded):
            topics = ", ".join(missing) or f"that matches {self._source.pattern}"
            raise EmptySourceError(f"there is no topic {topics} at {self._source.cluster.bootstrap_servers}")
        self._check_ids(at, {each.topic for each in there})
        new = [each for each in there if each not in at.next]
        if not new or (at.is_started and self._source.is_bounded):
            return
        if at.is_started:
            at.next |= {each: self._offsets.bounds(each)[0] for each in new}
            return
        at.next |= self._initial(self._source.starting, new)
        if self._source.stopping is not None:
            at.end |= self._initial(self._source.stopping, new)

    def _check_ids(self, at: _Position, topics: set[str]) -> None:
        ids = self._offsets.ids(topics) if topics else {}
        for topic, topic_id in at.ids.items():
            if ids.get(topic, topic_id) != topic_id:
                read_up_to = ", ".join(
                    f"{each} up to offset {at.next[each]}" for each in at.next if each.topic == topic
                )
                raise ReplacedTopicError(
                    f"the topic {topic} at {self._source.cluster.bootstrap_servers} was deleted and created again"
                    f" since it was read ({read_up_to}): start without the checkpoint to read the new one"
                )
        at.ids |= ids

    def _topics(self) -> list[str]:
        if self._source.pattern is None:
            return list(self._source.topics)
        return [topic for topic in self._offsets.topics() if re.fullmatch(self._source.pattern, topic)]

    def _initial(self, initializer: OffsetsInitializer, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        match initializer.kind:
            case OffsetKind.TIMESTAMP:
                return self._offsets.at_time(partitions, initializer.timestamp_ms)
            case OffsetKind.COMMITTED:
                offsets = self._offsets.committed(partitions)
            case OffsetKind.OFFSETS:
                offsets = {at: offset for at, offset in initializer.partition_offsets if at in partitions}
            case _:
                offsets = {}
        reset = {OffsetKind.EARLIEST: OffsetResetStrategy.EARLIEST, OffsetKind.LATEST: OffsetResetStrategy.LATEST}.get(
            initializer.kind, initializer.reset
        )
        others = [each for each in partitions if each not in offsets]
        if others and reset is OffsetResetStrategy.NONE:
            raise SourceError(
                f"the group {self._source.group!r} has committed no offset of {others[0]}: choose where to start in"
                " this case, as in OffsetsInitializer.committed_offsets('earliest')"
            )
        side = 0 if reset is OffsetResetStrategy.EARLIEST else 1
        return offsets | {each: self._offsets.bounds(each)[side] for each in others}


_FIRST_STEP_MS = 1_000
_LATEST_MS = 253_402_300_800_000
"""The end of the year 9999, in ms since the epoch."""

FirstOffsets = Callable[[Sequence[OffsetRange], int], Offsets]
"""A function that returns the first offset in each range whose record is at or after a time (ms since the epoch)."""


class TimeOrder:
    """Chooses the earliest pending records of several partitions by their timestamps in Kafka.

    So no partition runs ahead of another in time while a backlog is read, and none holds event time back. Flink
    achieves this by watermark alignment, in which readers that are ahead wait. Here the order is chosen before reading.
    """

    def __init__(self, first_offsets: FirstOffsets) -> None:
        self._first_offsets = first_offsets
        self._reached_ms = 0
        self._step_ms = _FIRST_STEP_MS

    def chunk(self, pending: Sequence[OffsetRange], limit: int) -> tuple[OffsetRange, ...]:
        """Return the earliest pending records, at most `limit` offsets. Records with equal times may be left out."""
        if _records(pending) <= limit:
            return tuple(pending)
        before, behind = self._bounds(pending, limit)
        best = self._until(pending, before)
        # A half-full batch is good enough: more queries would take longer.
        while behind - before > 1 and _records(best) < max(1, limit // 2):
            middle = (before + behind) // 2
            candidate = self._until(pending, middle)
            if _records(candidate) > limit:
                behind = middle
            else:
                before, best = middle, candidate
        self._step_ms = max(1, before - self._reached_ms) if self._reached_ms else _FIRST_STEP_MS
        self._reached_ms = before
        return best if _records(best) else chunk(self._until(pending, behind), limit)

    def _bounds(self, pending: Sequence[OffsetRange], limit: int) -> tuple[int, int]:
        before, step = self._reached_ms, self._step_ms
        if _records(self._until(pending, before)) > limit:
            # Records were added that are earlier than records which were already read.
            return 0, before
        while True:
            behind = min(before + step, _LATEST_MS)
            if behind == _LATEST_MS or _records(self._until(pending, behind)) > limit:
                return before, behind
            before, step = behind, 2 * step

    def _until(self, pending: Sequence[OffsetRange], time_ms: int) -> tuple[OffsetRange, ...]:
        offsets = self._first_offsets(pending, time_ms)
        return tuple(replace(each, end=min(each.end, max(each.start, offsets[each.at]))) for each in pending)


def _records(ranges: Sequence[OffsetRange]) -> int:
    return sum(each.offsets for each in ranges)


RECORDS_PER_TASK = 20_000
"""The minimum number of records per task. With fewer records, starting a task takes longer than reading."""


def read_records(
    session: SparkSession, source: KafkaSource, schema: StructType, ranges: Sequence[OffsetRange]
) -> DataFrame:
    """Return the rows of records; with event time, also the index of their partition in `ranges`."""
    cores = max(1, session.sparkContext.defaultParallelism)
    records = sum(each.offsets for each in ranges)
    tasks = dealt(ranges, min(cores, max(1, -(-records // RECORDS_PER_TASK))))
    columns = _needed(source)
    work = ReadRecords(
        cluster=source.cluster, tasks=tasks, columns=columns, places={each.at: n for n, each in enumerate(ranges)}
    )
    raw = ", ".join(f"{quoted(name)} {_TYPES[name]}" for name in columns)
    numbers = session.range(0, len(tasks), 1, max(1, len(tasks)))
    of_values = StructType([field for field in schema if field.name not in source.metadata])
    decoded = source.value_format.decoded(numbers.mapInArrow(work, raw), of_values)
    marks = (IS_CORRUPT,) if source.counts_corrupt else ()
    partition = () if source.event_time is None else (PARTITION,)
    return decoded.select(*map(quoted, schema.names), *partition, *marks)


def _needed(source: KafkaSource) -> tuple[str, ...]:
    # Errors name a corrupt record by its partition and offset.
    where = () if source.value_format.on_corrupt in (None, "skip") else ("topic", "partition", "offset")
    partition = () if source.event_time is None else (PARTITION,)
    return tuple(dict.fromkeys(("value", *source.metadata, *where, *partition)))


_TYPES = {**METADATA, "value": "binary", PARTITION: "int"}
