"""One execution attempt on Spark's side: what the bridge is told becomes stages and background work of its threads.

Each stage has a part that overlaps with its neighbours (reading, moving rows) and a part in the order of the stages
(state, the answer). Where nothing leaves the vertex, the windows that wait for a checkpoint are computed in the
background: they are part of the snapshot, and stages go on meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from flykka.messages.job_graph import FiringMode
from flykka.messages.stage import (
    AbortCheckpoint,
    AdvanceWatermark,
    BridgeCommand,
    BridgeOpened,
    ChannelStateWritten,
    CheckpointCommitted,
    CloseBridge,
    CommitCheckpoint,
    HoldInFlight,
    OpenBridge,
    ReadSplits,
    ReleaseBatches,
    RunStage,
    SnapshotFailed,
    SnapshotState,
    StageFailed,
    StageFinished,
    StateSnapshotted,
    WriteChannelState,
)
from flykka.messages.state import TaskStateSnapshot
from flykka.spark_bridge.attempt_end import AttemptEnd
from flykka.spark_bridge.attempt_failures import AttemptFailures
from flykka.spark_bridge.code import SourceCode, WindowCode
from flykka.spark_bridge.errors import UnknownBatchError
from flykka.spark_bridge.failures import serialized
from flykka.spark_bridge.origins import Origins
from flykka.spark_bridge.progress import look_at, without_spark
from flykka.spark_bridge.scope import AttemptScope
from flykka.spark_bridge.sinks.job_sinks import sink_writers
from flykka.spark_bridge.stages.arrivals import Arrived
from flykka.spark_bridge.stages.chain import bound_chain
from flykka.spark_bridge.stages.flow import Flow, Moved
from flykka.spark_bridge.stages.rich_functions import RichFunctions
from flykka.spark_bridge.stages.source_reader import SourceNumbers, SourceReader
from flykka.spark_bridge.stages.window_operator import FiringRows, WindowOperator
from flykka.spark_bridge.state.channel_state import ChannelState, Recovered, without_channel_state
from flykka.spark_bridge.state.snapshotter import Barrier, Snapshotter
from flykka.spark_bridge.workers import Stage, Workers

if TYPE_CHECKING:
    from flykka.messages.bridge import WorkProgress
    from flykka.messages.message import Message
    from flykka.messages.task import TaskDeploymentDescriptor
    from flykka.spark_bridge.services import Services


class Attempt:
    """The Spark side of one execution attempt. `handle` and `close` never block."""

    def __init__(
        self,
        descriptor: TaskDeploymentDescriptor,
        services: Services,
        *,
        report: Callable[[Message], None],
        predecessor: Attempt | None,
    ) -> None:
        """`report` is called from the attempt's threads; `predecessor` is the attempt of the same subtask before."""
        self.descriptor = descriptor
        self._services = services
        self._report = report
        subtask = f"{descriptor.job_id}/{descriptor.vertex.vertex_id}/{descriptor.subtask}"
        self._scope = AttemptScope(services.session, descriptor.attempt, pool=subtask)
        self._chain = bound_chain(descriptor, services.registry)
        origins = Origins()
        self._failures = AttemptFailures(services, self._chain, origins)
        self._functions = RichFunctions(self._chain, descriptor, self._scope, services.registry)
        # A rich function is called for one batch after the other.
        self._workers = Workers(self._scope, self._failed, stages_in_flight=1 if self._functions else 2)
        self.end: AttemptEnd = AttemptEnd(
            descriptor,
            self._scope,
            self._workers,
            services,
            self._functions,
            report=report,
            predecessor=None if predecessor is None else predecessor.end,
        )
        writers = sink_writers(descriptor, services, self._scope)
        head = self._chain.head
        self._windows = (
            WindowOperator(head.code, descriptor, self._scope, services.store)
            if isinstance(head.code, WindowCode)
            else None
        )
        self._flow = Flow(self._chain, descriptor, self._scope, services, writers, origins)
        self._snapshots = Snapshotter(descriptor, services, self._scope, self._windows, writers)
        self._channels = ChannelState(descriptor, services, self._scope)
        self._reader: SourceReader | None = None
        self._defers_firing = descriptor.vertex.firing_mode is FiringMode.ON_CHECKPOINT

    def handle(self, command: BridgeCommand) -> None:
        """Take one command; its answer is reported."""
        match command:
            case OpenBridge():
                self._workers.run_stage(Stage(what="opening", prepare=lambda: self._open(command), settle=self._opened))
            case ReadSplits():
                self._workers.run_stage(self._read_splits(command))
            case RunStage():
                self._workers.run_stage(self._run_stage(command))
            case AdvanceWatermark():
                self._workers.run_stage(self._advance_watermark(command))
            case SnapshotState():
                self._workers.run_stage(self._snapshot_state(command))
            case HoldInFlight():
                self._hold(command)
            case WriteChannelState(checkpoint_id=checkpoint_id):
                what = f"channel state {checkpoint_id} of {self._chain.name!r}"
                self._workers.run_in_background(what, lambda: self._write_channel_state(what, command))
            case CommitCheckpoint(checkpoint_id=checkpoint_id):
                what = f"committing checkpoint {checkpoint_id} of {self._chain.name!r}"
                self._workers.run_in_background(what, lambda: self._commit(checkpoint_id))
            case AbortCheckpoint(checkpoint_id=checkpoint_id):
                # Nothing is undone: staged files stay pending and are published with the next checkpoint, and state
                # that was written for this one is written anew, for only complete checkpoints are referred to.
                self._snapshots.abort(checkpoint_id)
                self._channels.let_go(checkpoint_id)
            case ReleaseBatches(batch_ids=batch_ids):
                self._services.store.release(batch_ids)
            case CloseBridge(cancel=cancel, interrupt=interrupt):
                self.end.begin(cancel=cancel)
                if interrupt:
                    self._workers.interrupt()
            case _:
                assert_never(command)

    def progress(self, at_least_ms: int = 0) -> tuple[WorkProgress, ...]:
        """How far that is which has been at work for so long. Blocks: Spark is asked where there is any."""
        return look_at(self._scope, self._workers.at_work(), at_least_ms)

    def progress_without_spark(self) -> tuple[WorkProgress, ...]:
        """What is at work, where Spark does not say how far it is."""
        return without_spark(self._workers.at_work())

    def close(self) -> None:
        """Cancel the attempt, whose actor has ended in whatever way; nothing happens where it is over."""
        self.end.begin(cancel=True)

    # Opening

    def _open(self, command: OpenBridge) -> Recovered:
        # A killed attempt may still be on its way out.
        self.end.await_predecessor()
        self._snapshots.restore(without_channel_state(command.restore))
        if self._windows is not None and self._windows.has_to_read:
            self._workers.run_in_background(f"reading the state of {self._chain.name!r}", self._windows.read_restored)
        self._functions.open()
        head = self._chain.head
        if isinstance(head.code, SourceCode):
            vertex_id = self.descriptor.vertex.vertex_id
            self._reader = self._services.readers.reader(self._services.session, vertex_id, head, head.code)
        return self._channels.recover(command.restore)

    def _opened(self, recovered: Recovered) -> None:
        self._report(BridgeOpened(recovered_inputs=recovered.inputs, recovered_outputs=recovered.outputs))

    # Stages

    def _read_splits(self, command: ReadSplits) -> Stage[tuple[SourceNumbers, Moved, int]]:
        def prepare() -> tuple[SourceNumbers, Moved, int]:
            begun = time.monotonic_ns()
            assert self._reader is not None, "only a source reads splits, and only when it is open"
            rows = self._reader.read(command.splits)
            moved = self._flow.move(self._chain.head, rows.slices, command.stage)
            return rows.numbers() if self._chain.computes else rows.known, moved, begun

        def settle(prepared: tuple[SourceNumbers, Moved, int]) -> None:
            numbers, moved, begun = prepared
            self._finish(
                command.stage,
                moved,
                begun,
                rows_in=numbers.rows or 0,
                event_time_max=numbers.event_time_max,
                event_time_min=numbers.event_time_min,
            )

        return Stage(what=self._what(command.stage), prepare=prepare, settle=settle)

    def _run_stage(self, command: RunStage) -> Stage[tuple[Arrived | None, Moved, int]]:
        batch, reader = command.batch, self.descriptor.attempt

        def prepare() -> tuple[Arrived | None, Moved, int]:
            begun = time.monotonic_ns()
            rows = self._services.store.take(batch.batch_id, reader)
            if self._windows is None:
                return None, self._flow.read(self._chain.head, (rows,), command.stage), begun
            arrived = self._windows.look_at(batch, rows, command.watermark_ms)
            return arrived, self._flow.move_late(self._chain.head, arrived.late, command.stage), begun

        def settle(prepared: tuple[Arrived | None, Moved, int]) -> None:
            arrived, moved, begun = prepared
            late_rows = 0
            if arrived is not None:
                assert self._windows is not None
                self._windows.fold(arrived)
                late_rows = arrived.late_rows
            self._services.store.release((batch.batch_id,), reader)
            latest = batch.event_time_max
            self._finish(command.stage, moved, begun, rows_in=batch.rows, event_time_max=latest, late_rows=late_rows)

        return Stage(what=self._what(command.stage), prepare=prepare, settle=settle)

    def _advance_watermark(self, command: AdvanceWatermark) -> Stage[None]:
        def settle(_: None) -> None:
            begun = time.monotonic_ns()
            self._finish(command.stage, self._fire(self._firing(command.watermark_ms), command.stage), begun)

        return Stage(what=self._what(command.stage), prepare=_nothing, settle=settle)

    def _snapshot_state(self, command: SnapshotState) -> Stage[None]:
        def settle(_: None) -> None:
            begun = time.monotonic_ns()
            if not self._snapshots.has_state:
                self._finish(command.stage, Moved(), begun, snapshot=_nothing_written(command.checkpoint_id))
                return
            firing = self._firing(command.watermark_ms) if self._defers_firing else None
            moved = Moved()
            if firing is not None and self._chain.has_outputs:
                # It goes down before the barrier does.
                moved, firing = self._fire(firing, command.stage), None
            barrier = self._snapshots.at_barrier(command.checkpoint_id, moved.staged, command.options.target_location)
            sync_ms = _since(begun)
            self._finish(command.stage, replace(moved, staged=()), begun)
            what = f"snapshot {command.checkpoint_id} of {self._chain.name!r}"
            self._workers.run_in_background(what, lambda: self._write_snapshot(command, barrier, firing, sync_ms))

        return Stage(what=self._what(command.stage), prepare=_nothing, settle=settle)

    def _firing(self, watermark_ms: int) -> FiringRows | None:
        return None if self._windows is None else self._windows.fire(watermark_ms)

    def _fire(self, firing: FiringRows | None, stage: int) -> Moved:
        if firing is None or self._windows is None:
            return Moved()
        moved = self._flow.move(self._chain.head, (firing.rows,), stage)
        self._windows.let_go(firing)
        return moved

    # In the background

    def _write_snapshot(
        self, command: SnapshotState, barrier: Barrier, firing: FiringRows | None, sync_ms: int
    ) -> None:
        begun = time.monotonic_ns()
        # If this fails the attempt does: the windows have left the state.
        moved = self._fire(firing, command.stage)
        sinks = self._snapshots.prepare_commit(barrier, moved.staged)
        try:
            written = self._snapshots.write(barrier, sinks)
        except Exception as raised:  # noqa: BLE001 - it is reported, and the checkpoint declined
            self._scope.check()
            cause = self._failures.of_snapshot(f"snapshot {command.checkpoint_id} of {self._chain.name!r}", raised)
            self._report(SnapshotFailed(checkpoint_id=command.checkpoint_id, cause=cause))
            return
        if written is None:
            return
        self._report(
            StateSnapshotted(
                checkpoint_id=command.checkpoint_id,
                state=written.state,
                size_bytes=written.size_bytes,
                incremental_bytes=written.incremental_bytes,
                sync_ms=sync_ms,
                async_ms=_since(begun),
                rows_out=moved.rows,
                sink_rows=self._snapshots.sink_rows(),
            )
        )

    # Batches in flight

    def _hold(self, command: HoldInFlight) -> None:
        try:
            self._channels.hold(command.checkpoint_id, command.batch_ids)
        except UnknownBatchError as gone:
            # Its reader was faster than this command; the next checkpoint does without it.
            what = f"channel state {command.checkpoint_id} of {self._chain.name!r}"
            self._report(SnapshotFailed(checkpoint_id=command.checkpoint_id, cause=serialized(what, gone)))

    def _write_channel_state(self, what: str, command: WriteChannelState) -> None:
        checkpoint_id = command.checkpoint_id
        try:
            state = self._channels.write(command)
        except Exception as raised:  # noqa: BLE001 - it is reported, and the checkpoint declined
            self._scope.check()
            cause = self._failures.of_snapshot(what, raised)
            self._report(SnapshotFailed(checkpoint_id=checkpoint_id, cause=cause))
            return
        finally:
            self._channels.let_go(checkpoint_id)
        size_bytes = sum(handle.size_bytes for handle in state.exclusive)
        self._report(ChannelStateWritten(checkpoint_id=checkpoint_id, state=state, size_bytes=size_bytes))

    def _commit(self, checkpoint_id: int) -> None:
        files, sink_rows = self._snapshots.commit(checkpoint_id)
        self._report(CheckpointCommitted(checkpoint_id=checkpoint_id, files=files, sink_rows=sink_rows))

    # Answers

    def _finish(
        self,
        stage: int,
        moved: Moved,
        begun: int,
        *,
        rows_in: int = 0,
        event_time_max: int | None = None,
        event_time_min: int | None = None,
        late_rows: int = 0,
        snapshot: StateSnapshotted | None = None,
    ) -> None:
        self._snapshots.note_staged(moved.staged)
        self._report(
            StageFinished(
                stage=stage,
                outputs=moved.outputs,
                rows_in=rows_in,
                rows_out=moved.rows,
                event_time_max=event_time_max,
                event_time_min=event_time_min,
                late_rows=late_rows,
                duration_ms=_since(begun),
                accumulators=self._functions.accumulators(),
                snapshot=snapshot,
                sink_rows=self._snapshots.sink_rows(),
            )
        )

    def _failed(self, what: str, raised: BaseException) -> None:
        self._report(StageFailed(cause=self._failures.of_attempt(what, raised)))

    def _what(self, stage: int) -> str:
        return f"stage {stage} of {self._chain.name!r}"


def _nothing() -> None:
    return None


def _since(begun: int) -> int:
    return (time.monotonic_ns() - begun) // 1_000_000


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
