"""A data plane with every type of state: slowly read splits, keyed rows, and unpublished rows of a sink.

Each row is a split; its number is its event time and determines its key group. Rows with even numbers are staged at
once. Rows with odd numbers are buffered, as in an open window, until event time ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from flykka.actors.machines.state.key_groups import groups_in, key_groups_of, owner
from flykka.messages.attempt.answers import ChainOpened, CommitPrepared, EngineFailed, SnapshotWritten, StageResult
from flykka.messages.attempt.commands import (
    ChannelStateRead,
    DiscardSnapshot,
    OpenChain,
    PrepareCommit,
    ProcessBatch,
    ReadSplits,
    SnapshotState,
    StageOutput,
    WriteSnapshot,
)
from flykka.messages.graph.job_graph import FiringMode, JobVertex, Operator, ShipStrategy
from flykka.messages.state.handles import KeyGroupRange, OperatorSubtaskState, SharedStateHandle
from flykka.messages.tasks.exchange import WATERMARK_MAX
from flykka.messages.tasks.source import FileSplit, SplitsDiscovered
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.ids import JobId, SplitId
from tests.actors.engines import Batches, BatchesEngine, Sink
from tests.actors.machines.graph.graphs import vertex
from tests.actors.whole_cluster import Names, OneFileAtATime

ROWS = 40
ALL_ROWS = [f"row-{number}" for number in range(ROWS)]
READ_MS, RUN_MS = 80, 200
"""Durations of stages in subtask 0, in milliseconds; the other subtasks take a little longer. Rows queue up downstream
of the keyed edge.
"""
FOUND_AT_ONCE = 14
MAX_PARALLELISM = 128


def number_of(row: str) -> int:
    return int(row.removeprefix("row-"))


def key_group(row: str) -> int:
    return number_of(row) * 37 % MAX_PARALLELISM


def keyed_job(parallelism: int) -> tuple[JobVertex, ...]:
    """Return a source with ascending event times and, downstream of a keyed edge, a vertex that buffers and publishes
    rows.
    """
    source = replace(vertex("source", parallelism, outputs=1), watermark_delay_ms=0)
    keyed = vertex("keyed", parallelism, reads=("source",), ship_strategy=ShipStrategy.HASH)
    return source, replace(keyed, firing_mode=FiringMode.ON_CHECKPOINT)


class DurableData(Sink):
    """Data that outlives the attempts: stored state, published rows, late rows, and batches in flight."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: dict[str, tuple[str, ...]] = {}
        self.late: list[str] = []
        self.batches = Batches()

    def rows(self) -> list[str]:
        return sorted(self.published, key=number_of)


class StagedEngine(BatchesEngine):
    def __init__(self, descriptor: TaskDeploymentDescriptor, durable: DurableData) -> None:
        super().__init__(descriptor, durable, durable.batches)
        self.durable = durable
        self.takes_ms = {"read_splits": READ_MS + descriptor.subtask, "process_batch": RUN_MS + descriptor.subtask}

    def is_mine(self, row: str, read: ChannelStateRead) -> bool:
        return read.key_groups is None or key_group(row) in groups_in(read.key_groups)

    def sent(self, stage: int, rows: list[str]) -> StageResult:
        output = self._descriptor.outputs[0]
        subpartition = owner(key_group(rows[0]), output.max_parallelism, output.subpartitions)
        outputs = (StageOutput(output=0, batch=self.batches.put(rows, subpartition)),)
        return StageResult(stage=stage, outputs=outputs, rows_in=len(rows), rows_out=len(rows))


class Reader(StagedEngine):
    """A source that reads one split at a time, and sends it to the subtask that owns its key group."""

    def read_splits(self, command: ReadSplits) -> StageResult:
        [split] = command.splits
        return replace(self.sent(command.stage, [split.split_id]), event_time_max=number_of(split.split_id))


class KeyedEngine(StagedEngine):
    """The vertex downstream of the keyed edge. Buffered rows are keyed state, unpublished rows are operator state."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, durable: DurableData) -> None:
        super().__init__(descriptor, durable)
        self._waiting: tuple[str, ...] = ()
        self._noted: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        """For each checkpoint, the rows that are still buffered, and the rows that were released when event time ended.
        """

    def open_chain(self, command: OpenChain) -> ChainOpened:
        self._waiting = tuple(
            row
            for state in (() if command.restore is None else command.restore.operators)
            if state.key_groups is not None
            for handle in state.shared
            for row in self.durable.stored[handle.state_id]
            if key_group(row) in groups_in(state.key_groups)
        )
        assert all(key_group(row) in groups_in(self._owned) for row in self._waiting)
        return replace(super().open_chain(command), has_state=True)

    def process_batch(self, command: ProcessBatch) -> StageResult:
        rows = self.batches.rows[command.batch.batch_id]
        assert all(key_group(row) in groups_in(self._owned) for row in rows), f"{rows} have come to the wrong subtask"
        self.durable.late += [row for row in rows if number_of(row) <= command.watermark_ms]
        self._waiting += tuple(row for row in rows if number_of(row) % 2)
        return replace(self.staged(command.stage, [row for row in rows if number_of(row) % 2 == 0]), rows_in=len(rows))

    def snapshot_state(self, command: SnapshotState) -> StageResult:
        fired: tuple[str, ...] = ()
        if command.watermark_ms == WATERMARK_MAX:
            fired, self._waiting = self._waiting, ()
        self._noted[command.checkpoint_id] = (self._waiting, fired)
        return StageResult(stage=command.stage)

    def prepare_commit(self, command: PrepareCommit) -> CommitPrepared:
        _, fired = self._noted[command.checkpoint_id]
        names = [name for each in command.staged for name in each.names]
        prepared = self.prepared(command.checkpoint_id, [*names, *fired])
        return replace(prepared, rows_staged=len(fired))

    def write_snapshot(self, command: WriteSnapshot) -> SnapshotWritten:
        checkpoint_id = command.checkpoint_id
        waiting, _ = self._noted.pop(checkpoint_id)
        state_id = f"{self._descriptor.attempt}-{checkpoint_id}"
        self.durable.stored[state_id] = waiting
        handle = SharedStateHandle(state_id=state_id, path=state_id, rows=1, size_bytes=1, key_groups=self._owned)
        keyed = OperatorSubtaskState(operator_id=self._operator_id, shared=(handle,), key_groups=self._owned)
        return SnapshotWritten(checkpoint_id=checkpoint_id, operators=(keyed, *command.sinks))

    def discard_snapshot(self, command: DiscardSnapshot) -> None:
        del self._noted[command.checkpoint_id]

    @property
    def _owned(self) -> KeyGroupRange:
        of = self._descriptor.vertex
        return key_groups_of(self._descriptor.subtask, of.max_parallelism, of.parallelism)


class Folder(OneFileAtATime):
    found_at_once = FOUND_AT_ONCE

    def discover(self, position: bytes) -> SplitsDiscovered:
        first = int(position or b"0")
        last = min(first + self.found_at_once, ROWS)
        splits = tuple(
            FileSplit(split_id=SplitId(row), path=f"/in/{row}", start_row=0, rows=1) for row in ALL_ROWS[first:last]
        )
        return SplitsDiscovered(
            operator_id=self._operator_id,
            splits=splits,
            finished=last == ROWS,
            begun_at=position,
            position=b"%d" % last,
        )


class KeyedRows(Names):
    def __init__(self) -> None:
        super().__init__()
        self.durable = self.sink = DurableData()

    def engine(self, descriptor: TaskDeploymentDescriptor, report: Callable[[EngineFailed], object]) -> StagedEngine:
        return (KeyedEngine if descriptor.inputs else Reader)(descriptor, self.durable)

    def split_discovery(self, job_id: JobId, operator: Operator) -> Folder:
        return Folder(operator.operator_id)
