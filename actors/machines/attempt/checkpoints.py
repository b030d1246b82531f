"""The checkpoints of an attempt, from barrier to commit: a record of each, and their background work.

A checkpoint that was aborted before its barrier arrived is remembered and skipped, as in Flink's
SubtaskCheckpointCoordinatorImpl. An unaligned snapshot has two parts, the state of the chain and the in-flight batches,
and is acknowledged when both are durable. An abort undoes nothing: staged files stay pending and are published with the
next checkpoint, and written state is written again, because later checkpoints refer only to complete checkpoints.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from flykka.actors.machines.attempt.events import TaskEffect
from flykka.actors.machines.effects import Role, Tell
from flykka.messages.attempt.answers import CommitPrepared, SnapshotWritten
from flykka.messages.attempt.commands import CheckpointCommand, InputInFlight, StagedOutput, StageOutput
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
"""The allowed transitions. A checkpoint moves from NOTED to WRITTEN directly if there is nothing to write."""

UNDER_WAY = frozenset({P.BARRIER, P.NOTED, P.PREPARED, P.WRITTEN})


def checkpoint_may_move(from_phase: CheckpointPhase, to_phase: CheckpointPhase) -> bool:
    return to_phase in CHECKPOINT_MOVES[from_phase]


class SnapshotDecision(StrEnum):
    TAKEN = "taken"
    SKIPPED = "skipped: the checkpoint was aborted before its barrier came"
    STALE = "stale: this or a later checkpoint has begun already"


@trace_tag("state.channel_state")
@dataclass(slots=True, kw_only=True)
class OvertakenBatches:
    """The batches that the barriers of a checkpoint have overtaken: first collected, then written as state.

    While `is_held`, the engine holds each batch until it is written or the checkpoint is aborted.
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
    """The record of a checkpoint. `states` are the states of the Task itself; `written` is the state of the chain.

    The barriers were aligned from `alignment_start_ms` for `alignment_ms`, while `processed_bytes` were read. `staged`
    is the output that the sinks have staged for the checkpoint, with `rows_staged` rows. If `has_output`, some output
    is pending until this or a later checkpoint is committed. If `awaits_commit`, a commit follows the completion of the
    checkpoint. While `is_open`, the output is not yet known.
    """

    checkpoint_id: int
    phase: CheckpointPhase = P.BARRIER
    alignment_start_ms: int = 0
    alignment_ms: int = 0
    processed_bytes: int = 0
    states: tuple[OperatorSubtaskState, ...] = ()
    start_delay_ms: int = 0
    savepoint: str | None = None
    is_unaligned: bool = False
    overtaken: OvertakenBatches | None = None
    staged: tuple[StagedOutput, ...] = ()
    rows_staged: int = 0
    has_output: bool = False
    awaits_commit: bool = False
    is_open: bool = True
    written: SnapshotWritten | None = None
    sync_ms: int = 0
    async_ms: int = 0

    def move(self, phase: CheckpointPhase) -> None:
        """Move to a phase. An aborted checkpoint stays aborted, even if its work completes."""
        if self.phase is not P.ABORTED:
            assert checkpoint_may_move(self.phase, phase), f"checkpoint {self.checkpoint_id}: {self.phase} -> {phase}"
            self.phase = phase

    def on_aligned(self, now: int, processed_bytes: int) -> None:
        """Record the end of the alignment. An unaligned checkpoint begins before this end."""
        self.alignment_ms = now - self.alignment_start_ms
        self.processed_bytes = processed_bytes

    @property
    def is_under_way(self) -> bool:
        return self.phase in UNDER_WAY

    @property
    def is_durable(self) -> bool:
        return self.written is not None and (self.overtaken is None or self.overtaken.written is not None)

    @property
    def has_durable_part(self) -> bool:
        return self.written is not None or (self.overtaken is not None and self.overtaken.written is not None)


@dataclass(slots=True, kw_only=True, eq=False)
class BackgroundJob:
    """A unit of background work for a checkpoint. Its `command` is sent when the unit is first in the queue."""

    command: CheckpointCommand
    checkpoint: Checkpoint | None = None
    begun_ms: int | None = None


class BackgroundWork:
    """The queue of an attempt's background jobs, which run one after the other: snapshots, channel state and commits.

    A snapshot is one job, from `PrepareCommit` until it is written, so that commits wait for it.
    """

    __slots__ = ("_jobs", "is_stopped", "now")

    def __init__(self) -> None:
        self.now = 0
        self.is_stopped = False
        self._jobs: deque[BackgroundJob] = deque()

    @property
    def is_idle(self) -> bool:
        return not self._jobs

    def add(self, command: CheckpointCommand, checkpoint: Checkpoint | None = None) -> list[TaskEffect]:
        if self.is_stopped:
            return []
        self._jobs.append(BackgroundJob(command=command, checkpoint=checkpoint))
        return self._begin()

    def awaiting(self, kind: type[CheckpointCommand], checkpoint_id: int) -> BackgroundJob | None:
        job = self._jobs[0] if self._jobs else None
        if job is None or not isinstance(job.command, kind) or job.command.checkpoint_id != checkpoint_id:
            return None
        return job

    def continue_with(self, command: CheckpointCommand) -> list[TaskEffect]:
        self._jobs[0].command = command
        return [Tell(to=Role.BRIDGE, message=command)]

    def end_job(self) -> list[TaskEffect]:
        self._jobs.popleft()
        return self._begin()

    def stop(self) -> None:
        """Start no further job. The current job's response still counts, because its written state must be deleted."""
        self.is_stopped = True
        while len(self._jobs) > 1:
            self._jobs.pop()

    def _begin(self) -> list[TaskEffect]:
        if not self._jobs or self._jobs[0].begun_ms is not None:
            return []
        job = self._jobs[0]
        job.begun_ms = self.now
        return [Tell(to=Role.BRIDGE, message=job.command)]


class CheckpointBook:
    """The checkpoints of one attempt, their background work, and the output staged since the last barrier."""

    __slots__ = ("_attempt", "_job_id", "_last_begun", "_records", "_rows_staged", "_staged", "background")

    def __init__(self, job_id: JobId, attempt: ExecutionAttemptId) -> None:
        self.background = BackgroundWork()
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
        return tuple(each.checkpoint_id for each in self if each.is_under_way)

    @property
    def has_output(self) -> bool:
        return bool(self._staged) or any(each.has_output for each in self)

    def begin(self, checkpoint: Checkpoint) -> SnapshotDecision:
        checkpoint_id = checkpoint.checkpoint_id
        if checkpoint_id <= self._last_begun:
            return SnapshotDecision.STALE
        self._last_begun = checkpoint_id
        aborted = self._records.pop(checkpoint_id, None)
        for forgotten in [each for each in self._records if self._is_forgotten(each)]:
            del self._records[forgotten]
        if aborted is not None:
            return SnapshotDecision.SKIPPED
        self._records[checkpoint_id] = checkpoint
        return SnapshotDecision.TAKEN

    def get(self, checkpoint_id: int) -> Checkpoint | None:
        record = self._records.get(checkpoint_id)
        return record if record is not None and record.is_under_way else None

    def stage(self, staged: tuple[StagedOutput, ...]) -> None:
        """Add output that a stage has staged. It belongs to the checkpoint whose barrier is sent next."""
        self._staged += staged
        self._rows_staged += sum(each.rows for each in staged if each.names)

    def on_barrier_sent(self, checkpoint: Checkpoint) -> None:
        checkpoint.staged, self._staged = self._staged, ()
        checkpoint.rows_staged, self._rows_staged = self._rows_staged, 0
        checkpoint.has_output = bool(checkpoint.staged)
        checkpoint.move(P.NOTED)

    def abort(self, checkpoint_id: int) -> list[AcknowledgeCheckpoint]:
        """Abort the checkpoint. Durable parts are acknowledged anyway, so that the coordinator deletes them."""
        record = self._records.get(checkpoint_id)
        if record is None:
            if checkpoint_id > self._last_begun:
                self._records[checkpoint_id] = _skipped(checkpoint_id)
            return []
        late = [self.acknowledgement(record)] if record.is_under_way and record.has_durable_part else []
        record.move(P.ABORTED)
        record.states, record.written = (), None
        if record.overtaken is not None:
            record.overtaken.written = None
        return late

    def acknowledge(self, checkpoint: Checkpoint) -> list[AcknowledgeCheckpoint]:
        """Acknowledge a checkpoint if a new durable part completes its state.

        An aborted checkpoint is acknowledged, too, so that the coordinator deletes the late state.
        """
        if checkpoint.phase is P.ABORTED:
            late = self.acknowledgement(checkpoint)
            checkpoint.written = None
            if checkpoint.overtaken is not None:
                checkpoint.overtaken.written = None
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
        checkpoint.is_open = False
        checkpoint.rows_staged += prepared.rows_staged
        checkpoint.has_output = checkpoint.has_output or bool(prepared.sinks)
        checkpoint.move(P.PREPARED)

    def take_completed(self, checkpoint_id: int) -> bool:
        """Return `True` once if this completed checkpoint, or an earlier one, awaits its commit."""
        waiting = [each for each in self._up_to(checkpoint_id) if each.awaits_commit]
        for checkpoint in waiting:
            checkpoint.awaits_commit = False
        return bool(waiting)

    def commit(self, checkpoint_id: int) -> int:
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
        return [late for checkpoint_id in self.under_way for late in self.abort(checkpoint_id)]

    def acknowledgement(self, checkpoint: Checkpoint) -> AcknowledgeCheckpoint:
        operators = checkpoint.states
        size_bytes = incremental_bytes = persisted_bytes = 0
        if (chain := checkpoint.written) is not None:
            operators += chain.operators
            size_bytes, incremental_bytes = sum(map(_size_bytes, chain.operators)), chain.incremental_bytes
        overtaken = checkpoint.overtaken
        if overtaken is not None and overtaken.written is not None and overtaken.size_bytes:
            operators += (overtaken.written,)
            persisted_bytes = overtaken.size_bytes
        metrics = CheckpointMetrics(
            alignment_ms=checkpoint.alignment_ms,
            sync_ms=checkpoint.sync_ms,
            async_ms=checkpoint.async_ms,
            size_bytes=size_bytes + persisted_bytes,
            incremental_bytes=incremental_bytes + persisted_bytes,
            bytes_processed_during_alignment=checkpoint.processed_bytes,
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
