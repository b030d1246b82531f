"""OffsetsInitializer: where a source begins to read each partition, or ends (Flink's class of this name)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self

from flykka.spark_bridge.connectors.kafka.ranges import TopicPartition
from flykka.spark_bridge.program.source import checked_millis


class OffsetResetStrategy(StrEnum):
    """The offset to begin at if the group has committed none (Kafka's strategies)."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


class OffsetKind(StrEnum):
    """The ways to find an offset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"
    TIMESTAMP = "timestamp"
    OFFSETS = "offsets"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsInitializer:
    """Offsets that are known when the broker was asked; made by the class methods."""

    kind: OffsetKind
    reset: OffsetResetStrategy = OffsetResetStrategy.NONE
    timestamp_ms: int = 0
    given: tuple[tuple[TopicPartition, int], ...] = ()

    @classmethod
    def earliest(cls) -> Self:
        """The first record that the broker still has."""
        return cls(kind=OffsetKind.EARLIEST)

    @classmethod
    def latest(cls) -> Self:
        """Behind the last record that is there when the job begins."""
        return cls(kind=OffsetKind.LATEST)

    @classmethod
    def committed_offsets(cls, reset: OffsetResetStrategy | str = OffsetResetStrategy.NONE) -> Self:
        """The offsets that the group has committed; where it has none, as `reset` says, or the job fails.

        Raises:
            ValueError: this is none of Kafka's strategies.
        """
        return cls(kind=OffsetKind.COMMITTED, reset=OffsetResetStrategy(reset))

    @classmethod
    def timestamp(cls, timestamp: datetime | int) -> Self:
        """The first record with this time (ms since the epoch, or a datetime with its zone) or a later one."""
        return cls(kind=OffsetKind.TIMESTAMP, timestamp_ms=checked_millis(timestamp))

    @classmethod
    def offsets(
        cls,
        offsets: Mapping[tuple[str, int], int],
        reset: OffsetResetStrategy | str = OffsetResetStrategy.EARLIEST,
    ) -> Self:
        """These offsets, by topic and partition; of other partitions as `reset` says.

        Raises:
            ValueError: an offset is negative, or this is none of Kafka's strategies.
        """
        negative = [key for key, offset in offsets.items() if offset < 0]
        if negative:
            raise ValueError(f"offsets are 0 or more, not {offsets[negative[0]]} as of partition {negative[0]}")
        given = tuple(sorted((TopicPartition(*key), offset) for key, offset in offsets.items()))
        return cls(kind=OffsetKind.OFFSETS, reset=OffsetResetStrategy(reset), given=given)

    def __str__(self) -> str:
        return self.kind.value
