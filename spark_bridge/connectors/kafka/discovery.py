"""The splits of a KafkaSource: records that have come since the last look, in portions.

The position of a look is a text of JSON: `next`, the offsets from which on nothing was found yet, by topic and
partition; `end`, those before which a bounded source ends; `ids`, those of the topics; and how many splits there were.
Partitions that appear while the job runs are read from their beginning: all that is in them has come since.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flykka.messages.tasks.source import SplitsDiscovered
from flykka.spark_bridge.connectors.kafka.client import OffsetReader
from flykka.spark_bridge.connectors.kafka.offsets import OffsetKind, OffsetResetStrategy, OffsetsInitializer
from flykka.spark_bridge.connectors.kafka.ranges import OffsetRange, TopicPartition, chunk, offset_split, read, written
from flykka.spark_bridge.connectors.kafka.time_order import TimeOrder
from flykka.spark_bridge.errors import EmptySourceError, ReplacedTopicError, SourceError
from flykka.spark_bridge.program.source import SPLITS_PER_LOOK

if TYPE_CHECKING:
    from flykka.messages.tasks.source import SerializedSplit
    from flykka.messages.wire.ids import OperatorId
    from flykka.spark_bridge.connectors.kafka.source_settings import KafkaSourceSettings

RECORDS_PER_SPLIT = 50_000
_RATE_INTERVAL_MS = 100
_LOOKS_PER_SECOND_MAX = 50


@dataclass(slots=True)
class _Position:
    next: dict[TopicPartition, int] = field(default_factory=dict)
    end: dict[TopicPartition, int] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    splits: int = 0
    begun: bool = False

    @classmethod
    def of(cls, position: bytes) -> _Position:
        if not position:
            return cls()
        try:
            given: Mapping[str, Any] = json.loads(position)
            return cls(
                next=read(given["next"]),
                end=read(given["end"]),
                # Checkpoints of earlier versions have none.
                ids=dict(given.get("ids", {})),
                splits=given["splits"],
                begun=True,
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            raise SourceError(f"the checkpoint's position {position!r} is none of a Kafka source") from None

    def encoded(self) -> bytes:
        content = {"next": written(self.next), "end": written(self.end), "ids": self.ids, "splits": self.splits}
        return json.dumps(content).encode()


class KafkaSplitDiscovery:
    """Asks the cluster for new records. Used by one call at a time, but for `changed`."""

    def __init__(
        self, source: KafkaSourceSettings, operator_id: OperatorId, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` gives seconds."""
        self._source = source
        self._operator_id = operator_id
        self._clock = clock
        self._offsets = OffsetReader(source.cluster, source.group)
        self._chunk = TimeOrder(self._offsets.first_at_time).chunk if source.aligns_partitions else chunk
        self._partitions_of_s: float | None = None
        self._counted: tuple[float, int] | None = None
        self._seen: dict[TopicPartition, int] = {}
        self._looked_s = 0.0
        self.interval_ms: int | None = source.discovery_interval_ms if source.rate is None else _RATE_INTERVAL_MS
        self.changed: Callable[[], bool] | None = self._changed if source.rate is None else None

    def discover(self, position: bytes) -> SplitsDiscovered:
        """The records that are there and were not found before.

        Raises:
            SourceError: the cluster does not answer, records are gone that were not read, or there is no such topic.
        """
        at = _Position.of(position)
        self._find_partitions(at)
        self._seen = self._offsets.behind_last(at.next)
        for each, end in self._seen.items():
            if end < at.next[each]:
                raise SourceError(
                    f"{each} ends at offset {end}, but was read up to {at.next[each]}: was the topic deleted and made"
                    " again?"
                )
        pending = [
            OffsetRange(at=each, start=start, end=max(start, min(self._seen[each], at.end.get(each, self._seen[each]))))
            for each, start in sorted(at.next.items())
        ]
        splits, left = self._splits(pending, at)
        reached = {each.at: each.start for each in left}
        is_over = self._source.is_bounded and all(reached[each] >= end for each, end in at.end.items())
        if is_over:
            # No later look would see that the last records are those of another topic.
            self._check_ids(at, {each.topic for each in reached})
        at.next = reached
        return SplitsDiscovered(
            operator_id=self._operator_id,
            splits=tuple(splits),
            finished=is_over,
            begun_at=position,
            position=at.encoded(),
            more=not is_over and self._source.rate is None and any(each.offsets for each in left),
        )

    def close(self) -> None:
        self._offsets.close()

    def _splits(self, pending: list[OffsetRange], at: _Position) -> tuple[list[SerializedSplit], list[OffsetRange]]:
        splits: list[SerializedSplit] = []
        room = self._due()
        while room and len(splits) < SPLITS_PER_LOOK and any(each.offsets for each in pending):
            taken = self._chunk(pending, min(RECORDS_PER_SPLIT, room))
            ends = {each.at: each.end for each in taken}
            splits.append(offset_split(at.splits, taken))
            at.splits += 1
            room = max(0, room - splits[-1].rows)
            pending = [OffsetRange(at=each.at, start=ends[each.at], end=each.end) for each in pending]
        self._spend(splits)
        return splits, pending

    def _due(self) -> int:
        """The number of records that the rate allows now; time begins to count with the first look."""
        rate = self._source.rate
        if rate is None:
            return RECORDS_PER_SPLIT * SPLITS_PER_LOOK
        now = self._clock()
        if self._counted is None:
            self._counted = now, 0
        since, taken = self._counted
        return max(0, round((now - since) * rate) - taken)

    def _spend(self, splits: Iterable[SerializedSplit]) -> None:
        if self._counted is not None:
            since, taken = self._counted
            self._counted = since, taken + sum(split.rows for split in splits)

    def _changed(self) -> bool:
        """True if there are records behind those that the last look has seen. The cluster is not asked all the time."""
        now = self._clock()
        if not self._seen or now - self._looked_s < 1 / _LOOKS_PER_SECOND_MAX:
            return False
        self._looked_s = now
        try:
            return any(self._offsets.bounds(each)[1] > seen for each, seen in list(self._seen.items()))
        except SourceError:
            # The look tells of it.
            return True

    # Partitions

    def _find_partitions(self, at: _Position) -> None:
        now = self._clock()
        interval_s = self._source.discovery_interval_ms / 1000
        if self._partitions_of_s is not None and now - self._partitions_of_s < interval_s and at.begun:
            return
        self._partitions_of_s = now
        there = self._offsets.partitions(self._topics())
        missing = [topic for topic in self._source.topics if all(each.topic != topic for each in there)]
        if missing or (not there and self._source.is_bounded):
            named = ", ".join(missing) or f"that matches {self._source.pattern}"
            raise EmptySourceError(f"there is no topic {named} at {self._source.cluster.bootstrap_servers}")
        self._check_ids(at, {each.topic for each in there})
        new = [each for each in there if each not in at.next]
        if not new or (at.begun and self._source.is_bounded):
            return
        if at.begun:
            at.next |= {each: self._offsets.bounds(each)[0] for each in new}
            return
        at.next |= self._initial(self._source.starting, new)
        if self._source.stopping is not None:
            at.end |= self._initial(self._source.stopping, new)

    def _check_ids(self, at: _Position, topics: set[str]) -> None:
        """Note the ids of topics that are read. Raises `ReplacedTopicError` where one has another id than before."""
        ids = self._offsets.ids(topics) if topics else {}
        for topic, known in at.ids.items():
            if ids.get(topic, known) != known:
                read_up_to = ", ".join(
                    f"{each} up to offset {at.next[each]}" for each in at.next if each.topic == topic
                )
                raise ReplacedTopicError(
                    f"the topic {topic} at {self._source.cluster.bootstrap_servers} was deleted and made again since"
                    f" it was read ({read_up_to}): begin without the checkpoint to read the new one"
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
                known = self._offsets.committed(partitions)
            case OffsetKind.OFFSETS:
                known = {at: offset for at, offset in initializer.given if at in partitions}
            case _:
                known = {}
        reset = {OffsetKind.EARLIEST: OffsetResetStrategy.EARLIEST, OffsetKind.LATEST: OffsetResetStrategy.LATEST}.get(
            initializer.kind, initializer.reset
        )
        others = [each for each in partitions if each not in known]
        if others and reset is OffsetResetStrategy.NONE:
            raise SourceError(
                f"the group {self._source.group!r} has committed no offset of {others[0]}: say where to begin then, as"
                " in OffsetsInitializer.committed_offsets('earliest')"
            )
        side = 0 if reset is OffsetResetStrategy.EARLIEST else 1
        return known | {each: self._offsets.bounds(each)[side] for each in others}
