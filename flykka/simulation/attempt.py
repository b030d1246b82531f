"""One execution attempt of a simulation: what its stages make of rows, and what its snapshots hold.

The same steps as the bridge to Spark takes, without threads; when a step is taken is decided by `bridge.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from flykka.actors.state.operator_state import elements_of, list_state
from flykka.messages.job_graph import FiringMode
from flykka.messages.message import Value
from flykka.messages.operator_state import COMMITTABLES
from flykka.messages.source import IndexRangeSplit
from flykka.messages.stage import (
    AdvanceWatermark,
    BridgeOpened,
    OpenBridge,
    ReadSplits,
    RunStage,
    SnapshotState,
    StageFinished,
    StageOutput,
    StateSnapshotted,
)
from flykka.messages.state import ExclusiveStateHandle, OperatorSubtaskState, TaskStateSnapshot
from flykka.messages.task import TaskDeploymentDescriptor
from flykka.simulation.channels import SimulatedChannels
from flykka.simulation.flow import Flow
from flykka.simulation.operators import Sink, Source, Window
from flykka.simulation.rows import Rows, event_times
from flykka.simulation.sinks import SinkWriter
from flykka.simulation.windows import SimulatedWindows, WindowsAtBarrier
from flykka.simulation.world import World
from flykka.spark_bridge.sinks.sink_rows import SinkRowCounter

StageCommand = ReadSplits | RunStage | AdvanceWatermark | SnapshotState


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """The attempt's state as it was at a barrier: what a snapshot is written of."""

    command: SnapshotState
    windows: WindowsAtBarrier | None
    staged: tuple[tuple[SinkWriter, tuple[str, ...]], ...]


class SimulatedAttempt:
    """The rows and the state of one attempt."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, world: World) -> None:
        self.descriptor = descriptor
        self.world = world
        self.channels = SimulatedChannels(descriptor, world)
        operators = descriptor.vertex.operators
        behaviours = [world.program[operator.ref.uid] for operator in operators]
        self._head = operators[0]
        head = behaviours[0]
        self._source = head if isinstance(head, Source) else None
        self._windows = SimulatedWindows(head, self._head.operator_id, descriptor) if isinstance(head, Window) else None
        self.sink_rows = SinkRowCounter()
        self._sinks = {
            operator.operator_id: SinkWriter(behaviour, operator.operator_id, descriptor, world, self.sink_rows)
            for operator, behaviour in zip(operators, behaviours, strict=True)
            if isinstance(behaviour, Sink)
        }
        self._flow = Flow(descriptor, world, self._sinks)
        self._defers_firing = descriptor.vertex.firing_mode is FiringMode.ON_CHECKPOINT
        self._aborted: set[int] = set()
        self.is_over = False
        others = world.attempts.setdefault(descriptor.job_id, [])
        for other in others:
            before = other.descriptor
            if (before.vertex.vertex_id, before.subtask) == (descriptor.vertex.vertex_id, descriptor.subtask):
                world.batches.release_kept(before.attempt)
        others.append(self)

    def open(self, command: OpenBridge) -> BridgeOpened:
        """Read back what the checkpoint holds. Raises `OSError`."""
        states = command.restore.operators if command.restore is not None else ()
        for operator_id, writer in self._sinks.items():
            own = [state for state in states if state.operator_id == operator_id]
            writer.restore(elements_of(own, COMMITTABLES, Value))
        if self._windows is not None:
            head = self._head.operator_id
            plain = [each for each in states if not each.input_channels and not each.result_subpartitions]
            self._windows.restore([state for state in plain if state.operator_id == head], self.world)
        return self.channels.recover(states)

    # Stages

    def begin(self, command: StageCommand) -> Rows:
        """The rows that a stage works on, taken when it begins. Raises `BatchReleasedError`."""
        match command:
            case ReadSplits(splits=splits):
                assert self._source is not None, "only a source reads splits"
                ranges = [split for split in splits if isinstance(split, IndexRangeSplit)]
                return tuple(row for each in ranges for row in self._source.read(each.start, each.rows))
            case RunStage(batch=batch):
                return self.world.batches.take(batch.batch_id, self.descriptor.attempt)
            case AdvanceWatermark() | SnapshotState():
                return ()
            case _:
                assert_never(command)

    def finish(self, command: StageCommand, rows: Rows) -> tuple[StageFinished, Barrier | None]:
        """What a stage makes; behind a barrier, what a snapshot is to be written of. Raises `OSError`."""
        match command:
            case ReadSplits(stage=stage):
                return self._finished(stage, rows, self._flow.move(0, rows, stage)), None
            case RunStage(stage=stage, batch=batch, watermark_ms=watermark_ms):
                outputs, late = self._process(rows, stage, watermark_ms)
                self.world.batches.release([batch.batch_id], self.descriptor.attempt)
                return self._finished(stage, rows, outputs, late_rows=late), None
            case AdvanceWatermark(stage=stage, watermark_ms=watermark_ms):
                fired = () if self._windows is None else self._windows.fire(watermark_ms)
                return self._finished(stage, (), self._flow.move(0, fired, stage)), None
            case SnapshotState(stage=stage, checkpoint_id=checkpoint_id) if not self._has_state:
                return replace(self._finished(stage, (), []), snapshot=_nothing_written(checkpoint_id)), None
            case SnapshotState(stage=stage, watermark_ms=watermark_ms):
                fired = self._windows.fire(watermark_ms) if self._windows is not None and self._defers_firing else ()
                outputs = self._flow.move(0, fired, stage)
                return self._finished(stage, (), outputs), self._at_barrier(command)
            case _:
                assert_never(command)

    @property
    def _has_state(self) -> bool:
        """Whether there can be anything to write for a snapshot, or to commit."""
        return self._windows is not None or bool(self._sinks)

    def _process(self, rows: Rows, stage: int, watermark_ms: int) -> tuple[list[StageOutput], int]:
        if self._windows is None:
            return self._flow.apply(0, rows, stage), 0
        late = self._windows.take(rows, watermark_ms)
        self.world.late_rows += len(late)
        return self._flow.move(0, late, stage), len(late)

    def _finished(self, stage: int, rows: Rows, outputs: list[StageOutput], *, late_rows: int = 0) -> StageFinished:
        times = event_times(rows)
        return StageFinished(
            stage=stage,
            outputs=tuple(outputs),
            rows_in=len(rows),
            rows_out=sum(output.batch.rows for output in outputs),
            event_time_max=None if times is None else times[1],
            late_rows=late_rows,
            sink_rows=self.sink_rows.news(),
        )

    # Snapshots

    def _at_barrier(self, command: SnapshotState) -> Barrier:
        is_savepoint = command.options.target_location is not None
        self.sink_rows.at_barrier(command.checkpoint_id)
        return Barrier(
            command=command,
            windows=None if self._windows is None else self._windows.at_barrier(everything=is_savepoint),
            staged=tuple((writer, writer.at_barrier()) for writer in self._sinks.values()),
        )

    def write_snapshot(self, barrier: Barrier) -> StateSnapshotted | None:
        """Make a snapshot durable; None where it was aborted. To be called for each barrier. Raises `OSError`."""
        checkpoint_id, savepoint = barrier.command.checkpoint_id, barrier.command.options.target_location
        # From here on this is in every snapshot to come, whatever becomes of this one.
        prepared = [(writer, writer.prepare_commit(checkpoint_id, staged)) for writer, staged in barrier.staged]
        if checkpoint_id in self._aborted:
            return None
        try:
            states, written = self._written(barrier, prepared, savepoint)
        except OSError:
            if savepoint is not None:
                self._take_out(savepoint)
            raise
        return StateSnapshotted(
            checkpoint_id=checkpoint_id,
            state=TaskStateSnapshot(operators=tuple(states)),
            size_bytes=sum(map(_size_bytes, states)),
            incremental_bytes=written,
            sync_ms=0,
            async_ms=0,
        )

    def _written(
        self, barrier: Barrier, prepared: list[tuple[SinkWriter, tuple[Value, ...]]], savepoint: str | None
    ) -> tuple[list[OperatorSubtaskState], int]:
        descriptor, states, written = self.descriptor, list[OperatorSubtaskState](), 0
        if self._windows is not None and barrier.windows is not None:
            folder = savepoint or f"{descriptor.checkpoint_directory}/{descriptor.job_id}/shared"
            checkpoint_id, is_savepoint = barrier.command.checkpoint_id, savepoint is not None
            state, written = self._windows.write(
                barrier.windows, self.world, checkpoint_id, folder, is_savepoint=is_savepoint
            )
            states.append(state)
        for writer, pieces in prepared:
            exclusive: tuple[ExclusiveStateHandle, ...] = ()
            if savepoint is not None:
                pieces, folder, size_bytes = writer.copy_into(savepoint, pieces)
                exclusive = (ExclusiveStateHandle(path=folder, size_bytes=size_bytes),) if pieces else ()
            committables = (list_state(COMMITTABLES, pieces),)
            states.append(
                OperatorSubtaskState(operator_id=writer.operator_id, operator_state=committables, exclusive=exclusive)
            )
        return states, written

    def _take_out(self, savepoint: str) -> None:
        """Nothing of the attempt stays in a savepoint that it could not write."""
        storage, below = self.world.storage, f"{self.world.path(savepoint)}/{self.descriptor.attempt}-"
        for path in [path for path in storage.files if path.startswith(below)]:
            del storage.files[path]

    def abort(self, checkpoint_id: int) -> None:
        """Nobody waits for the checkpoint any more."""
        self._aborted.add(checkpoint_id)
        self.channels.let_go(checkpoint_id)

    def commit(self, checkpoint_id: int) -> tuple[str, ...]:
        """Publish what a complete checkpoint holds; the files. Raises `OSError`."""
        if self._windows is not None:
            self._windows.confirm(checkpoint_id)
        files = tuple(file for writer in self._sinks.values() for file in writer.commit(checkpoint_id))
        self.sink_rows.commit(checkpoint_id)
        return files

    def end(self, *, is_cancelled: bool) -> None:
        """The attempt is over: let go of all batches. Only the first end counts: who has finished leaves results."""
        if self.is_over:
            return
        self.is_over = True
        addresses = frozenset(
            (channel.partition_id, channel.subpartition) for gate in self.descriptor.inputs for channel in gate.channels
        )
        self.world.batches.release_attempt(self.descriptor.attempt, addresses, is_cancelled=is_cancelled)


def _size_bytes(state: OperatorSubtaskState) -> int:
    shared = sum(handle.size_bytes for handle in state.shared)
    return shared + sum(handle.size_bytes for handle in state.exclusive)


def _nothing_written(checkpoint_id: int) -> StateSnapshotted:
    return StateSnapshotted(
        checkpoint_id=checkpoint_id,
        state=TaskStateSnapshot(),
        size_bytes=0,
        incremental_bytes=0,
        sync_ms=0,
        async_ms=0,
        awaits_commit=False,
    )
