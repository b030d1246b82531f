"""Effects of the barriers of a task's channels, and the base of both barrier handlers.

Barriers, cancel markers, announcements and ends of channels go in; what comes out says that the task is to snapshot,
that a checkpoint is not going to happen, which channels are not to be read meanwhile, and from when to when what
arrives is state of the checkpoint. Data does not come here: a blocked channel keeps its data in its queue. Channels are
numbered across all gates of the task.

`BarrierAligner` is exactly-once, `BarrierTracker` at-least-once. What the end of a channel means is as in Flink 1.14
(`COUNTS_AS_BARRIER`) or before it (`ABORTS`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from flykka.actors.machines.effects import StartTimer
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from flykka.messages.tasks.exchange import (
    AlignmentTimeoutDue,
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfPartition,
)


class EndOfPartitionMode(Enum):
    """The meaning of a channel's end to a checkpoint that waits for its barrier."""

    COUNTS_AS_BARRIER = "counts as barrier"
    ABORTS = "aborts"


@dataclass(frozen=True, slots=True, kw_only=True)
class BarrierAnnouncement:
    """A barrier that may time out is in the channel, behind data that is not yet read (Flink's EventAnnouncement)."""

    barrier: CheckpointBarrier


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortCheckpointOnBarrier:
    """The checkpoint is not going to happen here: decline it, and send a cancel marker on."""

    checkpoint_id: int
    reason: CheckpointDeclineReason


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockChannel:
    """Do not read from the channel."""

    channel: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnblockAllChannels:
    """Read from all channels again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPersisting:
    """Persist the batches that are, or still come, before the barrier in the channels: state of the checkpoint."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StopPersisting:
    """Nothing more is state of the checkpoint: all barriers are here, or where not `is_complete` it was given up."""

    checkpoint_id: int
    is_complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PrioritizeBarrier:
    """The barrier that was announced in the channel is to be read before the data that it waits behind."""

    channel: int
    checkpoint_id: int


BarrierAction = (
    CheckpointBarrier
    | AbortCheckpointOnBarrier
    | BlockChannel
    | UnblockAllChannels
    | StartPersisting
    | StopPersisting
    | PrioritizeBarrier
    | StartTimer
)
"""A barrier that comes out of the handler: take the snapshot now, and send the barrier on."""
BarrierEvent = CheckpointBarrier | CancelCheckpointMarker | EndOfPartition | BarrierAnnouncement


def alignment_timer(barrier: CheckpointBarrier, now_ms: int) -> StartTimer:
    """The timer of the alignment. One is enough: barriers of a newer checkpoint end the alignment of the older one."""
    timeout = AlignmentTimeoutDue(checkpoint_id=barrier.checkpoint_id)
    return StartTimer(key="alignment", delay_ms=barrier.remaining_ms(now_ms), message=timeout)


class CheckpointBarrierHandler(ABC):
    """The base of both handlers: the open channels, and the newest checkpoint heard of.

    `alignment_start_ms` is that of the barrier that came out last: when its first barrier came in.
    """

    __slots__ = ("_end_of_partition", "_open", "alignment_start_ms", "latest_checkpoint_id")

    def __init__(
        self, channels: int, end_of_partition: EndOfPartitionMode = EndOfPartitionMode.COUNTS_AS_BARRIER
    ) -> None:
        self.latest_checkpoint_id = -1
        self.alignment_start_ms = 0
        self._open = set(range(channels))
        self._end_of_partition = end_of_partition

    @property
    def open_channels(self) -> int:
        return len(self._open)

    @property
    @abstractmethod
    def pending_checkpoints(self) -> tuple[int, ...]:
        """Checkpoints that some channels have delivered the barrier of, and others not."""

    @property
    @abstractmethod
    def missing_channels(self) -> frozenset[int]:
        """Open channels that have not delivered the barrier of the newest of these."""

    @property
    def blocked_channels(self) -> frozenset[int]:
        return frozenset()

    def handle(self, channel: int, event: BarrierEvent, now_ms: int) -> list[BarrierAction]:
        """Note what was read from `channel`; the actions are to be performed before the next element is read."""
        assert channel in self._open, f"channel {channel} has ended"
        match event:
            case CheckpointBarrier():
                return self._on_barrier(channel, event, now_ms)
            case BarrierAnnouncement(barrier=barrier):
                return self._on_announcement(channel, barrier, now_ms)
            case CancelCheckpointMarker(checkpoint_id=checkpoint_id):
                return self._on_cancel_marker(channel, checkpoint_id)
            case EndOfPartition():
                self._open.remove(channel)
                return self._on_end_of_partition(channel)
            case _:
                assert_never(event)

    @abstractmethod
    def time_out(self, checkpoint_id: int) -> list[BarrierAction]:
        """The alignment of the checkpoint has timed out."""

    @abstractmethod
    def check(self) -> None:
        """Assert the invariants."""

    def _trigger(self, barrier: CheckpointBarrier, alignment_start_ms: int) -> CheckpointBarrier:
        self.alignment_start_ms = alignment_start_ms
        return barrier

    @abstractmethod
    def _on_barrier(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> list[BarrierAction]: ...

    @abstractmethod
    def _on_announcement(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> list[BarrierAction]: ...

    @abstractmethod
    def _on_cancel_marker(self, channel: int, checkpoint_id: int) -> list[BarrierAction]: ...

    @abstractmethod
    def _on_end_of_partition(self, channel: int) -> list[BarrierAction]: ...
