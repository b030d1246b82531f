"""An engine without rows: it answers by the protocol alone, as soon as it is asked.

It stands behind the bridges of recorded jobs, of forks of these, and of benchmarks of the control plane. What a stage
makes is a batch for each reader it has to have one for, with the number of rows that went in. State is empty, and
durable at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from flykka.actors.machines.bridge.effects import Lane
from flykka.actors.machines.bridge.output_routes import OutputRoutes, is_split
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.state.handles import ExclusiveStateHandle, OperatorSubtaskState, TaskStateSnapshot
from flykka.messages.tasks.batch import BatchRef
from flykka.messages.tasks.bridge import (
    ChainClosed,
    ChainOpened,
    CommitPrepared,
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
from flykka.messages.tasks.stage import HandleOperatorEvents, ReadSplits, RunStage, StageOutput
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.ids import BatchId
from flykka.runtime.dispatch.pipe import Executor, Pipe


class AtOnce:
    """Does work where it is begun: it does not block."""

    def run_blocking(self, work: Pipe[Any]) -> None:
        """Do it."""
        work.run()


_AT_ONCE = AtOnce()


class EmptyEngine:
    """Implements `Engine`."""

    outside_state = True

    def __init__(self, descriptor: TaskDeploymentDescriptor) -> None:
        self._descriptor = descriptor
        operators = descriptor.vertex.operators
        self._sinks = [operator.operator_id for operator in operators if operator.kind is OperatorKind.SINK]
        self._routes = OutputRoutes(descriptor, lambda seed: Random(seed).randrange)

    def lane(self, lane: Lane, number: int, what: str) -> Executor:
        """There is nothing to wait for."""
        return _AT_ONCE

    def open(self, restore: TaskStateSnapshot | None, recover: tuple[InFlightRead, ...]) -> ChainOpened:
        """As with rows, only a sink has something to commit."""
        name, recovered = self._descriptor.vertex.name, tuple(None for _ in recover)
        return ChainOpened(name=name, has_sinks=bool(self._sinks), recovered=recovered)

    def read_splits(self, command: ReadSplits) -> RowsMoved:
        """As many rows as the splits say."""
        return self._moved(command.stage, sum(split.rows for split in command.splits))

    def process(self, command: RunStage) -> RowsMoved:
        """As many rows as the batch has."""
        return self._moved(command.stage, command.batch.rows)

    def update_state(self, stage: int) -> None:
        """There is none."""

    def advance_watermark(self, stage: int, watermark_ms: int, processing_time_ms: int) -> RowsMoved:
        """Nothing fires."""
        return RowsMoved()

    def advance_processing_time(self, stage: int, processing_time_ms: int, watermark_ms: int) -> RowsMoved:
        """There are no timers."""
        return RowsMoved()

    def handle_operator_events(self, command: HandleOperatorEvents) -> RowsMoved:
        """There is no function."""
        return RowsMoved()

    def note_state(self, stage: int, checkpoint_id: int, watermark_ms: int | None, everything: bool) -> None:
        """There is none."""

    def prepare_commit(self, checkpoint_id: int, staged: tuple[StagedOutput, ...]) -> CommitPrepared:
        """Nothing was staged."""
        return CommitPrepared()

    def write_snapshot(
        self, checkpoint_id: int, savepoint: str | None, sinks: tuple[OperatorSubtaskState, ...]
    ) -> SnapshotWritten:
        """Nothing, which is durable."""
        return SnapshotWritten()

    def discard_snapshot(self, checkpoint_id: int) -> None:
        """There is none."""

    def hold(self, batch_ids: tuple[BatchId, ...], holder: str) -> None:
        """There are no batches."""

    def write_in_flight(self, parts: tuple[InFlightPart, ...]) -> InFlightWritten:
        """Folders without a byte."""
        return InFlightWritten(folders=tuple(ExclusiveStateHandle(path=part.path, size_bytes=0) for part in parts))

    def commit(self, checkpoint_id: int) -> OutputCommitted:
        """There is nothing to see."""
        return OutputCommitted()

    def close_chain(self, cancel: bool) -> ChainClosed:
        """Nothing runs."""
        return ChainClosed()

    def progress(self) -> tuple[WorkProgress, ...]:
        """Nothing is known of any work."""
        return ()

    def failed(self, key: str, what: str, raised: BaseException, *, ends_attempt: bool) -> WorkFailed:
        """Nothing in here can fail: raise what has."""
        raise raised

    def release(self, batch_ids: tuple[BatchId, ...], holder: str) -> None:
        """There are no batches."""

    def release_held_by(self, holder: str) -> None:
        """There are no batches."""

    def cancel(self) -> None:
        """Nothing runs."""

    def interrupt(self) -> None:
        """Nothing runs."""

    def close(self) -> None:
        """Nothing is held."""

    def _moved(self, stage: int, rows: int) -> RowsMoved:
        if not rows:
            return RowsMoved()
        outputs = tuple(self._outputs(stage, rows))
        # As if each of its sinks published per checkpoint.
        staged = tuple(StagedOutput(operator_id=sink, names=(str(stage),), rows=rows) for sink in self._sinks)
        return RowsMoved(outputs=outputs, staged=staged, rows_in=rows, rows_out=rows if outputs else 0)

    def _outputs(self, stage: int, rows: int) -> Iterator[StageOutput]:
        for output in self._descriptor.outputs:
            if is_split(output):
                share, left = divmod(rows, output.subpartitions)
                parts = {each: share + (each < left) for each in range(output.subpartitions)}
            else:
                parts = dict.fromkeys(self._routes.receivers(output), rows)
            for subpartition, part in parts.items():
                name = self._routes.batch_id(stage, output, subpartition)
                batch = BatchRef(batch_id=name, rows=part, size_bytes=part, subpartition=subpartition)
                yield StageOutput(output=output.output, batch=batch)
