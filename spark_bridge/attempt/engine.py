"""The engine of one execution attempt with Spark: what its machine asks for, done by threads of the attempt.

Each call has what it needs in its arguments; what Spark holds between two of them (late rows looked at, a state that
was noted, windows that are still to be computed) is kept here by the number of the stage or of the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flykka.messages.tasks.bridge import (
    ChainClosed,
    ChainOpened,
    CommitPrepared,
    EngineFailed,
    InFlightWritten,
    OutputCommitted,
    RowsMoved,
    SnapshotWritten,
    WorkFailed,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.spark_bridge.attempt.end import AttemptEnd
from flykka.spark_bridge.attempt.failures import AttemptFailures
from flykka.spark_bridge.attempt.scope import AttemptScope
from flykka.spark_bridge.attempt.stage_executor import STAGES_IN_FLIGHT, StageExecutor
from flykka.spark_bridge.connectors.job_sinks import sink_writers
from flykka.spark_bridge.diagnosis.origins import Origins
from flykka.spark_bridge.diagnosis.progress import read_progress
from flykka.spark_bridge.program.code import SourceCode, WindowCode
from flykka.spark_bridge.stages.chain import bound_chain
from flykka.spark_bridge.stages.flow import Flow, Moved
from flykka.spark_bridge.stages.rich_functions import RichFunctions
from flykka.spark_bridge.stages.window_operator import WindowOperator
from flykka.spark_bridge.state.in_flight import InFlightStore
from flykka.spark_bridge.state.snapshotter import Snapshotter

if TYPE_CHECKING:
    from flykka.actors.machines.attempt.effects import Lane
    from flykka.messages.state.handles import OperatorSubtaskState, TaskStateSnapshot
    from flykka.messages.tasks.bridge import InFlightPart, InFlightRead, StagedOutput, WorkProgress
    from flykka.messages.tasks.stage import ReadSplits, RunStage
    from flykka.messages.tasks.task import TaskDeploymentDescriptor
    from flykka.messages.wire.ids import BatchId
    from flykka.runtime.futures.pipe import Pipe
    from flykka.spark_bridge.attempt.services import Services
    from flykka.spark_bridge.stages.arrivals import Arrived
    from flykka.spark_bridge.stages.source_reader import SourceReader
    from flykka.spark_bridge.stages.window_operator import FiringRows, StateAtBarrier


@dataclass(frozen=True, slots=True)
class _OnLane:
    """A lane of the attempt's threads, for one piece of work."""

    workers: StageExecutor
    lane: Lane
    number: int
    what: str

    def run_blocking(self, work: Pipe[Any]) -> None:
        """Put the work in line."""
        self.workers.run(self.lane, self.number, self.what, work)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Noted:
    """The state at a barrier, and the windows that fire with it and are still to be computed."""

    stage: int
    state: StateAtBarrier
    firing: FiringRows | None


class SparkEngine:
    """Implements `Engine`."""

    outside_state = True

    def __init__(
        self,
        descriptor: TaskDeploymentDescriptor,
        services: Services,
        *,
        report: Callable[[EngineFailed], object],
        predecessor: SparkEngine | None,
    ) -> None:
        """`report` is called from any thread; `predecessor` is the attempt of the same subtask before."""
        self.descriptor = descriptor
        self._services = services
        self._report = report
        subtask = f"{descriptor.job_id}/{descriptor.vertex.vertex_id}/{descriptor.subtask}"
        self._scope = AttemptScope(services.session, descriptor.attempt, pool=subtask)
        self._chain = bound_chain(descriptor, services.registry)
        origins = Origins()
        self._failures = AttemptFailures(services, self._chain, origins)
        self._functions = RichFunctions(self._chain, descriptor, self._scope, services.registry)
        self._workers = StageExecutor(self._scope)
        self.end: AttemptEnd = AttemptEnd(
            descriptor,
            self._scope,
            self._workers,
            services,
            self._functions,
            report=report,
            predecessor=None if predecessor is None else predecessor.end,
        )
        self._writers = sink_writers(descriptor, services, self._scope)
        head = self._chain.head
        self._windows = (
            WindowOperator(head.code, descriptor, self._scope, services.store)
            if isinstance(head.code, WindowCode)
            else None
        )
        self._flow = Flow(self._chain, descriptor, self._scope, services, self._writers, origins)
        self._snapshots = Snapshotter(descriptor, services, self._scope, self._windows, self._writers)
        self._in_flight = InFlightStore(descriptor, services, self._scope)
        self._reader: SourceReader | None = None
        self._arrived: dict[int, Arrived] = {}
        self._noted: dict[int, _Noted] = {}

    def lane(self, lane: Lane, number: int, what: str) -> _OnLane:
        """The threads of a lane."""
        return _OnLane(self._workers, lane, number, what)

    def open(self, restore: TaskStateSnapshot | None, recover: tuple[InFlightRead, ...]) -> ChainOpened:
        """Make the chain ready, when the attempt before it has ended: it may still be on its way out."""
        self.end.await_predecessor()
        self._snapshots.restore(restore)
        if self._windows is not None and self._windows.has_to_read:
            what = f"reading the state of {self._chain.name!r}"
            self._workers.run_in_background(
                what,
                self._windows.read_restored,
                lambda raised: self._report(EngineFailed(cause=self._failures.of_attempt(what, raised))),
            )
        self._functions.open()
        head = self._chain.head
        if isinstance(head.code, SourceCode):
            vertex_id = self.descriptor.vertex.vertex_id
            self._reader = self._services.readers.reader(self._services.session, vertex_id, head, head.code)
        return ChainOpened(
            name=self._chain.name,
            # A rich function is called for one batch after the other.
            stages_in_flight=1 if self._functions else STAGES_IN_FLIGHT,
            has_state=self._windows is not None,
            has_sinks=bool(self._writers),
            recovered=tuple(self._in_flight.read(each) for each in recover),
        )

    # Stages

    def read_splits(self, command: ReadSplits) -> RowsMoved:
        """Read splits as one batch."""
        assert self._reader is not None, "only a source reads splits, and only when it is open"
        rows = self._reader.read(command.splits)
        moved = self._flow.move(self._chain.head, rows.slices, command.stage)
        numbers = rows.numbers() if self._chain.computes else rows.known
        return self._moved(
            moved,
            rows_in=numbers.rows or 0,
            event_time_max=numbers.event_time_max,
            event_time_min=numbers.event_time_min,
        )

    def process(self, command: RunStage) -> RowsMoved:
        """Take a batch through the chain; what windows make of it waits for `update_state`."""
        batch = command.batch
        rows = self._services.store.take(batch.batch_id, self.descriptor.attempt)
        latest = batch.event_time_max
        if self._windows is None:
            moved = self._flow.read(self._chain.head, (rows,), command.stage)
            return self._moved(moved, rows_in=batch.rows, event_time_max=latest)
        arrived = self._arrived[command.stage] = self._windows.look_at(batch, rows, command.watermark_ms)
        moved = self._flow.move_late(self._chain.head, arrived.late, command.stage)
        return self._moved(
            moved, rows_in=batch.rows, event_time_max=latest, late_rows=arrived.late_rows, updates_state=True
        )

    def update_state(self, stage: int) -> None:
        """Fold a batch into the windows."""
        assert self._windows is not None, "only windows keep state"
        self._windows.fold(self._arrived.pop(stage))

    def advance_watermark(self, stage: int, watermark_ms: int) -> RowsMoved:
        """Fire windows."""
        assert self._windows is not None, "only windows fire"
        return self._moved(self._fire(self._windows.fire(watermark_ms), stage))

    def _fire(self, firing: FiringRows | None, stage: int) -> Moved:
        if firing is None or self._windows is None:
            return Moved()
        moved = self._flow.move(self._chain.head, (firing.rows,), stage)
        self._windows.let_go(firing)
        return moved

    def _moved(
        self,
        moved: Moved,
        *,
        rows_in: int = 0,
        event_time_max: int | None = None,
        event_time_min: int | None = None,
        late_rows: int = 0,
        updates_state: bool = False,
    ) -> RowsMoved:
        return RowsMoved(
            outputs=moved.outputs,
            staged=moved.staged,
            rows_in=rows_in,
            rows_out=moved.rows,
            event_time_max=event_time_max,
            event_time_min=event_time_min,
            late_rows=late_rows,
            updates_state=updates_state,
            accumulators=self._functions.accumulators(),
        )

    # Snapshots

    def note_state(self, stage: int, checkpoint_id: int, watermark_ms: int | None, is_savepoint: bool) -> None:
        """Note the windows; those that fire with the checkpoint have left them, and are computed in the background."""
        assert self._windows is not None, "only windows keep state"
        firing = None if watermark_ms is None else self._windows.fire(watermark_ms)
        state = self._windows.at_barrier(checkpoint_id, everything=is_savepoint)
        self._noted[checkpoint_id] = _Noted(stage=stage, state=state, firing=firing)

    def prepare_commit(self, checkpoint_id: int, staged: tuple[StagedOutput, ...]) -> CommitPrepared:
        """Compute what fires with the checkpoint; if that fails the attempt does: the windows have left the state."""
        noted = self._noted.get(checkpoint_id)
        moved = Moved() if noted is None else self._fire(noted.firing, noted.stage)
        sinks = self._snapshots.prepare_commit(checkpoint_id, staged + moved.staged)
        rows_staged = sum(each.rows for each in moved.staged)
        return CommitPrepared(sinks=sinks, rows_out=moved.rows, rows_staged=rows_staged)

    def write_snapshot(
        self, checkpoint_id: int, savepoint: str | None, sinks: tuple[OperatorSubtaskState, ...]
    ) -> SnapshotWritten:
        """Write what was noted."""
        noted = self._noted.pop(checkpoint_id, None)
        return self._snapshots.write(checkpoint_id, savepoint, None if noted is None else noted.state, sinks)

    def discard_snapshot(self, checkpoint_id: int) -> None:
        """Let go of the segments that were to be written."""
        assert self._windows is not None, "only windows keep state"
        self._windows.written(self._noted.pop(checkpoint_id).state, ())

    def commit(self, checkpoint_id: int) -> OutputCommitted:
        """Publish."""
        return OutputCommitted(files=self._snapshots.commit(checkpoint_id))

    # Batches

    def hold(self, batch_ids: tuple[BatchId, ...], holder: str) -> None:
        """Keep batches, whoever else lets go of them."""
        self._services.store.hold(batch_ids, holder)

    def write_in_flight(self, parts: tuple[InFlightPart, ...]) -> InFlightWritten:
        """Write batches, one Spark job for each part."""
        return self._in_flight.write(parts)

    def release(self, batch_ids: tuple[BatchId, ...], holder: str) -> None:
        """Let go of batches."""
        self._services.store.release(batch_ids, holder)

    def release_held_by(self, holder: str) -> None:
        """Let go of all that one holder holds."""
        self._services.store.release_held_by(holder)

    # Failures, progress and the end

    def failed(self, key: str, what: str, raised: BaseException, *, ends_attempt: bool) -> WorkFailed:
        """Why work has failed; where the session was stopped another one is begun, which may take a second."""
        if self._scope.is_cancelled:
            # Nothing waits for it, and what would explain it may be gone.
            return WorkFailed(work=key, cause=SerializedThrowable(type_name=type(raised).__name__, message=what))
        if not ends_attempt and isinstance(raised, Exception):
            cause = self._failures.of_snapshot(what, raised)
            if cause is not None:
                return WorkFailed(work=key, cause=cause, ends_attempt=False)
        return WorkFailed(work=key, cause=self._failures.of_attempt(what, raised))

    def progress(self, at_least_ms: int = 0) -> tuple[WorkProgress, ...]:
        """How far that is which has been at work for so long. Blocks: Spark is asked where there is any."""
        return read_progress(self._scope, self._workers.at_work(), at_least_ms)

    def cancel(self) -> None:
        """Let nothing new begin, and Python functions end."""
        self.end.stop(cancel=True)

    def interrupt(self) -> None:
        """Interrupt the stages that do not end."""
        self._workers.interrupt()

    def close_chain(self, cancel: bool) -> ChainClosed:
        """Wait for the threads, as long as that makes sense."""
        return self.end.wait_closed(cancel=cancel)

    def close(self) -> None:
        """Cancel the attempt, whose bridge has ended in whatever way; nothing happens where it is over."""
        self.end.begin(cancel=True)
