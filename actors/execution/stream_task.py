"""What a Task decides while it runs: which stage is next, what goes down its outputs, and when it has finished.

Mirrors Flink's StreamTask with its mailbox: one event at a time. Elements of the inputs become stages of the bridge or
followers behind them, in the order in which they were read; what a stage made goes out when it has finished. The task
reads on while stages are in flight (two at the most), its outputs take more, and no end is near.

Not here: how channels and credits work (`actors.exchange`), what a stage computes (the bridge), who the JobMaster is.
"""

from __future__ import annotations

from typing import assert_never

from flykka.actors.exchange.effects import ChannelFailed, ChannelFailureKind
from flykka.actors.exchange.watermark_generators import MonotonyViolated
from flykka.actors.execution.attempt_life import AttemptLife
from flykka.actors.execution.declines import decline
from flykka.actors.execution.effects import LogWarning, TaskEffect, TellBridge, TellJobMaster
from flykka.actors.execution.events import BridgeLost, StartTask, TaskEvent
from flykka.actors.execution.idleness import SourceIdleness
from flykka.actors.execution.partition_producer import ask, consequence
from flykka.actors.execution.snapshots import Begin, Snapshots
from flykka.actors.execution.split_reader import SplitReader
from flykka.actors.execution.stage_line import STAGES_IN_FLIGHT, Fire, Process, Read, Snapshot, StageLine
from flykka.actors.execution.task_inputs import (
    BatchArrived,
    EndOfDataReached,
    PassedOn,
    SnapshotDue,
    SnapshotGivenUp,
    TaskInputs,
    WatermarkAdvanced,
)
from flykka.actors.ignore import Ignore
from flykka.messages.checkpoint import (
    CheckpointDeclineReason,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    TriggerCheckpoint,
)
from flykka.messages.exchange import (
    WATERMARK_MAX,
    WATERMARK_MIN,
    AddCredit,
    BacklogAnnouncement,
    BufferResponse,
    CancelCheckpointMarker,
    CancelPartitionRequest,
    CheckpointBarrier,
    EndOfData,
    EndOfPartition,
    ErrorResponse,
    PartitionRequest,
    PartitionRequestDue,
    Watermark,
    WatermarkStatus,
)
from flykka.messages.failure import SerializedThrowable
from flykka.messages.job_graph import FiringMode, OperatorKind, TaskCancellationSettings
from flykka.messages.ref import Ref
from flykka.messages.source import AddSplits, NoMoreSplits, RequestSplits
from flykka.messages.stage import (
    AbortCheckpoint,
    AdvanceWatermark,
    BridgeClosed,
    BridgeOpened,
    CheckpointCommitted,
    CommitCheckpoint,
    OpenBridge,
    ReadSplits,
    RunStage,
    SnapshotFailed,
    SnapshotState,
    StageFailed,
    StageFinished,
    StateSnapshotted,
)
from flykka.messages.task import (
    CancellationDue,
    CancelTask,
    FailTask,
    IdleDue,
    MetricsDue,
    PartitionProducerState,
    TaskDeploymentDescriptor,
)

SPLITS_AHEAD = 2 * STAGES_IN_FLIGHT
"""Splits held or asked for: enough to go on while the JobMaster holds assignments back for a checkpoint."""


class StreamTask:
    """The machine of one execution attempt, whose actor is `task`."""

    def __init__(
        self, descriptor: TaskDeploymentDescriptor, task: Ref, cluster: TaskCancellationSettings | None = None
    ) -> None:
        vertex = descriptor.vertex
        self._descriptor = descriptor
        self._life = AttemptLife(descriptor.attempt, cluster)
        self._snapshots = Snapshots(descriptor.job_id, descriptor.attempt)
        self._inputs = TaskInputs(descriptor.inputs, task)
        self._line = StageLine(descriptor)
        self._reader = _reader(descriptor)
        self._idleness = SourceIdleness(vertex.idle_timeout_ms)
        kinds = {operator.kind for operator in vertex.operators}
        self._has_windows = OperatorKind.WINDOW_AGGREGATE in kinds
        self._defers_firing = self._has_windows and vertex.firing_mode is FiringMode.ON_CHECKPOINT
        self._end_of_data = False
        self._final_checkpoint: int | None = None

    @property
    def life(self) -> AttemptLife:
        """State of the attempt."""
        return self._life

    def handle(self, event: TaskEvent, now: int) -> list[TaskEffect]:
        """Take one event at virtual time `now` (ms); what is to be done about it, in order."""
        self._line.pass_time(now)
        self._life.pass_time(now)
        effects = self._on_event(event, now)
        self._line.spend_time(is_running=self._life.is_running, has_input=self._has_input)
        return effects

    def _on_event(self, event: TaskEvent, now: int) -> list[TaskEffect]:
        match event:
            case StartTask():
                self._life.deploy(self._descriptor.task_cancellation)
                return [self._open_bridge()]
            case BridgeClosed():
                return [self._line.report(), *self._life.bridge_closed()]
            case BridgeLost(cause=cause):
                return self._life.bridge_lost(cause)
            case StageFailed(cause=cause) | FailTask(cause=cause):
                return self._life.fail(cause)
            case CancelTask():
                return self._life.cancel()
            case CancellationDue():
                return self._life.cancellation_due()
            case BridgeOpened():
                return self._on_bridge_opened(now)
            case TriggerCheckpoint() if not self._life.is_running:
                reason = CheckpointDeclineReason.CHECKPOINT_DECLINED_TASK_NOT_READY
                return [decline(self._descriptor, event.checkpoint_id, reason)]
            case PartitionRequest() | AddCredit() | CancelPartitionRequest():
                # Served in every state: what is queued here is somebody's input.
                return self._line.serve(event) + self._read_on(now)
            case StateSnapshotted():
                # Told in every state: what comes too late is the coordinator's to delete, and only it knows that.
                return self._on_snapshotted(event)
            case _ if not self._life.is_running:
                return [Ignore(reason=f"{type(event).__name__} in state {self._life.state}")]
            case _:
                return self._on_running(event, now) + self._read_on(now)

    def check(self) -> None:
        """Assert the invariants of the parts."""
        self._line.check()
        self._inputs.check()

    def _on_running(self, event: TaskEvent, now: int) -> list[TaskEffect]:
        match event:
            case ErrorResponse(partition_not_found=True, partition_id=partition_id):
                asked = ask(self._descriptor.attempt, partition_id)
                return [*self._inputs.handle(event), *self._input_failure(), *asked]
            case PartitionProducerState():
                return self._life.follow(consequence(event))
            case BufferResponse() | BacklogAnnouncement() | ErrorResponse() | PartitionRequestDue():
                return self._inputs.handle(event) + self._input_failure()
            case StageFinished():
                return self._on_stage_finished(event, now)
            case AddSplits(splits=splits, numbers=numbers) if self._reader is not None:
                self._reader.add(splits, numbers)
                return []
            case NoMoreSplits() if self._reader is not None:
                self._reader.no_more()
                return []
            case MetricsDue():
                return [self._line.report()]
            case IdleDue():
                return self._on_idle_due(now)
            case TriggerCheckpoint():
                return self._on_trigger(event, now)
            case SnapshotFailed():
                return self._on_snapshot_failed(event)
            case NotifyCheckpointComplete(checkpoint_id=checkpoint_id):
                return [TellBridge(message=CommitCheckpoint(checkpoint_id=checkpoint_id))]
            case NotifyCheckpointAborted(checkpoint_id=checkpoint_id):
                return self._on_aborted(checkpoint_id)
            case CheckpointCommitted(checkpoint_id=checkpoint_id):
                return self._on_committed(checkpoint_id)
            case _:
                return [Ignore(reason=f"{type(event).__name__} is nothing for a task in state {self._life.state}")]

    def _input_failure(self) -> list[TaskEffect]:
        match self._inputs.failure:
            case None:
                return []
            case ChannelFailed(kind=ChannelFailureKind.PRODUCER_FAILED):
                # Not this task's fault: the producer's own failure decides what follows (Flink's CancelTaskException).
                return self._life.cancel()
            case ChannelFailed(cause=cause):
                return self._life.fail(cause)
            case unreachable:
                assert_never(unreachable)

    # Opening and reading on

    def _open_bridge(self) -> TaskEffect:
        restore = self._descriptor.restore
        if restore is not None and self._reader is not None:
            self._reader.restore(restore.operators)
        opening = OpenBridge(restore=restore, restored_checkpoint_id=self._descriptor.restored_checkpoint_id)
        return TellBridge(message=opening)

    def _on_bridge_opened(self, now: int) -> list[TaskEffect]:
        running = self._life.run()
        if not self._life.is_running:
            return running
        return [*running, *self._idleness.start(now), *self._inputs.request_partitions(), *self._read_on(now)]

    @property
    def _has_input(self) -> bool:
        return self._inputs.has_next if self._reader is None else self._reader.has_unread

    def _read_on(self, now: int) -> list[TaskEffect]:
        """Start what can be started: as many stages as there is room, input and demand for."""
        effects: list[TaskEffect] = []
        # Behind the barrier of the final checkpoint nothing is read: what is left belongs to who continues from it.
        while self._life.is_running and self._line.has_room and self._final_checkpoint is None:
            step = self._read_split(now) if self._reader is not None else self._read_input(now)
            if step is None:
                break
            effects += step
        return effects + self._request_splits()

    def _request_splits(self) -> list[TaskEffect]:
        count = self._reader.splits_to_request() if self._reader is not None and self._life.is_running else 0
        if self._reader is None or count == 0:
            return []
        attempt, operator_id = self._descriptor.attempt, self._reader.operator_id
        return [TellJobMaster(message=RequestSplits(attempt=attempt, operator_id=operator_id, count=count))]

    def _read_split(self, now: int) -> list[TaskEffect] | None:
        assert self._reader is not None
        if self._end_of_data:
            return None
        split = self._reader.next()
        if split is not None:
            awake = self._wake(now)
            return [*awake, TellBridge(message=ReadSplits(stage=self._line.start(Read()), splits=(split,)))]
        return self._end_data(now) if self._reader.exhausted else None

    def _end_data(self, now: int) -> list[TaskEffect]:
        self._end_of_data = True
        # Nobody would hear the watermark of a source that is idle.
        awake = self._wake(now)
        return awake + self._line.follow(Watermark(timestamp_ms=WATERMARK_MAX)) + self._line.follow(EndOfData())

    def _wake(self, now: int) -> list[TaskEffect]:
        said = self._line.follow(WatermarkStatus(idle=False)) if self._idleness.is_idle else []
        return [*said, *self._idleness.read(now)]

    def _on_idle_due(self, now: int) -> list[TaskEffect]:
        if self._end_of_data:
            return []
        if self._line.is_reading or self._has_input:
            # It is not silent: rows are on their way, or wait for a consumer. A snapshot tells of no rows.
            self._idleness.read(now)
        timer = self._idleness.on_due(now)
        return [*timer, *(self._line.follow(WatermarkStatus(idle=True)) if self._idleness.is_idle else [])]

    def _read_input(self, now: int) -> list[TaskEffect] | None:
        match self._inputs.next(now):
            case None:
                return None
            case BatchArrived() as arrived:
                stage = self._line.start(Process(channel=arrived.channel))
                watermark_ms = self._inputs.watermark_ms
                run = RunStage(stage=stage, gate=arrived.gate, batch=arrived.batch, watermark_ms=watermark_ms)
                return [TellBridge(message=run)]
            case WatermarkAdvanced(watermark_ms=watermark_ms):
                return self._advance_watermark(watermark_ms)
            case SnapshotDue(barrier=barrier, alignment_ms=alignment_ms):
                return self._begin_snapshot(barrier, alignment_ms)
            case SnapshotGivenUp(checkpoint_id=checkpoint_id, reason=reason):
                declined = decline(self._descriptor, checkpoint_id, reason)
                return [declined, *self._line.follow(CancelCheckpointMarker(checkpoint_id=checkpoint_id))]
            case EndOfDataReached(drain=drain):
                return self._line.follow(EndOfData(drain=drain))
            case PassedOn(event=event):
                return self._line.follow(event)
            case unreachable:
                assert_never(unreachable)

    # Stages and what goes down behind them

    def _advance_watermark(self, watermark_ms: int) -> list[TaskEffect]:
        if self._defers_firing:
            return []  # it goes down with the next barrier, behind the rows it fires
        if not self._has_windows:
            return self._line.follow(Watermark(timestamp_ms=watermark_ms))
        stage = self._line.start(Fire(watermark_ms=watermark_ms))
        return [TellBridge(message=AdvanceWatermark(stage=stage, watermark_ms=watermark_ms))]

    def _on_stage_finished(self, finished: StageFinished, now: int) -> list[TaskEffect]:
        stage = self._line.finish(finished)
        effects = [*stage.effects, *self._on_violation(stage.violated)]
        match stage.purpose:
            case Read():
                effects += self._idleness.read(now)
            case Process(channel=channel):
                effects += self._inputs.processed(channel)
        return effects

    def _on_violation(self, violated: MonotonyViolated | None) -> list[TaskEffect]:
        if violated is None:
            return []
        text = (
            f"{self._descriptor.vertex.name}: event times are to ascend, but a row with event time"
            f" {violated.timestamp_ms} ms came behind one with {violated.latest_ms} ms; where rows may come out of"
            " order, take WatermarkStrategy.for_bounded_out_of_orderness"
        )
        if violated.is_fatal:
            return self._life.fail(SerializedThrowable(type_name="MonotonyViolationError", message=text))
        return [LogWarning(text=text)]

    # Checkpoints

    def _on_trigger(self, trigger: TriggerCheckpoint, now: int) -> list[TaskEffect]:
        if self._reader is None:
            return [Ignore(reason="only sources are triggered; this task waits for barriers")]
        barrier = CheckpointBarrier(
            checkpoint_id=trigger.checkpoint_id, timestamp_ms=trigger.timestamp_ms, options=trigger.options
        )
        drained = self._end_data(now) if trigger.options.drain and not self._end_of_data else []
        return drained + self._begin_snapshot(barrier, alignment_ms=0)

    def _begin_snapshot(self, barrier: CheckpointBarrier, alignment_ms: int) -> list[TaskEffect]:
        checkpoint_id = barrier.checkpoint_id
        reader_state = None if self._reader is None else self._reader.snapshot()
        match self._snapshots.begin(checkpoint_id, alignment_ms, reader_state):
            case Begin.STALE as stale:
                return [Ignore(reason=stale.value)]
            case Begin.SKIPPED:
                return self._line.follow(CancelCheckpointMarker(checkpoint_id=checkpoint_id))
            case Begin.TAKEN:
                return [self._snapshot_behind(barrier)]
            case unreachable:
                assert_never(unreachable)

    def _snapshot_behind(self, barrier: CheckpointBarrier) -> TaskEffect:
        """A stage that snapshots the chain, and behind it the barrier. It does not wait for room in the pipeline."""
        if barrier.options.is_final:
            self._final_checkpoint = barrier.checkpoint_id
        watermark_ms = self._inputs.watermark_ms
        fired_ms = watermark_ms if self._defers_firing and watermark_ms > WATERMARK_MIN else None
        stage = self._line.start(Snapshot(barrier=barrier, fired_ms=fired_ms))
        return TellBridge(
            message=SnapshotState(
                stage=stage,
                checkpoint_id=barrier.checkpoint_id,
                options=barrier.options,
                watermark_ms=watermark_ms,
            )
        )

    def _on_snapshotted(self, snapshotted: StateSnapshotted) -> list[TaskEffect]:
        return [*self._line.snapshotted(snapshotted), TellJobMaster(message=self._snapshots.durable(snapshotted))]

    def _on_snapshot_failed(self, failed: SnapshotFailed) -> list[TaskEffect]:
        if not self._snapshots.give_up(failed.checkpoint_id):
            return [Ignore(reason=f"checkpoint {failed.checkpoint_id} was aborted")]
        reason = CheckpointDeclineReason.CHECKPOINT_ASYNC_EXCEPTION
        return [decline(self._descriptor, failed.checkpoint_id, reason, failed.cause)]

    def _on_aborted(self, checkpoint_id: int) -> list[TaskEffect]:
        if self._final_checkpoint == checkpoint_id:
            self._final_checkpoint = None
        if not self._snapshots.abort(checkpoint_id):
            return []
        return [TellBridge(message=AbortCheckpoint(checkpoint_id=checkpoint_id))]

    def _on_committed(self, checkpoint_id: int) -> list[TaskEffect]:
        if self._final_checkpoint is None or checkpoint_id < self._final_checkpoint:
            return []
        return self._line.follow(EndOfPartition()) + self._life.finish()


def _reader(descriptor: TaskDeploymentDescriptor) -> SplitReader | None:
    head = descriptor.vertex.operators[0]
    return SplitReader(head.operator_id, SPLITS_AHEAD) if head.kind is OperatorKind.SOURCE else None
