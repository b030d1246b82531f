"""The snapshots of one attempt: begun at a barrier, acknowledged when their state is durable.

Mirrors the bookkeeping of Flink's SubtaskCheckpointCoordinatorImpl: a checkpoint that was aborted before its barrier
came is remembered and skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from flykka.messages.checkpoint import AcknowledgeCheckpoint, CheckpointMetrics
from flykka.messages.ids import ExecutionAttemptId, JobId
from flykka.messages.stage import StateSnapshotted
from flykka.messages.state import OperatorSubtaskState, TaskStateSnapshot


class Begin(Enum):
    """What becomes of a snapshot whose barrier is here."""

    TAKEN = "taken"
    SKIPPED = "skipped: the checkpoint was aborted before its barrier came"
    STALE = "stale: the turn of this checkpoint is over"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    alignment_ms: int
    reader_state: OperatorSubtaskState | None


class Snapshots:
    """Snapshots under way, by checkpoint id."""

    def __init__(self, job_id: JobId, attempt: ExecutionAttemptId) -> None:
        self._job_id = job_id
        self._attempt = attempt
        self._begun: dict[int, _Begun] = {}
        self._aborted: set[int] = set()
        self._last_begun = 0

    def begin(self, checkpoint_id: int, alignment_ms: int, reader_state: OperatorSubtaskState | None) -> Begin:
        """A barrier is here; whether the snapshot is to be taken."""
        if checkpoint_id <= self._last_begun:
            return Begin.STALE
        self._last_begun = checkpoint_id
        skipped = checkpoint_id in self._aborted
        self._aborted = {aborted for aborted in self._aborted if aborted > checkpoint_id}
        if skipped:
            return Begin.SKIPPED
        self._begun[checkpoint_id] = _Begun(alignment_ms=alignment_ms, reader_state=reader_state)
        return Begin.TAKEN

    def abort(self, checkpoint_id: int) -> bool:
        """The checkpoint will not complete; whether its barrier has been here, so that the bridge has to know."""
        self._begun.pop(checkpoint_id, None)
        if checkpoint_id > self._last_begun:
            self._aborted.add(checkpoint_id)
        return checkpoint_id <= self._last_begun

    def give_up(self, checkpoint_id: int) -> bool:
        """The snapshot failed here; whether it was still wanted."""
        return self._begun.pop(checkpoint_id, None) is not None

    def durable(self, snapshot: StateSnapshotted) -> AcknowledgeCheckpoint:
        """The state of a snapshot is durable: what to acknowledge.

        Also where the checkpoint was aborted meanwhile: the coordinator deletes the state that comes late.
        """
        begun = self._begun.pop(snapshot.checkpoint_id, _Begun(alignment_ms=0, reader_state=None))
        reader = () if begun.reader_state is None else (begun.reader_state,)
        return AcknowledgeCheckpoint(
            job_id=self._job_id,
            attempt=self._attempt,
            checkpoint_id=snapshot.checkpoint_id,
            state=TaskStateSnapshot(operators=reader + snapshot.state.operators),
            metrics=CheckpointMetrics(
                alignment_ms=begun.alignment_ms,
                sync_ms=snapshot.sync_ms,
                async_ms=snapshot.async_ms,
                size_bytes=snapshot.size_bytes,
                incremental_bytes=snapshot.incremental_bytes,
            ),
        )
