"""Exactly once: at most one checkpoint at a time, the newest (Flink's SingleCheckpointBarrierHandler).

An aligned checkpoint is taken when the barriers of all channels are here, and a channel that has delivered its own is
blocked until then. An unaligned one is taken at its first barrier: nothing is blocked, and what comes before the other
barriers is persisted. Aligned barriers that may time out are announced ahead of the data; when their time is over, what
has begun aligned goes on unaligned:

    first barrier or announcement -> aligned ---------------- last barrier -> snapshot
                                        | timeout, or an unaligned barrier
                                        v
                                     unaligned: snapshot ---- last barrier -> channel state complete
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flykka.actors.machines.exchange.checkpoint_barrier_handler import (
    AbortCheckpointOnBarrier,
    BarrierAction,
    BlockChannel,
    CheckpointBarrierHandler,
    EndOfPartitionMode,
    PrioritizeBarrier,
    StartPersisting,
    StopPersisting,
    UnblockAllChannels,
    alignment_timer,
)
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from flykka.messages.tasks.exchange import CheckpointBarrier


@dataclass(slots=True)
class _Alignment:
    """A checkpoint whose barriers are coming together; `missing` channels have neither delivered it nor ended."""

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
    """The barriers of one checkpoint after the other."""

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
        """The checkpoint whose barriers are coming together, if there is one."""
        return () if self._alignment is None else (self._alignment.checkpoint_id,)

    @property
    def missing_channels(self) -> frozenset[int]:
        return frozenset() if self._alignment is None else frozenset(self._alignment.missing)

    @property
    def blocked_channels(self) -> frozenset[int]:
        return frozenset() if self._alignment is None else frozenset(self._alignment.blocked)

    def check(self) -> None:
        if (alignment := self._alignment) is not None:
            assert alignment.missing, "an alignment of all open channels is over"
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
            assert alignment is None or channel not in alignment.blocked, f"channel {channel} is blocked and was read"
            return actions
        alignment.missing.remove(channel)
        alignment.announced.discard(channel)
        if not alignment.has_begun:
            # The announcement may have come long before.
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
        # An older checkpoint ends as well, unsaid: what follows on this channel is behind its barrier.
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
        """The alignment that a barrier belongs to, begun where it is of a new checkpoint; None where it is stale."""
        alignment = self._alignment
        if alignment is not None and alignment.checkpoint_id == barrier.checkpoint_id:
            return [], alignment
        if barrier.checkpoint_id <= self.latest_checkpoint_id:
            # Of a checkpoint that was subsumed, cancelled or taken.
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
