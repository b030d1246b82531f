"""The engine of a simulated attempt: what Spark does with data, done with rows that can be counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from flykka.actors.errors import UnknownBatchError
from flykka.actors.machines.attempt.channel_state import recovered_batch
from flykka.actors.machines.attempt.effects import Lane
from flykka.actors.machines.attempt.output_routes import address, input_addresses
from flykka.actors.machines.state.operator_state import elements_of, list_state
from flykka.messages.state.handles import ExclusiveStateHandle, OperatorSubtaskState, TaskStateSnapshot
from flykka.messages.state.operator_state import COMMITTABLES
from flykka.messages.tasks.batch import BatchRef
from flykka.messages.tasks.bridge import (
    ChainClosed,
    ChainOpened,
    CommitPrepared,
    EngineFailed,
    InFlightPart,
    InFlightRead,
    InFlightWritten,
    OutputCommitted,
    RowsMoved,
    SnapshotWritten,
    StagedOutput,
    WorkFailed,
    WorkProgress,
)
from flykka.messages.tasks.source import IndexRangeSplit
from flykka.messages.tasks.stage import ReadSplits, RunStage
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import BatchId
from flykka.messages.wire.message import Value
from flykka.simulation.flow import Flow, Moved
from flykka.simulation.lanes import Lanes, OnLane
from flykka.simulation.operators import Sink, Source, Window
from flykka.simulation.rows import Rows, event_times, size_of, within
from flykka.simulation.sinks import SinkWriter
from flykka.simulation.windows import SimulatedWindows, WindowsAtBarrier
from flykka.simulation.world import World

_STAGES_IN_FLIGHT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Noted:
    """The windows at a barrier, and what those give that fire with it."""

    stage: int
    state: WindowsAtBarrier
    fired: Rows


class SimulatedEngine:
    """Implements `Engine`. What storage refuses raises `OSError`, a batch that is gone `UnknownBatchError`."""

    outside_state = True

    def __init__(
        self, descriptor: TaskDeploymentDescriptor, world: World, report: Callable[[EngineFailed], object]
    ) -> None:
        self.descriptor = descriptor
        self.world = world
        self._report = report
        self._batches = world.batches_of(descriptor.job_id)
        self._lanes = Lanes(descriptor.attempt, descriptor.vertex.vertex_id, world)
        operators = descriptor.vertex.operators
        behaviours = [world.program[operator.ref.uid] for operator in operators]
        head = behaviours[0]
        self._source = head if isinstance(head, Source) else None
        self._windows = (
            SimulatedWindows(head, operators[0].operator_id, descriptor) if isinstance(head, Window) else None
        )
        self._sinks = {
            operator.operator_id: SinkWriter(behaviour, operator.operator_id, descriptor, world)
            for operator, behaviour in zip(operators, behaviours, strict=True)
            if isinstance(behaviour, Sink)
        }
        self._flow = Flow(descriptor, world, self._sinks)
        self._looked_at: dict[int, Rows] = {}
        self._noted: dict[int, _Noted] = {}
        self._is_cancelled = False
        self._has_ended = False
        self._others = world.attempts.setdefault(descriptor.job_id, [])
        self._others.append(self)

    def lane(self, lane: Lane, number: int, what: str) -> OnLane:
        """A lane of the attempt."""
        return OnLane(self._lanes, lane)

    def open(self, restore: TaskStateSnapshot | None, recover: tuple[InFlightRead, ...]) -> ChainOpened:
        """Read back what the checkpoint holds, in place of the attempt before."""
        self._replace_predecessors()
        states = restore.operators if restore is not None else ()
        for operator_id, writer in self._sinks.items():
            own = [state for state in states if state.operator_id == operator_id]
            writer.restore(elements_of(own, COMMITTABLES, Value))
        if self._windows is not None:
            own = [state for state in states if state.operator_id == self._windows.operator_id]
            self._windows.restore(own, self.world)
        return ChainOpened(
            name=self.descriptor.vertex.name,
            stages_in_flight=_STAGES_IN_FLIGHT,
            has_state=self._windows is not None,
            has_sinks=bool(self._sinks),
            recovered=tuple(self._recover(read) for read in recover),
        )

    def _replace_predecessors(self) -> None:
        mine = (self.descriptor.vertex.vertex_id, self.descriptor.subtask)
        for other in self._others[: self._others.index(self)]:
            if (other.descriptor.vertex.vertex_id, other.descriptor.subtask) == mine:
                other.revoke(f"{self.descriptor.attempt} takes its place")
                self._batches.release_produced(other.descriptor.attempt)

    # Stages

    def read_splits(self, command: ReadSplits) -> RowsMoved:
        """Read splits as one batch."""
        assert self._source is not None, "only a source reads splits"
        ranges = [split for split in command.splits if isinstance(split, IndexRangeSplit)]
        rows = tuple(row for each in ranges for row in self._source.read(each.start, each.rows))
        return _moved(self._flow.move(0, rows, command.stage), rows)

    def process(self, command: RunStage) -> RowsMoved:
        """Take a batch through the chain; what windows keep of it waits for `update_state`."""
        rows = self._batches.take(command.batch.batch_id, self.descriptor.attempt)
        if self._windows is None:
            return _moved(self._flow.apply(0, rows, command.stage), rows)
        self._looked_at[command.stage], late = self._windows.look_at(rows, command.watermark_ms)
        self.world.late_rows += len(late)
        moved = _moved(self._flow.move(0, late, command.stage), rows)
        return replace(moved, late_rows=len(late), updates_state=True)

    def update_state(self, stage: int) -> None:
        """Keep rows for their windows."""
        assert self._windows is not None, "only windows keep state"
        self._windows.fold(self._looked_at.pop(stage))

    def advance_watermark(self, stage: int, watermark_ms: int) -> RowsMoved:
        """Fire windows."""
        assert self._windows is not None, "only windows fire"
        return _moved(self._flow.move(0, self._windows.fire(watermark_ms), stage), ())

    # Snapshots

    def note_state(self, stage: int, checkpoint_id: int, watermark_ms: int | None, is_savepoint: bool) -> None:
        """Note the windows, and what those give that fire with the checkpoint."""
        assert self._windows is not None, "only windows keep state"
        fired = () if watermark_ms is None else self._windows.fire(watermark_ms)
        state = self._windows.at_barrier(everything=is_savepoint)
        self._noted[checkpoint_id] = _Noted(stage=stage, state=state, fired=fired)

    def prepare_commit(self, checkpoint_id: int, staged: tuple[StagedOutput, ...]) -> CommitPrepared:
        """Stage what has fired with the checkpoint, and give all that was staged for it its final names."""
        noted = self._noted.get(checkpoint_id)
        moved = Moved() if noted is None else self._flow.move(0, noted.fired, noted.stage)
        sinks = []
        for operator_id, writer in self._sinks.items():
            names = [name for each in staged + moved.staged if each.operator_id == operator_id for name in each.names]
            committables = (list_state(COMMITTABLES, writer.prepare_commit(checkpoint_id, names)),)
            sinks.append(OperatorSubtaskState(operator_id=operator_id, operator_state=committables))
        rows_staged = sum(each.rows for each in moved.staged)
        return CommitPrepared(sinks=tuple(sinks), rows_out=moved.rows, rows_staged=rows_staged)

    def write_snapshot(
        self, checkpoint_id: int, savepoint: str | None, sinks: tuple[OperatorSubtaskState, ...]
    ) -> SnapshotWritten:
        """Make a snapshot durable, all of it or nothing."""
        noted = self._noted.pop(checkpoint_id, None)
        try:
            return self._written(checkpoint_id, savepoint, noted, sinks)
        except OSError:
            if savepoint is not None:
                self._take_out(savepoint)
            raise

    def _written(
        self, checkpoint_id: int, savepoint: str | None, noted: _Noted | None, sinks: tuple[OperatorSubtaskState, ...]
    ) -> SnapshotWritten:
        states, written = list[OperatorSubtaskState](), 0
        if self._windows is not None and noted is not None:
            folder = savepoint or f"{self.descriptor.checkpoint_directory}/{self.descriptor.job_id}/shared"
            state, written = self._windows.write(
                noted.state, self.world, checkpoint_id, folder, is_savepoint=savepoint is not None
            )
            states.append(state)
        states += sinks if savepoint is None else [self._copied(sink, savepoint) for sink in sinks]
        return SnapshotWritten(operators=tuple(states), incremental_bytes=written)

    def _copied(self, sink: OperatorSubtaskState, savepoint: str) -> OperatorSubtaskState:
        prepared = elements_of([sink], COMMITTABLES, Value)
        pieces, folder, size_bytes = self._sinks[sink.operator_id].copy_into(savepoint, prepared)
        exclusive = (ExclusiveStateHandle(path=folder, size_bytes=size_bytes),) if pieces else ()
        return replace(sink, operator_state=(list_state(COMMITTABLES, pieces),), exclusive=exclusive)

    def _take_out(self, savepoint: str) -> None:
        """Nothing of the attempt stays in a savepoint that it could not write."""
        files, below = self.world.storage.files, f"{self.world.path(savepoint)}/{self.descriptor.attempt}-"
        for path in [path for path in files if path.startswith(below)]:
            del files[path]

    def discard_snapshot(self, checkpoint_id: int) -> None:
        """Forget what was noted."""
        self._noted.pop(checkpoint_id)

    def commit(self, checkpoint_id: int) -> OutputCommitted:
        """Publish what a complete checkpoint holds."""
        if self._windows is not None:
            self._windows.confirm(checkpoint_id)
        return OutputCommitted(
            files=tuple(file for each in self._sinks.values() for file in each.commit(checkpoint_id))
        )

    # Batches

    def hold(self, batch_ids: tuple[BatchId, ...], holder: str) -> None:
        """Keep batches."""
        self._batches.hold(batch_ids, holder)

    def release(self, batch_ids: tuple[BatchId, ...], holder: str) -> None:
        """Let go of batches."""
        self._batches.release(batch_ids, holder)

    def release_held_by(self, holder: str) -> None:
        """Let go of all that one holder holds."""
        self._batches.release_held_by(holder)

    def write_in_flight(self, parts: tuple[InFlightPart, ...]) -> InFlightWritten:
        """Make batches durable, a file for each part."""
        written: list[ExclusiveStateHandle] = []
        try:
            for part in parts:
                # Where a reader was faster than the hold, one is gone: the checkpoint is declined for it.
                rows = tuple(row for batch in part.batches for row in self._batches.rows(batch.batch_id))
                self.world.storage.write(self.world.path(part.path), rows)
                written.append(ExclusiveStateHandle(path=part.path, size_bytes=size_of(rows)))
        except Exception:
            for handle in written:
                self.world.storage.files.pop(self.world.path(handle.path), None)
            raise
        return InFlightWritten(folders=tuple(written))

    def _recover(self, read: InFlightRead) -> BatchRef | None:
        rows = self.world.storage.read_rows(self.world.path(read.in_flight.path))
        if read.key_groups is not None:
            rows = within(rows, read.key_groups, self.descriptor.vertex.max_parallelism)
        if not rows:
            return None
        batch = recovered_batch(read, len(rows), size_of(rows))
        goes_to = None if read.output is None else address(self.descriptor.outputs[read.output], read.subpartition)
        self._batches.put(batch, rows, producer=self.descriptor.attempt, address=goes_to)
        return batch

    # Failures and the end

    def progress(self) -> tuple[WorkProgress, ...]:
        """No piece of work has parts here."""
        return ()

    def failed(self, key: str, what: str, raised: BaseException, *, ends_attempt: bool) -> WorkFailed:
        """What storage refuses may go wrong, and batches be gone; anything else is a mistake, and the bridge's end."""
        if not isinstance(raised, OSError | UnknownBatchError):
            raise raised
        cause = SerializedThrowable(type_name=type(raised).__name__, message=str(raised))
        return WorkFailed(work=key, cause=cause, ends_attempt=ends_attempt)

    def cancel(self) -> None:
        """Let nothing that was begun end."""
        self._is_cancelled = True
        self._lanes.are_closed = True

    def interrupt(self) -> None:
        """Nothing blocks here."""

    def close_chain(self, cancel: bool) -> ChainClosed:
        """Let go of all batches."""
        self._end()
        return ChainClosed()

    def close(self) -> None:
        """The bridge has ended, in whatever way."""
        self._is_cancelled = True
        self._end()

    def revoke(self, why: str) -> None:
        """Another attempt takes the place of this one, or its job is over."""
        if not self._has_ended:
            self._report(EngineFailed(cause=SerializedThrowable(type_name="AttemptReplacedError", message=why)))
            self.close()

    def _end(self) -> None:
        """Only the first end counts: an attempt that has finished leaves its results."""
        if self._has_ended:
            return
        self._has_ended = self._lanes.are_closed = True
        self._batches.release_attempt(
            self.descriptor.attempt, input_addresses(self.descriptor), is_cancelled=self._is_cancelled
        )


def _moved(moved: Moved, rows: Rows) -> RowsMoved:
    times = event_times(rows)
    return RowsMoved(
        outputs=moved.outputs,
        staged=moved.staged,
        rows_in=len(rows),
        rows_out=moved.rows,
        event_time_max=None if times is None else times[1],
    )
