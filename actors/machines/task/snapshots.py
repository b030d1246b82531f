"""The snapshots of one attempt: begun at a barrier, acknowledged when their state is durable.

Mirrors the bookkeeping of Flink's SubtaskCheckpointCoordinatorImpl: a checkpoint that was aborted before its barrier
came is remembered and skipped. An unaligned snapshot has two parts, the state of the chain and the batches in flight,
and is acknowledged with both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint, CheckpointMetrics
from flykka.messages.state.handles import OperatorSubtaskState, TaskStateSnapshot
from flykka.messages.tasks.stage import ChannelStateWritten, StateSnapshotted
from flykka.messages.wire.ids import ExecutionAttemptId, JobId


class Begin(Enum):
    """The decision on a snapshot whose barrier is here."""

    TAKEN = "taken"
    SKIPPED = "skipped: the checkpoint was aborted before its barrier came"
    STALE = "stale: the turn of this checkpoint is over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """The cost of an alignment: its time, and the bytes that were processed meanwhile."""

    duration_ms: int = 0
    processed_bytes: int = 0


@dataclass(slots=True, kw_only=True)
class _Begun:
    alignment: Alignment
    states: tuple[OperatorSubtaskState, ...]
    """The states that the Task knows itself."""
    is_unaligned: bool
    awaits_channels: bool
    start_delay_ms: int = 0
    chain: StateSnapshotted | None = None
    channels: ChannelStateWritten | None = None

    @property
    def is_durable(self) -> bool:
        return self.chain is not None and (self.channels is not None or not self.awaits_channels)


class Snapshots:
    """Snapshots under way, by checkpoint id."""

    __slots__ = ("_aborted", "_attempt", "_begun", "_job_id", "_last_begun")

    def __init__(self, job_id: JobId, attempt: ExecutionAttemptId) -> None:
        self._job_id = job_id
        self._attempt = attempt
        self._begun: dict[int, _Begun] = {}
        self._aborted: set[int] = set()
        self._last_begun = 0

    @property
    def under_way(self) -> tuple[int, ...]:
        """The checkpoints whose snapshot was begun, and is neither acknowledged nor given up."""
        return tuple(self._begun)

    def begin_snapshot(
        self,
        checkpoint_id: int,
        alignment: Alignment,
        reader_state: OperatorSubtaskState | None,
        *,
        is_unaligned: bool = False,
        start_delay_ms: int = 0,
    ) -> Begin:
        """A barrier is here, the first of them that long after the checkpoint was triggered; whether it is taken."""
        if checkpoint_id <= self._last_begun:
            return Begin.STALE
        self._last_begun = checkpoint_id
        skipped = checkpoint_id in self._aborted
        self._aborted = {aborted for aborted in self._aborted if aborted > checkpoint_id}
        if skipped:
            return Begin.SKIPPED
        self._begun[checkpoint_id] = _Begun(
            alignment=alignment,
            states=() if reader_state is None else (reader_state,),
            is_unaligned=is_unaligned,
            awaits_channels=is_unaligned,
            start_delay_ms=start_delay_ms,
        )
        return Begin.TAKEN

    def add_state(self, checkpoint_id: int, states: Iterable[OperatorSubtaskState]) -> None:
        """States belong to a snapshot that are known only when its barrier is sent."""
        if (begun := self._begun.get(checkpoint_id)) is not None:
            begun.states = (*begun.states, *states)

    def aligned(self, checkpoint_id: int, alignment: Alignment) -> None:
        """The barriers of all channels are here, some time after the snapshot was begun."""
        if (begun := self._begun.get(checkpoint_id)) is not None:
            begun.alignment = alignment

    def go_unaligned(self, checkpoint_id: int) -> bool:
        """The barrier overtakes batches behind the task, after all; whether that is news of a snapshot under way."""
        begun = self._begun.get(checkpoint_id)
        if begun is None or begun.is_unaligned:
            return False
        begun.is_unaligned = begun.awaits_channels = True
        return True

    def await_channels(self, checkpoint_id: int) -> bool:
        """The barrier may still overtake batches behind the task; whether the snapshot is under way."""
        begun = self._begun.get(checkpoint_id)
        if begun is not None:
            begun.awaits_channels = True
        return begun is not None

    def has_begun(self, checkpoint_id: int) -> bool:
        """The turn of the checkpoint has come, whatever has become of it: who snapshots has heard of it."""
        return checkpoint_id <= self._last_begun

    def is_wanted(self, checkpoint_id: int) -> bool:
        """The snapshot was begun, and is neither acknowledged nor given up."""
        return checkpoint_id in self._begun

    def abort(self, checkpoint_id: int) -> list[AcknowledgeCheckpoint]:
        """The checkpoint will not complete. A part that is durable already is told to who deletes it."""
        if checkpoint_id > self._last_begun:
            self._aborted.add(checkpoint_id)
        begun = self._begun.pop(checkpoint_id, None)
        if begun is None or (begun.chain is None and begun.channels is None):
            return []
        return [self._acknowledge(checkpoint_id, begun)]

    def give_up(self, checkpoint_id: int) -> list[AcknowledgeCheckpoint] | None:
        """The snapshot failed here; None where it was wanted no more, else as `abort`."""
        return self.abort(checkpoint_id) if self.is_wanted(checkpoint_id) else None

    def end(self) -> list[AcknowledgeCheckpoint]:
        """The attempt is over: parts that are durable, and that nothing follows any more, as `abort`."""
        return [late for checkpoint_id in self.under_way for late in self.abort(checkpoint_id)]

    def durable(self, part: StateSnapshotted | ChannelStateWritten) -> list[AcknowledgeCheckpoint]:
        """State of a snapshot is durable: what to acknowledge, when it is all of it.

        Also where the checkpoint was aborted meanwhile: the coordinator deletes the state that comes late.
        """
        begun = self._begun.get(part.checkpoint_id)
        if begun is None:
            begun = _Begun(alignment=Alignment(), states=(), is_unaligned=False, awaits_channels=False)
            return [self._acknowledge(part.checkpoint_id, _with(begun, part))]
        if not _with(begun, part).is_durable:
            return []
        return [self._acknowledge(part.checkpoint_id, self._begun.pop(part.checkpoint_id))]

    def _acknowledge(self, checkpoint_id: int, begun: _Begun) -> AcknowledgeCheckpoint:
        operators = begun.states
        sync_ms = async_ms = size_bytes = incremental_bytes = persisted_bytes = 0
        if (chain := begun.chain) is not None:
            operators += chain.state.operators
            sync_ms, async_ms = chain.sync_ms, chain.async_ms
            size_bytes, incremental_bytes = chain.size_bytes, chain.incremental_bytes
        if (channels := begun.channels) is not None and channels.size_bytes:
            operators += (channels.state,)
            persisted_bytes = channels.size_bytes
        metrics = CheckpointMetrics(
            alignment_ms=begun.alignment.duration_ms,
            sync_ms=sync_ms,
            async_ms=async_ms,
            size_bytes=size_bytes + persisted_bytes,
            incremental_bytes=incremental_bytes + persisted_bytes,
            bytes_processed_during_alignment=begun.alignment.processed_bytes,
            bytes_persisted_during_alignment=persisted_bytes,
            is_unaligned=begun.is_unaligned,
            start_delay_ms=begun.start_delay_ms,
        )
        return AcknowledgeCheckpoint(
            job_id=self._job_id,
            attempt=self._attempt,
            checkpoint_id=checkpoint_id,
            state=TaskStateSnapshot(operators=operators),
            metrics=metrics,
        )


def _with(begun: _Begun, part: StateSnapshotted | ChannelStateWritten) -> _Begun:
    if isinstance(part, StateSnapshotted):
        begun.chain = part
    else:
        begun.channels = part
    return begun
