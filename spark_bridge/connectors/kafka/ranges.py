"""Offset ranges: the splits of the Kafka source, and how the records of a batch are distributed over Spark tasks.

The content of a split names all partitions of the source, with an empty range for each partition that it does not read:
`{"orders": {"0": [120, 180], "1": [7, 7]}}` are the records 120 to 179 of partition 0. So the reader knows all
partitions that can hold back event time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from flykka.messages.tasks.source import SerializedSplit
from flykka.messages.wire.ids import SplitId

BYTES_PER_RECORD = 64
"""The assumed size of a record, because Kafka does not report sizes in advance. The reading time is measured later."""


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """The offsets `start` to `end` - 1 of a partition. Some of these offsets may have no record."""

    at: TopicPartition
    start: int
    end: int

    @property
    def offsets(self) -> int:
        """The number of offsets, which is an upper bound for the number of records."""
        return self.end - self.start


Offsets = Mapping[TopicPartition, int]
"""The offset of the next record, by partition."""


def offset_split(number: int, ranges: Iterable[OffsetRange]) -> SerializedSplit:
    """Return the split that reads these ranges; `number` is unique among the splits of its source."""
    content: dict[str, dict[str, list[int]]] = {}
    rows = 0
    for each in sorted(ranges, key=lambda each: each.at):
        content.setdefault(each.at.topic, {})[str(each.at.partition)] = [each.start, each.end]
        rows += each.offsets
    return SerializedSplit(
        split_id=SplitId(f"{number}+{rows}"),
        rows=rows,
        content=json.dumps(content),
        size_bytes=rows * BYTES_PER_RECORD,
    )


def ranges_of(splits: Iterable[SerializedSplit]) -> tuple[OffsetRange, ...]:
    """Return the ranges that splits of one batch read together, one per partition. The splits must be consecutive."""
    joined: dict[TopicPartition, OffsetRange] = {}
    for split in splits:
        for topic, partitions in json.loads(split.content).items():
            for number, (start, end) in partitions.items():
                at = TopicPartition(topic, int(number))
                before = joined.get(at)
                first = start if before is None or not before.offsets else before.start
                joined[at] = OffsetRange(at=at, start=first, end=end)
    return tuple(joined[at] for at in sorted(joined))


def written(offsets: Offsets) -> dict[str, dict[str, int]]:
    result: dict[str, dict[str, int]] = {}
    for at in sorted(offsets):
        result.setdefault(at.topic, {})[str(at.partition)] = offsets[at]
    return result


def read(offsets: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(number)): offset
        for topic, partitions in offsets.items()
        for number, offset in partitions.items()
    }


def chunk(pending: Sequence[OffsetRange], limit: int) -> tuple[OffsetRange, ...]:
    """Return about `limit` pending offsets, with a share for each partition, so that no partition falls behind."""
    total = sum(each.offsets for each in pending)
    if total <= limit:
        return tuple(pending)
    return tuple(replace(each, end=each.start + -(-each.offsets * limit // total)) for each in pending)


def dealt(ranges: Sequence[OffsetRange], tasks: int) -> list[list[OffsetRange]]:
    """Distribute ranges to at most `tasks` tasks, with about as many offsets each. Long ranges are divided."""
    total = sum(each.offsets for each in ranges)
    share = max(1, -(-total // tasks))
    result: list[list[OffsetRange]] = [[]]
    room = share
    for each in ranges:
        start = each.start
        while start < each.end:
            if not room:
                result.append([])
                room = share
            end = min(each.end, start + room)
            result[-1].append(replace(each, start=start, end=end))
            room -= end - start
            start = end
    return [part for part in result if part]
