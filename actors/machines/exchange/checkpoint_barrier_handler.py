"""The barrier handlers: decide how a task reacts to the barriers of its channels.

The input is barriers, cancel markers, announcements and ends of channels. The actions are: take a snapshot, abandon a
checkpoint, block or unblock channels, and start or stop to persist arriving batches as state of the checkpoint. Data
does not pass through here: a blocked channel keeps its data in its queue. Channels are numbered across all gates of the
task.

`BarrierAligner` is exactly-once, `BarrierTracker` at-least-once. The end of a channel is handled as in Flink 1.14
(`COUNTS_AS_BARRIER`) or as in earlier versions (`ABORTS`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass, field
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
from flykka.messages.wire.tags import trace_tag


class EndOfPartitionMode(Enum):
    """The meaning of a channel's end for a checkpoint that waits for the channel's barrier."""

    COUNTS_AS_BARRIER = "counts as barrier"
    ABORTS = "aborts"


@dataclass(frozen=True, slots=True, kw_only=True)
class BarrierAnnouncement:
    """A barrier that may time out is in the channel, after data that was not yet read (Flink's EventAnnouncement)."""

    barrier: CheckpointBarrier


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortCheckpointOnBarrier:
    """Decline the checkpoint, which cannot complete here, and send a cancel marker downstream."""

    checkpoint_id: int
    reason: CheckpointDeclineReason


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockChannel:
    channel: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnblockAllChannels:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPersisting:
    """Persist the batches in the channels, and those that arrive before the barrier, as state of the checkpoint."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StopPersisting:
    """Stop persisting batches: all barriers have arrived or, if not `is_complete`, the checkpoint was abandoned."""

    checkpoint_id: int
    is_complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PrioritizeBarrier:
    """Read the announced barrier of the channel before the data ahead of it."""

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
BarrierEvent = CheckpointBarrier | CancelCheckpointMarker | EndOfPartition | BarrierAnnouncement


def alignment_timer(barrier: CheckpointBarrier, now_ms: int) -> StartTimer:
    """Return the timer of the alignment. One is enough: barriers of a newer checkpoint end the older alignment."""
    timeout = AlignmentTimeoutDue(checkpoint_id=barrier.checkpoint_id)
    return StartTimer(key="alignment", delay_ms=barrier.remaining_ms(now_ms), message=timeout)


class CheckpointBarrierHandler(ABC):
    """The base of both handlers: the open channels, and the newest checkpoint whose barrier or marker has arrived.

    `alignment_start_ms` is the time at which the first barrier of the last returned checkpoint arrived.
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
        """The checkpoints whose barrier has arrived on some channels, but not on all."""

    @property
    @abstractmethod
    def missing_channels(self) -> frozenset[int]:
        """The open channels that have not delivered the barrier of the newest pending checkpoint."""

    @property
    def blocked_channels(self) -> frozenset[int]:
        return frozenset()

    def handle(self, channel: int, event: BarrierEvent, now_ms: int) -> list[BarrierAction]:
        """Handle an event read from `channel`. The caller performs the actions before it reads the next element."""
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
    def time_out(self, checkpoint_id: int) -> list[BarrierAction]: ...

    @abstractmethod
    def check(self) -> None: ...

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


MAX_CHECKPOINTS_TO_TRACK = 50


@trace_tag("state.tracked_checkpoint")
@dataclass(slots=True)
class _Pending:
    barrier: CheckpointBarrier
    start_ms: int
    arrived: set[int] = field(default_factory=set)
    is_aborted: bool = False


class BarrierTracker(CheckpointBarrierHandler):
    """At-least-once handling: barriers are counted, and no channel is blocked (Flink's CheckpointBarrierTracker)."""

    def __init__(
        self, channels: int, end_of_partition: EndOfPartitionMode = EndOfPartitionMode.COUNTS_AS_BARRIER
    ) -> None:
        super().__init__(channels, end_of_partition)
        self._pending: OrderedDict[int, _Pending] = OrderedDict()

    @property
    def pending_checkpoints(self) -> tuple[int, ...]:
        """The counted checkpoints, oldest first, including aborted checkpoints whose barriers may still arrive."""
        return tuple(self._pending)

    @property
    def missing_channels(self) -> frozenset[int]:
        newest = next(reversed(self._pending.values()), None)
        return frozenset() if newest is None else frozenset(self._open - newest.arrived)

    def check(self) -> None:
        ids = list(self._pending)
        assert ids == sorted(ids)
        assert len(ids) <= MAX_CHECKPOINTS_TO_TRACK
        assert not ids or ids[-1] <= self.latest_checkpoint_id
        assert all(pending.arrived < self._open for pending in self._pending.values())

    def time_out(self, checkpoint_id: int) -> list[BarrierAction]:
        return []

    def _on_barrier(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> list[BarrierAction]:
        pending = self._pending.get(barrier.checkpoint_id)
        if pending is None:
            if barrier.checkpoint_id <= self.latest_checkpoint_id:
                return []
            pending = self._track(_Pending(barrier=barrier, start_ms=now_ms))
        return self._count(channel, pending)

    def _on_announcement(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> list[BarrierAction]:
        # The barrier counts when it is read.
        return []

    def _on_cancel_marker(self, channel: int, checkpoint_id: int) -> list[BarrierAction]:
        actions: list[BarrierAction] = []
        for older in [pending_id for pending_id in self._pending if pending_id < checkpoint_id]:
            actions += self._abort(self._pending.pop(older), CheckpointDeclineReason.CANCELLATION_BARRIER)
        pending = self._pending.get(checkpoint_id)
        if pending is None:
            if checkpoint_id <= self.latest_checkpoint_id:
                return actions
            # The checkpoint is recorded as aborted, so that late barriers do not begin it.
            pending = self._track(
                _Pending(barrier=CheckpointBarrier(checkpoint_id=checkpoint_id, timestamp_ms=0), start_ms=0)
            )
        actions += self._abort(pending, CheckpointDeclineReason.CANCELLATION_BARRIER)
        return actions + self._count(channel, pending)

    def _on_end_of_partition(self, channel: int) -> list[BarrierAction]:
        if self._end_of_partition is EndOfPartitionMode.ABORTS:
            reason = CheckpointDeclineReason.INPUT_END_OF_STREAM
            actions = [action for pending in self._pending.values() for action in self._abort(pending, reason)]
            self._pending.clear()
            return actions
        for pending in self._pending.values():
            pending.arrived.discard(channel)
        complete = [pending for pending in self._pending.values() if len(pending.arrived) == len(self._open)]
        return self._complete(complete[-1]) if complete else []

    def _track(self, pending: _Pending) -> _Pending:
        self.latest_checkpoint_id = pending.barrier.checkpoint_id
        self._pending[pending.barrier.checkpoint_id] = pending
        if len(self._pending) > MAX_CHECKPOINTS_TO_TRACK:
            self._pending.popitem(last=False)
        return pending

    def _count(self, channel: int, pending: _Pending) -> list[BarrierAction]:
        pending.arrived.add(channel)
        return self._complete(pending) if len(pending.arrived) == len(self._open) else []

    def _complete(self, pending: _Pending) -> list[BarrierAction]:
        # Older checkpoints are subsumed without an action: once this one completes, the coordinator no longer waits
        # for them.
        for older in [pending_id for pending_id in self._pending if pending_id <= pending.barrier.checkpoint_id]:
            del self._pending[older]
        return [] if pending.is_aborted else [self._trigger(pending.barrier, pending.start_ms)]

    def _abort(self, pending: _Pending, reason: CheckpointDeclineReason) -> list[BarrierAction]:
        if pending.is_aborted:
            return []
        pending.is_aborted = True
        return [AbortCheckpointOnBarrier(checkpoint_id=pending.barrier.checkpoint_id, reason=reason)]


@dataclass(slots=True)
class _Alignment:
    """A checkpoint that is aligning. `missing` channels have neither delivered its barrier nor ended."""

    barrier: CheckpointBarrier
    missing: set[int]
    start_ms: int
    has_begun: bool = False
    blocked: set[int] = field(default_factory=set)
    announced: set[int] = field(default_factory=set)
    is_unaligned: bool = False
    is_triggered: bool = False

    @property
    def checkpoint_id(self) -> int:
        return self.barrier.checkpoint_id


class BarrierAligner(CheckpointBarrierHandler):
    """Exactly-once handling: aligns only the newest checkpoint (Flink's SingleCheckpointBarrierHandler).

    An aligned checkpoint is taken when the barriers of all channels have arrived, and a channel that has delivered its
    barrier is blocked until then. An unaligned checkpoint is taken at its first barrier: no channel is blocked, and the
    batches before the other barriers are persisted. Aligned barriers that may time out are announced ahead of the data;
    after the timeout, a checkpoint that began aligned continues unaligned:

        first barrier or announcement -> aligned ---------------- last barrier -> snapshot
                                            | timeout, or an unaligned barrier
                                            v
                                          unaligned: snapshot ---- last barrier -> channel state complete
    """

    __slots__ = ("_alignment",)

    def __init__(
        self,
        channels: int,
        end_of_partition: EndOfPartitionMode = EndOfPartitionMode.COUNTS_AS_BARRIER,
    ) -> None:
        super().__init__(channels, end_of_partition)
        self._alignment: _Alignment | None = None

    @property
    def pending_checkpoints(self) -> tuple[int, ...]:
        return () if self._alignment is None else (self._alignment.checkpoint_id,)

    @property
    def missing_channels(self) -> frozenset[int]:
        return frozenset() if self._alignment is None else frozenset(self._alignment.missing)

    @property
    def blocked_channels(self) -> frozenset[int]:
        return frozenset() if self._alignment is None else frozenset(self._alignment.blocked)

    def check(self) -> None:
        if (alignment := self._alignment) is not None:
            assert alignment.missing, "no channel of the alignment is missing, but it has not ended"
            assert alignment.missing <= self._open
            assert not alignment.blocked & alignment.missing
            assert not (alignment.blocked and alignment.is_unaligned)
            assert alignment.is_unaligned or not alignment.is_triggered
            assert alignment.checkpoint_id == self.latest_checkpoint_id

    def time_out(self, checkpoint_id: int) -> list[BarrierAction]:
        alignment = self._alignment
        if alignment is None or alignment.checkpoint_id != checkpoint_id or alignment.is_unaligned:
            return []
        return self._go_unaligned(alignment)

    def _on_barrier(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> list[BarrierAction]:
        actions, alignment = self._join(barrier, now_ms)
        if alignment is None or channel not in alignment.missing:
            assert alignment is None or channel not in alignment.blocked, (
                f"channel {channel} was read although it is blocked"
            )
            return actions
        alignment.missing.remove(channel)
        alignment.announced.discard(channel)
        if not alignment.has_begun:
            # The announcement may have arrived long before.
            alignment.has_begun, alignment.start_ms = True, now_ms
        if barrier.is_unaligned and not alignment.is_unaligned:
            actions += self._go_unaligned(alignment)
        if alignment.is_unaligned:
            actions += self._trigger_unaligned(alignment)
        elif alignment.missing:
            alignment.blocked.add(channel)
            actions.append(BlockChannel(channel=channel))
            if barrier.may_time_out and barrier.remaining_ms(now_ms) == 0:
                actions += self._go_unaligned(alignment)
        return actions + self._complete(alignment)

    def _on_announcement(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> list[BarrierAction]:
        actions, alignment = self._join(barrier, now_ms)
        if alignment is not None and channel in alignment.missing:
            if alignment.is_unaligned:
                actions.append(PrioritizeBarrier(channel=channel, checkpoint_id=alignment.checkpoint_id))
            else:
                alignment.announced.add(channel)
        return actions

    def _on_cancel_marker(self, channel: int, checkpoint_id: int) -> list[BarrierAction]:
        # Older checkpoints end too, without an action, because the remaining elements of this channel follow their
        # barriers.
        if checkpoint_id <= self.latest_checkpoint_id and self.pending_checkpoints != (checkpoint_id,):
            return []
        self.latest_checkpoint_id = checkpoint_id
        return self._abort(checkpoint_id, CheckpointDeclineReason.CANCELLATION_BARRIER)

    def _on_end_of_partition(self, channel: int) -> list[BarrierAction]:
        alignment = self._alignment
        if alignment is None:
            return []
        if self._end_of_partition is EndOfPartitionMode.ABORTS:
            return self._abort(alignment.checkpoint_id, CheckpointDeclineReason.INPUT_END_OF_STREAM)
        alignment.missing.discard(channel)
        alignment.announced.discard(channel)
        return self._complete(alignment)

    def _join(self, barrier: CheckpointBarrier, now_ms: int) -> tuple[list[BarrierAction], _Alignment | None]:
        """Return the alignment of a barrier, creating it for a new checkpoint, or `None` for a stale barrier."""
        alignment = self._alignment
        if alignment is not None and alignment.checkpoint_id == barrier.checkpoint_id:
            return [], alignment
        if barrier.checkpoint_id <= self.latest_checkpoint_id:
            # The checkpoint was subsumed, cancelled or taken.
            return [], None
        actions: list[BarrierAction] = []
        if alignment is not None:
            actions += self._abort(alignment.checkpoint_id, CheckpointDeclineReason.SUBSUMED)
        self.latest_checkpoint_id = barrier.checkpoint_id
        self._alignment = _Alignment(barrier=barrier, missing=set(self._open), start_ms=now_ms)
        if barrier.may_time_out:
            actions.append(alignment_timer(barrier, now_ms))
        return actions, self._alignment

    def _go_unaligned(self, alignment: _Alignment) -> list[BarrierAction]:
        alignment.is_unaligned = True
        actions: list[BarrierAction] = [
            PrioritizeBarrier(channel=channel, checkpoint_id=alignment.checkpoint_id)
            for channel in sorted(alignment.announced)
        ]
        alignment.announced.clear()
        if alignment.has_begun:
            actions += self._trigger_unaligned(alignment)
        if alignment.blocked:
            alignment.blocked.clear()
            actions.append(UnblockAllChannels())
        return actions

    def _trigger_unaligned(self, alignment: _Alignment) -> list[BarrierAction]:
        if alignment.is_triggered:
            return []
        alignment.is_triggered = True
        start = StartPersisting(checkpoint_id=alignment.checkpoint_id)
        return [start, self._trigger(alignment.barrier.as_unaligned(), alignment.start_ms)]

    def _complete(self, alignment: _Alignment) -> list[BarrierAction]:
        if alignment.missing:
            return []
        self._alignment = None
        if alignment.is_unaligned:
            stop = StopPersisting(checkpoint_id=alignment.checkpoint_id, is_complete=True)
            return [*self._trigger_unaligned(alignment), stop]
        trigger = self._trigger(alignment.barrier, alignment.start_ms)
        return [trigger, *([UnblockAllChannels()] if alignment.blocked else [])]

    def _abort(self, checkpoint_id: int, reason: CheckpointDeclineReason) -> list[BarrierAction]:
        alignment, self._alignment = self._alignment, None
        actions: list[BarrierAction] = [AbortCheckpointOnBarrier(checkpoint_id=checkpoint_id, reason=reason)]
        if alignment is not None and alignment.is_triggered:
            actions.append(StopPersisting(checkpoint_id=alignment.checkpoint_id, is_complete=False))
        if alignment is not None and alignment.blocked:
            actions.append(UnblockAllChannels())
        return actions
