"""Engines whose rows are names in memory: staged rows are published with their checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from types import MappingProxyType
from typing import Any

from flykka.actors.machines.attempt.channel_state import recovered_batch
from flykka.actors.machines.state.operator_state import elements_of, list_state
from flykka.actors.task.empty_engine import EmptyEngine
from flykka.messages.attempt.answers import (
    ChainOpened,
    ChannelStateWritten,
    CheckpointCommitted,
    CommitPrepared,
    SnapshotWritten,
    StageResult,
    WorkFailed,
)
from flykka.messages.attempt.commands import (
    ChannelStateRead,
    Command,
    CommitCheckpoint,
    HoldBatches,
    OpenChain,
    PrepareCommit,
    ReadSplits,
    ReleaseBatches,
    StagedOutput,
    WriteChannelState,
    WriteSnapshot,
)
from flykka.messages.state.handles import COMMITTABLES, ExclusiveStateHandle, OperatorSubtaskState, StagedBatch
from flykka.messages.tasks.exchange import BatchRef
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import BatchId
from flykka.runtime.dispatch.dispatcher import Executor, Pipe, describe_work


class Sink:
    """Output that outlives the attempts. Rows that two attempts have staged occur twice."""

    def __init__(self) -> None:
        self._published: dict[str, str] = {}

    def publish(self, batches: Iterable[StagedBatch]) -> None:
        self._published.update((batch.path, batch.schema) for batch in batches)

    @property
    def published(self) -> list[str]:
        return sorted(self._published.values())


class Delays:
    """Delays calls of an engine by virtual milliseconds. Keys are method names; None delays a call for ever."""

    def __init__(self, takes_ms: Mapping[str, int | None]) -> None:
        self._takes_ms = takes_ms

    def run_blocking(self, work: Pipe[Any]) -> None:
        takes_ms = self._takes_ms.get(describe_work(work.work).function, 0)
        if takes_ms == 0:
            work.run()
        elif takes_ms is not None:
            clock = work.cell.system.clock
            clock.schedule(clock.now_ms() + takes_ms, work.run)


class NamesEngine(EmptyEngine):
    """Reads the names of splits; a source stages the names as rows. An exception in this engine fails the attempt."""

    takes_ms: Mapping[str, int | None] = MappingProxyType({})
    """The duration of each call in ms; None means for ever."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, sink: Sink) -> None:
        super().__init__(descriptor)
        self.sink = sink
        self._operator_id = descriptor.vertex.operators[0].operator_id
        self._pending: tuple[StagedBatch, ...] = ()

    def lane(self, command: Command, piece: int, what: str) -> Executor:
        return Delays(self.takes_ms)

    def open_chain(self, command: OpenChain) -> ChainOpened:
        states = () if command.restore is None else command.restore.operators
        self.sink.publish(elements_of(states, COMMITTABLES, StagedBatch))
        return ChainOpened(
            is_ordered=True, has_sinks=True, recovered=tuple(self.recover(read) for read in command.recover)
        )

    def recover(self, read: ChannelStateRead) -> BatchRef | None:
        raise AssertionError(f"nothing was in flight: {read}")

    def read_splits(self, command: ReadSplits) -> StageResult:
        return self.staged(command.stage, [split.split_id for split in command.splits])

    def staged(self, stage: int, rows: Sequence[str]) -> StageResult:
        output = StagedOutput(operator_id=self._operator_id, names=tuple(rows), rows=len(rows))
        return StageResult(stage=stage, staged=(output,), rows_in=len(rows))

    def prepare_commit(self, command: PrepareCommit) -> CommitPrepared:
        return self.prepared(command.checkpoint_id, [name for each in command.staged for name in each.names])

    def prepared(self, checkpoint_id: int, rows: Iterable[str]) -> CommitPrepared:
        """Return the rows that are published with this checkpoint or, if this checkpoint fails, with a later one."""
        self._pending += tuple(
            StagedBatch(
                checkpoint_id=checkpoint_id, path=f"{self._descriptor.attempt}/{checkpoint_id}/{row}", schema=row
            )
            for row in rows
        )
        committables = (list_state(COMMITTABLES, self._pending),)
        sink = OperatorSubtaskState(operator_id=self._operator_id, operator_state=committables)
        return CommitPrepared(checkpoint_id=checkpoint_id, sinks=(sink,))

    def write_snapshot(self, command: WriteSnapshot) -> SnapshotWritten:
        return SnapshotWritten(checkpoint_id=command.checkpoint_id, operators=command.sinks)

    def commit_checkpoint(self, command: CommitCheckpoint) -> CheckpointCommitted:
        checkpoint_id = command.checkpoint_id
        self.sink.publish(batch for batch in self._pending if batch.checkpoint_id <= checkpoint_id)
        self._pending = tuple(batch for batch in self._pending if batch.checkpoint_id > checkpoint_id)
        return CheckpointCommitted(checkpoint_id=checkpoint_id)

    def failed(self, command: Command, what: str, raised: BaseException) -> WorkFailed:
        if isinstance(raised, AssertionError):
            raise raised
        lost = getattr(raised, "lost_partition", None)
        cause = SerializedThrowable(type_name=type(raised).__name__, message=str(raised), lost_partition=lost)
        return WorkFailed(command=command, cause=cause, ends_attempt=not command.survivable)


@dataclass
class Batches:
    """The rows and holders of batches, and the files of channel state."""

    rows: dict[BatchId, list[str]] = field(default_factory=dict)
    held: dict[BatchId, set[str]] = field(default_factory=dict)
    files: dict[str, list[str]] = field(default_factory=dict)
    restored: int = 0
    numbers: count[int] = field(default_factory=count)

    def put(self, rows: list[str], subpartition: int = 0) -> BatchRef:
        batch_id = BatchId(f"batch-{next(self.numbers)}")
        self.rows[batch_id] = rows
        return BatchRef(batch_id=batch_id, rows=len(rows), size_bytes=8, subpartition=subpartition)


class BatchesEngine(NamesEngine):
    """An engine whose batches are queued, so that a checkpoint may contain batches in flight."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, sink: Sink, batches: Batches) -> None:
        super().__init__(descriptor, sink)
        self.batches = batches

    def recover(self, read: ChannelStateRead) -> BatchRef | None:
        rows = [row for row in self.batches.files[read.in_flight.path] if self.is_mine(row, read)]
        if not rows:
            return None
        self.batches.restored += 1
        self.batches.rows[read.batch_id] = rows
        return recovered_batch(read, len(rows), 8)

    def is_mine(self, row: str, read: ChannelStateRead) -> bool:
        return True

    def hold_batches(self, command: HoldBatches) -> None:
        for batch_id in command.batch_ids:
            assert batch_id in self.batches.rows, f"{batch_id} was never made"
            self.batches.held.setdefault(batch_id, set()).add(command.holder)

    def release_batches(self, command: ReleaseBatches) -> None:
        if command.batch_ids is None:
            for holders in self.batches.held.values():
                holders.discard(command.holder)

    def write_channel_state(self, command: WriteChannelState) -> ChannelStateWritten:
        for part in command.parts:
            for batch in part.batches:
                assert self.batches.held[batch.batch_id], f"{batch} is not held"
            self.batches.files[part.path] = [row for batch in part.batches for row in self.batches.rows[batch.batch_id]]
        folders = tuple(ExclusiveStateHandle(path=part.path, size_bytes=8) for part in command.parts)
        return ChannelStateWritten(checkpoint_id=command.checkpoint_id, folders=folders)
