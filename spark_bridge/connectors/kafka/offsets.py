"""OffsetsInitializer (as in Flink): the offset at which a source starts or stops reading each partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self

from flykka.spark_bridge.connectors.kafka.ranges import TopicPartition
from flykka.spark_bridge.program.source import checked_millis


class OffsetResetStrategy(StrEnum):
    """The offset at which to start if the group has committed no offset (Kafka's strategies)."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


class OffsetKind(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"
    TIMESTAMP = "timestamp"
    OFFSETS = "offsets"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsInitializer:
    """A rule for offsets, which is resolved with the broker. Created by the class methods."""

    kind: OffsetKind
    reset: OffsetResetStrategy = OffsetResetStrategy.NONE
    timestamp_ms: int = 0
    partition_offsets: tuple[tuple[TopicPartition, int], ...] = ()

    @classmethod
    def earliest(cls) -> Self:
        """Start at the first record that the broker still has."""
        return cls(kind=OffsetKind.EARLIEST)

    @classmethod
    def latest(cls) -> Self:
        """Start after the last record that exists when the job starts."""
        return cls(kind=OffsetKind.LATEST)

    @classmethod
    def committed_offsets(cls, reset: OffsetResetStrategy | str = OffsetResetStrategy.NONE) -> Self:
        """Start at the offsets that the group has committed. Without a committed offset, use the strategy `reset`, or
        fail.

        Raises:
            ValueError: `reset` is not one of Kafka's strategies.
        """
        return cls(kind=OffsetKind.COMMITTED, reset=OffsetResetStrategy(reset))

    @classmethod
    def timestamp(cls, timestamp: datetime | int) -> Self:
        """Start at the first record at or after this time (ms since the epoch, or a datetime with a time zone)."""
        return cls(kind=OffsetKind.TIMESTAMP, timestamp_ms=checked_millis(timestamp))

    @classmethod
    def offsets(
        cls,
        offsets: Mapping[tuple[str, int], int],
        reset: OffsetResetStrategy | str = OffsetResetStrategy.EARLIEST,
    ) -> Self:
        """Start at these offsets, by topic and partition. Other partitions use the strategy `reset`.

        Raises:
            ValueError: an offset is negative, or `reset` is not one of Kafka's strategies.
        """
        negative = [key for key, offset in offsets.items() if offset < 0]
        if negative:
            raise ValueError(f"offsets must be 0 or more, not {offsets[negative[0]]} for partition {negative[0]}")
        partition_offsets = tuple(sorted((TopicPartition(*key), offset) for key, offset in offsets.items()))
        return cls(kind=OffsetKind.OFFSETS, reset=OffsetResetStrategy(reset), partition_offsets=partition_offsets)

    def __str__(self) -> str:
        return self.kind.value
