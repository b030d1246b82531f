"""When the barriers of a task's channels make a checkpoint of the task.

Decides, from barriers, cancel markers and ends of channels, that the task is to snapshot, that a checkpoint is not
going to happen, and which channels are not to be read meanwhile. Data does not come here: a blocked channel keeps its
data in its queue. Channels are numbered across all gates of the task.

`BarrierAligner` is exactly-once: a channel that has delivered the barrier is blocked until all others have.
`BarrierTracker` is at-least-once: it counts, and holds nothing back. They follow Flink's CheckpointBarrierAligner and
CheckpointBarrierTracker, the end of a channel as in Flink 1.14 (`COUNTS_AS_BARRIER`) or before it (`ABORTS`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum
from typing import assert_never

from flykka.messages.checkpoint import CheckpointDeclineReason
from flykka.messages.exchange import CancelCheckpointMarker, CheckpointBarrier, EndOfPartition

MAX_CHECKPOINTS_TO_TRACK = 50


class EndOfPartitionMode(Enum):
    """What the end of a channel means to a checkpoint that waits for its barrier."""

    COUNTS_AS_BARRIER = "counts as barrier"
    ABORTS = "aborts"


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerCheckpointOnBarrier:
    """Snapshot now, and send the barrier on; the alignment began at `alignment_start_ms`."""

    barrier: CheckpointBarrier
    alignment_start_ms: int


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


BarrierAction = TriggerCheckpointOnBarrier | AbortCheckpointOnBarrier | BlockChannel | UnblockAllChannels
BarrierEvent = CheckpointBarrier | CancelCheckpointMarker | EndOfPartition


class CheckpointBarrierHandler(ABC):
    """What both handlers share: which channels are open, and the newest checkpoint heard of."""

    def __init__(
        self, channels: int, end_of_partition: EndOfPartitionMode = EndOfPartitionMode.COUNTS_AS_BARRIER
    ) -> None:
        self.latest_checkpoint_id = -1
        self._open = set(range(channels))
        self._end_of_partition = end_of_partition

    @property
    def open_channels(self) -> int:
        """Channels whose end was not met."""
        return len(self._open)

    @property
    @abstractmethod
    def pending_checkpoints(self) -> tuple[int, ...]:
        """Checkpoints that some channels have delivered the barrier of, and others not."""

    def handle(self, channel: int, event: BarrierEvent, now_ms: int) -> list[BarrierAction]:
        """Note what was read from `channel`; the actions are to be performed before the next element is read."""
        assert channel in self._open, f"channel {channel} has ended"
        match event:
            case CheckpointBarrier():
                return self._on_barrier(channel, event, now_ms)
            case CancelCheckpointMarker(checkpoint_id=checkpoint_id):
                return self._on_cancel_marker(channel, checkpoint_id)
            case EndOfPartition():
                self._open.remove(channel)
                return self._on_end_of_partition(channel)
            case _:
                assert_never(event)

    @abstractmethod
    def check(self) -> None:
        """Assert the invariants."""

    @abstractmethod
    def _on_barrier(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> list[BarrierAction]: ...

    @abstractmethod
    def _on_cancel_marker(self, channel: int, checkpoint_id: int) -> list[BarrierAction]: ...

    @abstractmethod
    def _on_end_of_partition(self, channel: int) -> list[BarrierAction]: ...


@dataclass(slots=True)
class _Pending:
    """A checkpoint whose barriers are being collected."""

    barrier: CheckpointBarrier
    start_ms: int
    aligned: set[int] = field(default_factory=set)
    is_aborted: bool = False

    @property
    def trigger(self) -> TriggerCheckpointOnBarrier:
        return TriggerCheckpointOnBarrier(barrier=self.barrier, alignment_start_ms=self.start_ms)


class BarrierAligner(CheckpointBarrierHandler):
    """Exactly once: at most one alignment at a time, the newest checkpoint's."""

    _alignment: _Pending | None = None

    @property
    def pending_checkpoints(self) -> tuple[int, ...]:
        """The checkpoint being aligned, if there is one."""
        return () if self._alignment is None else (self._alignment.barrier.checkpoint_id,)

    @property
    def blocked_channels(self) -> frozenset[int]:
        """Channels that are not to be read."""
        return frozenset() if self._alignment is None else frozenset(self._alignment.aligned)

    def check(self) -> None:
        """Assert that an alignment has begun, is not over, and is of the newest checkpoint."""
        if self._alignment is not None:
            assert self._alignment.aligned, "an alignment begins with a barrier"
            assert self._alignment.aligned < self._open, "an alignment of all open channels is over"
            assert self._alignment.barrier.checkpoint_id == self.latest_checkpoint_id

    def _on_barrier(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> list[BarrierAction]:
        actions: list[BarrierAction] = []
        alignment = self._alignment
        if alignment is None or barrier.checkpoint_id != alignment.barrier.checkpoint_id:
            if barrier.checkpoint_id <= self.latest_checkpoint_id:
                # Of a checkpoint that was subsumed or cancelled.
                return []
            if alignment is not None:
                actions = self._abort(alignment.barrier.checkpoint_id, CheckpointDeclineReason.SUBSUMED)
            self.latest_checkpoint_id = barrier.checkpoint_id
            alignment = self._alignment = _Pending(barrier=barrier, start_ms=now_ms)
        assert channel not in alignment.aligned, f"channel {channel} is blocked and was read"
        alignment.aligned.add(channel)
        if len(alignment.aligned) < len(self._open):
            return [*actions, BlockChannel(channel=channel)]
        return [*actions, *self._complete(alignment, was_blocked=len(alignment.aligned) > 1)]

    def _on_cancel_marker(self, channel: int, checkpoint_id: int) -> list[BarrierAction]:
        # The alignment of an older checkpoint ends as well, unsaid: what follows on this channel is behind its barrier.
        is_aligning = self.pending_checkpoints == (checkpoint_id,)
        if checkpoint_id <= self.latest_checkpoint_id and not is_aligning:
            return []
        self.latest_checkpoint_id = checkpoint_id
        return self._abort(checkpoint_id, CheckpointDeclineReason.CANCELLATION_BARRIER)

    def _on_end_of_partition(self, channel: int) -> list[BarrierAction]:
        alignment = self._alignment
        if alignment is None:
            return []
        if self._end_of_partition is EndOfPartitionMode.ABORTS:
            return self._abort(alignment.barrier.checkpoint_id, CheckpointDeclineReason.INPUT_END_OF_STREAM)
        if len(alignment.aligned) < len(self._open):
            return []
        return self._complete(alignment, was_blocked=True)

    def _complete(self, alignment: _Pending, *, was_blocked: bool) -> list[BarrierAction]:
        self._alignment = None
        return [alignment.trigger, *([UnblockAllChannels()] if was_blocked else [])]

    def _abort(self, checkpoint_id: int, reason: CheckpointDeclineReason) -> list[BarrierAction]:
        was_blocked, self._alignment = self._alignment is not None, None
        abort = AbortCheckpointOnBarrier(checkpoint_id=checkpoint_id, reason=reason)
        return [abort, *([UnblockAllChannels()] if was_blocked else [])]


class BarrierTracker(CheckpointBarrierHandler):
    """At least once: counts the barriers of the newest checkpoints, `MAX_CHECKPOINTS_TO_TRACK` at most."""

    def __init__(
        self, channels: int, end_of_partition: EndOfPartitionMode = EndOfPartitionMode.COUNTS_AS_BARRIER
    ) -> None:
        super().__init__(channels, end_of_partition)
        self._pending: OrderedDict[int, _Pending] = OrderedDict()

    @property
    def pending_checkpoints(self) -> tuple[int, ...]:
        """Checkpoints that are counted, aborted ones included while barriers of them may still come; oldest first."""
        return tuple(self._pending)

    def check(self) -> None:
        """Assert that pending checkpoints are in order, incomplete and not too many."""
        ids = list(self._pending)
        assert ids == sorted(ids)
        assert len(ids) <= MAX_CHECKPOINTS_TO_TRACK
        assert not ids or ids[-1] <= self.latest_checkpoint_id
        assert all(pending.aligned < self._open for pending in self._pending.values())

    def _on_barrier(self, channel: int, barrier: CheckpointBarrier, now_ms: int) -> list[BarrierAction]:
        pending = self._pending.get(barrier.checkpoint_id)
        if pending is None:
            if barrier.checkpoint_id <= self.latest_checkpoint_id:
                return []
            pending = self._track(_Pending(barrier=barrier, start_ms=now_ms))
        return self._count(channel, pending)

    def _on_cancel_marker(self, channel: int, checkpoint_id: int) -> list[BarrierAction]:
        actions: list[BarrierAction] = []
        for older in [known for known in self._pending if known < checkpoint_id]:
            actions += self._abort(self._pending.pop(older), CheckpointDeclineReason.CANCELLATION_BARRIER)
        pending = self._pending.get(checkpoint_id)
        if pending is None:
            if checkpoint_id <= self.latest_checkpoint_id:
                return actions
            # Remembered as aborted, so that barriers that still come do not begin it.
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
            pending.aligned.discard(channel)
        complete = [pending for pending in self._pending.values() if len(pending.aligned) == len(self._open)]
        return self._complete(complete[-1]) if complete else []

    def _track(self, pending: _Pending) -> _Pending:
        self.latest_checkpoint_id = pending.barrier.checkpoint_id
        self._pending[pending.barrier.checkpoint_id] = pending
        if len(self._pending) > MAX_CHECKPOINTS_TO_TRACK:
            self._pending.popitem(last=False)
        return pending

    def _count(self, channel: int, pending: _Pending) -> list[BarrierAction]:
        pending.aligned.add(channel)
        return self._complete(pending) if len(pending.aligned) == len(self._open) else []

    def _complete(self, pending: _Pending) -> list[BarrierAction]:
        # Older ones are subsumed without a word: the coordinator does not wait for them once this one completes.
        for older in [known for known in self._pending if known <= pending.barrier.checkpoint_id]:
            del self._pending[older]
        return [] if pending.is_aborted else [pending.trigger]

    def _abort(self, pending: _Pending, reason: CheckpointDeclineReason) -> list[BarrierAction]:
        if pending.is_aborted:
            return []
        pending.is_aborted = True
        return [AbortCheckpointOnBarrier(checkpoint_id=pending.barrier.checkpoint_id, reason=reason)]
