"""The book of an attempt's checkpoints: one record for each, with its phase, from its barrier to its commit.

A checkpoint that was aborted before its barrier came is remembered and skipped, as in Flink's
SubtaskCheckpointCoordinatorImpl. An unaligned snapshot has two parts, the state of the chain and the batches in flight,
and is acknowledged with both. An abort undoes nothing: staged files stay pending and are published with the next
checkpoint, and state that was written is written again, for only complete checkpoints are referred to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from flykka.messages.attempt.answers import CommitPrepared, SnapshotWritten
from flykka.messages.attempt.values import InputInFlight, StagedOutput, StageOutput
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint, CheckpointMetrics
from flykka.messages.state.handles import OperatorSubtaskState, TaskStateSnapshot
from flykka.messages.wire.ids import ExecutionAttemptId, JobId
from flykka.messages.wire.tags import trace_tag


class CheckpointPhase(StrEnum):
    """The phase of a checkpoint in one attempt: NOTED when its barrier is sent, WRITTEN when its state is durable."""

    BARRIER = "BARRIER"
    NOTED = "NOTED"
    PREPARED = "PREPARED"
    WRITTEN = "WRITTEN"
    ACKNOWLEDGED = "ACKNOWLEDGED"
    COMMITTED = "COMMITTED"
    ABORTED = "ABORTED"


P = CheckpointPhase

CHECKPOINT_MOVES: dict[CheckpointPhase, tuple[CheckpointPhase, ...]] = {
    P.BARRIER: (P.NOTED, P.ABORTED),
    P.NOTED: (P.PREPARED, P.WRITTEN, P.ABORTED),
    P.PREPARED: (P.WRITTEN, P.ABORTED),
    P.WRITTEN: (P.ACKNOWLEDGED, P.ABORTED),
    P.ACKNOWLEDGED: (P.COMMITTED, P.ABORTED),
    P.COMMITTED: (),
    P.ABORTED: (),
}
"""From NOTED to WRITTEN if there is nothing to write."""

UNDER_WAY = frozenset({P.BARRIER, P.NOTED, P.PREPARED, P.WRITTEN})


def checkpoint_may_move(from_phase: CheckpointPhase, to_phase: CheckpointPhase) -> bool:
    """True if the table of checkpoints has the move."""
    return to_phase in CHECKPOINT_MOVES[from_phase]


class Begin(StrEnum):
    """The decision on a snapshot whose barrier is here."""

    TAKEN = "taken"
    SKIPPED = "skipped: the checkpoint was aborted before its barrier came"
    STALE = "stale: the turn of this checkpoint is over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """The cost of an alignment: its time, and the bytes that were processed meanwhile."""

    duration_ms: int = 0
    processed_bytes: int = 0


@trace_tag("state.channel_state")
@dataclass(slots=True, kw_only=True)
class ChannelState:
    """The batches that the barriers of a checkpoint have overtaken, until all of them are known, and then as state.

    The engine holds each until they are written or the checkpoint is aborted: `is_held`.
    """

    inputs: list[InputInFlight] = field(default_factory=list)
    outputs: list[StageOutput] = field(default_factory=list)
    inputs_complete: bool = False
    outputs_complete: bool = False
    is_held: bool = False
    written: OperatorSubtaskState | None = None
    size_bytes: int = 0


@dataclass(slots=True, kw_only=True, eq=False)
class Checkpoint:
    """The record of a checkpoint. `states` are those that the Task knows itself; the chain's are `written`.

    `staged` was staged for it, of so many rows. `has_output`: something is pending until it, or a later one, is
    committed. Unless it `awaits_commit`, its completion needs no commit. While it `is_open`, its output is not known.
    """

    checkpoint_id: int
    phase: CheckpointPhase = P.BARRIER
    alignment: Alignment = field(default_factory=Alignment)
    states: tuple[OperatorSubtaskState, ...] = ()
    start_delay_ms: int = 0
    savepoint: str | None = None
    is_unaligned: bool = False
    channels: ChannelState | None = None
    staged: tuple[StagedOutput, ...] = ()
    rows_staged: int = 0
    has_output: bool = False
    awaits_commit: bool = False
    is_open: bool = True
    written: SnapshotWritten | None = None
    sync_ms: int = 0
    async_ms: int = 0

    def move(self, phase: CheckpointPhase) -> None:
        """Move to a phase; an aborted one stays aborted, whatever is still done for it."""
        if self.phase is not P.ABORTED:
            assert checkpoint_may_move(self.phase, phase), f"checkpoint {self.checkpoint_id}: {self.phase} -> {phase}"
            self.phase = phase

    @property
    def is_under_way(self) -> bool:
        """It is neither acknowledged nor aborted."""
        return self.phase in UNDER_WAY

    @property
    def is_durable(self) -> bool:
        """Every part of its state is durable."""
        return self.written is not None and (self.channels is None or self.channels.written is not None)

    @property
    def has_durable_part(self) -> bool:
        """Something of its state is durable."""
        return self.written is not None or (self.channels is not None and self.channels.written is not None)


class CheckpointBook:
    """The checkpoints of one attempt, and the output staged since the last barrier."""

    __slots__ = ("_attempt", "_job_id", "_last_begun", "_records", "_rows_staged", "_staged")

    def __init__(self, job_id: JobId, attempt: ExecutionAttemptId) -> None:
        self._job_id = job_id
        self._attempt = attempt
        self._records: dict[int, Checkpoint] = {}
        self._last_begun = 0
        self._staged: tuple[StagedOutput, ...] = ()
        self._rows_staged = 0

    def __iter__(self) -> Iterator[Checkpoint]:
        return iter(self._records.values())

    @property
    def under_way(self) -> tuple[int, ...]:
        """The checkpoints that were begun, and are neither acknowledged nor aborted."""
        return tuple(each.checkpoint_id for each in self if each.is_under_way)

    @property
    def has_output(self) -> bool:
        """Something was staged, and is not committed."""
        return bool(self._staged) or any(each.has_output for each in self)

    def begin(self, checkpoint: Checkpoint) -> Begin:
        """A barrier is here; whether its snapshot is taken."""
        checkpoint_id = checkpoint.checkpoint_id
        if checkpoint_id <= self._last_begun:
            return Begin.STALE
        self._last_begun = checkpoint_id
        aborted = self._records.pop(checkpoint_id, None)
        for skipped in [each for each in self._records if self._is_forgotten(each)]:
            del self._records[skipped]
        if aborted is not None:
            return Begin.SKIPPED
        self._records[checkpoint_id] = checkpoint
        return Begin.TAKEN

    def get(self, checkpoint_id: int) -> Checkpoint | None:
        """The checkpoint, if it is under way."""
        record = self._records.get(checkpoint_id)
        return record if record is not None and record.is_under_way else None

    def has_begun(self, checkpoint_id: int) -> bool:
        """The barrier of the checkpoint has been here, whatever has become of it."""
        return checkpoint_id <= self._last_begun

    def stage(self, staged: tuple[StagedOutput, ...]) -> None:
        """A stage has staged output, which belongs to the checkpoint whose barrier is next."""
        self._staged += staged
        self._rows_staged += sum(each.rows for each in staged if each.names)

    def on_barrier_sent(self, checkpoint: Checkpoint) -> None:
        """The output that was staged before its barrier is the checkpoint's."""
        checkpoint.staged, self._staged = self._staged, ()
        checkpoint.rows_staged, self._rows_staged = self._rows_staged, 0
        checkpoint.has_output = bool(checkpoint.staged)
        checkpoint.move(P.NOTED)

    def abort(self, checkpoint_id: int) -> list[AcknowledgeCheckpoint]:
        """The checkpoint will not complete. Durable parts are acknowledged, so that the coordinator deletes them."""
        record = self._records.get(checkpoint_id)
        if record is None:
            if checkpoint_id > self._last_begun:
                self._records[checkpoint_id] = _skipped(checkpoint_id)
            return []
        late = [self.acknowledgement(record)] if record.is_under_way and record.has_durable_part else []
        record.move(P.ABORTED)
        record.states, record.written = (), None
        if record.channels is not None:
            record.channels.written = None
        return late

    def acknowledge(self, checkpoint: Checkpoint) -> list[AcknowledgeCheckpoint]:
        """A part of the state is durable: the acknowledgement, when it is all of it.

        Also if the checkpoint was aborted meanwhile: the coordinator deletes the state that comes late.
        """
        if checkpoint.phase is P.ABORTED:
            late = self.acknowledgement(checkpoint)
            checkpoint.written = None
            if checkpoint.channels is not None:
                checkpoint.channels.written = None
            return [late]
        if not checkpoint.is_durable:
            return []
        checkpoint.move(P.ACKNOWLEDGED)
        acknowledgement = self.acknowledgement(checkpoint)
        checkpoint.states, checkpoint.written = (), None
        if not (checkpoint.awaits_commit or checkpoint.has_output):
            del self._records[checkpoint.checkpoint_id]
        return [acknowledgement]

    def on_prepared(self, checkpoint: Checkpoint, prepared: CommitPrepared) -> None:
        """The output of a checkpoint is prepared: it is known if anything of it has to be committed."""
        checkpoint.is_open = False
        checkpoint.rows_staged += prepared.rows_staged
        checkpoint.has_output = checkpoint.has_output or bool(prepared.sinks)
        checkpoint.move(P.PREPARED)

    def take_completed(self, checkpoint_id: int) -> bool:
        """A checkpoint is complete: whether something waits for that to be committed. Each is committed once."""
        waiting = [each for each in self._up_to(checkpoint_id) if each.awaits_commit]
        for checkpoint in waiting:
            checkpoint.awaits_commit = False
        return bool(waiting)

    def commit(self, checkpoint_id: int) -> int:
        """The output of this checkpoint, and of all before it, is published: the number of its rows."""
        published = 0
        for record in self._up_to(checkpoint_id):
            published += record.rows_staged
            record.rows_staged, record.has_output = 0, False
            if record.phase is P.ACKNOWLEDGED:
                record.move(P.COMMITTED)
            if not (record.is_under_way or record.is_open):
                del self._records[record.checkpoint_id]
        return published

    def end(self) -> list[AcknowledgeCheckpoint]:
        """The attempt is over: parts that are durable, and that nothing follows any more, as `abort`."""
        return [late for checkpoint_id in self.under_way for late in self.abort(checkpoint_id)]

    def acknowledgement(self, checkpoint: Checkpoint) -> AcknowledgeCheckpoint:
        """The message with all of its state that is durable."""
        operators = checkpoint.states
        size_bytes = incremental_bytes = persisted_bytes = 0
        if (chain := checkpoint.written) is not None:
            operators += chain.operators
            size_bytes, incremental_bytes = sum(map(_size_bytes, chain.operators)), chain.incremental_bytes
        channels = checkpoint.channels
        if channels is not None and channels.written is not None and channels.size_bytes:
            operators += (channels.written,)
            persisted_bytes = channels.size_bytes
        metrics = CheckpointMetrics(
            alignment_ms=checkpoint.alignment.duration_ms,
            sync_ms=checkpoint.sync_ms,
            async_ms=checkpoint.async_ms,
            size_bytes=size_bytes + persisted_bytes,
            incremental_bytes=incremental_bytes + persisted_bytes,
            bytes_processed_during_alignment=checkpoint.alignment.processed_bytes,
            bytes_persisted_during_alignment=persisted_bytes,
            is_unaligned=checkpoint.is_unaligned,
            start_delay_ms=checkpoint.start_delay_ms,
        )
        return AcknowledgeCheckpoint(
            job_id=self._job_id,
            attempt=self._attempt,
            checkpoint_id=checkpoint.checkpoint_id,
            state=TaskStateSnapshot(operators=operators),
            metrics=metrics,
        )

    def check(self) -> None:
        """Assert the invariants: no checkpoint was begun whose turn has not come, and no committed one is kept."""
        assert all(each.phase is P.ABORTED for each in self if each.checkpoint_id > self._last_begun)
        assert not any(each.phase is P.COMMITTED for each in self)

    def _is_forgotten(self, checkpoint_id: int) -> bool:
        record = self._records[checkpoint_id]
        is_over = record.phase is P.ABORTED and checkpoint_id <= self._last_begun
        return is_over and not (record.is_open or record.has_output or record.awaits_commit)

    def _up_to(self, checkpoint_id: int) -> list[Checkpoint]:
        return [each for each in self if each.checkpoint_id <= checkpoint_id]


def _skipped(checkpoint_id: int) -> Checkpoint:
    return Checkpoint(checkpoint_id=checkpoint_id, phase=P.ABORTED, is_open=False)


def _size_bytes(state: OperatorSubtaskState) -> int:
    own = sum(len(element) for each in state.operator_state for element in each.elements)
    shared = sum(handle.size_bytes for handle in state.shared)
    return own + len(state.keyed_state) + shared + sum(handle.size_bytes for handle in state.exclusive)
