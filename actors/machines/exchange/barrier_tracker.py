"""At least once: barriers are counted, and nothing is held back (Flink's CheckpointBarrierTracker)."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from flykka.actors.machines.exchange.checkpoint_barrier_handler import (
    AbortCheckpointOnBarrier,
    BarrierAction,
    CheckpointBarrierHandler,
    EndOfPartitionMode,
)
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from flykka.messages.tasks.exchange import CheckpointBarrier
from flykka.messages.wire.tags import trace_tag

MAX_CHECKPOINTS_TO_TRACK = 50


@trace_tag("state.tracked_checkpoint")
@dataclass(slots=True)
class _Pending:
    barrier: CheckpointBarrier
    start_ms: int
    arrived: set[int] = field(default_factory=set)
    is_aborted: bool = False


class BarrierTracker(CheckpointBarrierHandler):
    """Counts the barriers of the newest checkpoints, `MAX_CHECKPOINTS_TO_TRACK` at most."""

    def __init__(
        self, channels: int, end_of_partition: EndOfPartitionMode = EndOfPartitionMode.COUNTS_AS_BARRIER
    ) -> None:
        super().__init__(channels, end_of_partition)
        self._pending: OrderedDict[int, _Pending] = OrderedDict()

    @property
    def pending_checkpoints(self) -> tuple[int, ...]:
        """Checkpoints that are counted, aborted ones included while barriers of them may still come; oldest first."""
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
        # It counts where it stands.
        return []

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
        # Older ones are subsumed without a word: the coordinator does not wait for them once this one completes.
        for older in [known for known in self._pending if known <= pending.barrier.checkpoint_id]:
            del self._pending[older]
        return [] if pending.is_aborted else [self._trigger(pending.barrier, pending.start_ms)]

    def _abort(self, pending: _Pending, reason: CheckpointDeclineReason) -> list[BarrierAction]:
        if pending.is_aborted:
            return []
        pending.is_aborted = True
        return [AbortCheckpointOnBarrier(checkpoint_id=pending.barrier.checkpoint_id, reason=reason)]
