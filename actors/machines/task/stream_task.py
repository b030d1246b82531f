"""The machine of a Task: which stage is next, what its outputs emit, and when it has finished.

Mirrors Flink's StreamTask with its mailbox: one event at a time. Elements of the inputs become stages of the bridge or
followers behind them, in the order in which they were read; what a stage made goes out when it has finished. The task
reads on while stages are in flight (two at the most), its outputs take more, and no end is near.

Not here: how channels and credits work (`actors.exchange`), what a stage computes (the bridge), who the JobMaster is.
"""

from __future__ import annotations

from typing import assert_never

from flykka.actors.errors import UnreadableStateError, described
from flykka.actors.machines.exchange.effects import ChannelFailed, ChannelFailureKind
from flykka.actors.machines.ignore import Ignore
from flykka.actors.machines.task.attempt_life import AttemptLife
from flykka.actors.machines.task.effects import KeepResults, TaskEffect, TellBridge
from flykka.actors.machines.task.events import BridgeLost, ConnectionLost, StartTask, TaskEvent
from flykka.actors.machines.task.explanation import explain_source, explain_task
from flykka.actors.machines.task.idleness import WatermarksWithIdleness
from flykka.actors.machines.task.in_flight_stages import Fire, FireTimers, InFlightStages, Process, Read, Snapshot
from flykka.actors.machines.task.input_elements import (
    BatchArrived,
    EndOfDataReached,
    PassedOn,
    WatermarkAdvanced,
)
from flykka.actors.machines.task.monotony import violation_effects
from flykka.actors.machines.task.operator_events import OperatorEventDispatcher
from flykka.actors.machines.task.partition_producer import ask, consequence
from flykka.actors.machines.task.processing_timers import ProcessingTimers
from flykka.actors.machines.task.source_reading import SourceReadingEvent, source_reading
from flykka.actors.machines.task.subtask_checkpoint_coordinator import SubtaskCheckpointCoordinator
from flykka.actors.machines.task.task_checkpoints import TaskCheckpoints
from flykka.actors.machines.task.task_inputs import TaskInputs
from flykka.messages.checkpointing.checkpoint import (
    CheckpointDeclineReason,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    TriggerCheckpoint,
)
from flykka.messages.graph.job_graph import FiringMode, JobType, OperatorKind, TaskCancellationSettings
from flykka.messages.monitoring.explanation import TaskExplained
from flykka.messages.tasks.exchange import (
    WATERMARK_MAX,
    AddCredit,
    AlignmentTimeoutDue,
    BacklogAnnouncement,
    BufferResponse,
    BuffersResized,
    CancelPartitionRequest,
    EndOfData,
    EndOfPartition,
    ErrorResponse,
    PartitionRequest,
    PartitionRequestDue,
    Watermark,
    WatermarkStatus,
)
from flykka.messages.tasks.operator_event import GlobalAggregateResults, OperatorEvents
from flykka.messages.tasks.stage import (
    AdvanceProcessingTime,
    AdvanceWatermark,
    BridgeClosed,
    BridgeOpened,
    ChannelStateWritten,
    CheckpointCommitted,
    OpenBridge,
    RunStage,
    SnapshotFailed,
    StageFailed,
    StageFinished,
    StateSnapshotted,
)
from flykka.messages.tasks.task import (
    CancellationDue,
    CancelTask,
    FailTask,
    IdleDue,
    MetricsDue,
    PartitionProducerState,
    ProcessingTimeDue,
    TaskDeploymentDescriptor,
)
from flykka.messages.wire.ref import Ref


class StreamTask:
    """The machine of one execution attempt, whose actor is `task`."""

    __slots__ = (
        "_barriers",
        "_checkpoints",
        "_defers_firing",
        "_descriptor",
        "_events",
        "_finishes_at_end_of_data",
        "_idleness",
        "_inputs",
        "_life",
        "_source",
        "_stages",
        "_timers",
        "_uses_event_time",
    )

    def __init__(
        self, descriptor: TaskDeploymentDescriptor, task: Ref, cluster: TaskCancellationSettings | None = None
    ) -> None:
        vertex = descriptor.vertex
        self._descriptor = descriptor
        self._life = AttemptLife(descriptor.attempt, cluster)
        self._checkpoints = SubtaskCheckpointCoordinator(descriptor)
        self._inputs = TaskInputs(descriptor, task, self._checkpoints.channel_state)
        self._stages = InFlightStages(descriptor)
        self._idleness = WatermarksWithIdleness(descriptor, self._stages)
        self._source = source_reading(descriptor, self._stages, self._idleness)
        kinds = {operator.kind for operator in vertex.operators}
        self._uses_event_time = any(kind.uses_event_time for kind in kinds)
        self._timers = ProcessingTimers(uses_processing_time=any(kind.uses_processing_time for kind in kinds))
        self._defers_firing = self._uses_event_time and vertex.firing_mode is FiringMode.ON_CHECKPOINT
        # Of a batch job only sinks have something to commit: the others wait for no checkpoint.
        is_batch = descriptor.job_type is JobType.BATCH and OperatorKind.SINK not in kinds
        self._finishes_at_end_of_data = is_batch or vertex.feeds_broadcast_variables
        self._events = OperatorEventDispatcher(descriptor, self._stages, self._inputs, self._timers)
        self._barriers = TaskCheckpoints(
            self._checkpoints, self._inputs, self._stages, self._source, self._events, defers_firing=self._defers_firing
        )

    @property
    def life(self) -> AttemptLife:
        """State of the attempt."""
        return self._life

    def handle(self, event: TaskEvent, now: int) -> list[TaskEffect]:
        """Take one event at virtual time `now` (ms); what is to be done about it, in order."""
        self._stages.pass_time(now)
        self._life.pass_time(now)
        effects = self._on_event(event, now)
        if self._finishes_at_end_of_data and self._stages.has_reached_end_of_data and self._life.is_running:
            effects = [*effects, *self._finish()]
        self._stages.spend_time(is_running=self._life.is_running, has_input=self._has_input)
        return effects

    def _on_event(self, event: TaskEvent, now: int) -> list[TaskEffect]:
        match event:
            # What comes with every batch and every checkpoint first: a match asks class by class.
            case BufferResponse() if self._life.is_running:
                return self._inputs.on_buffer(event) + self._input_failure() + self._read_on(now)
            case StageFinished() if self._life.is_running:
                return self._on_stage_finished(event, now) + self._read_on(now)
            case CheckpointCommitted():
                # Counted in every state: it has been published.
                self._stages.committed(event)
                return self._on_committed(event.checkpoint_id)
            case NotifyCheckpointComplete() | MetricsDue() if self._life.is_running:
                # Nothing comes of these that could be read, nor room for it.
                return self._on_running(event, now)
            case StateSnapshotted():
                # Told in every state: what comes too late is the coordinator's to delete, and only it knows that.
                return self._on_snapshotted(event)
            case StartTask():
                self._life.deploy(self._descriptor.task_cancellation)
                return self._open()
            case BridgeClosed(accumulators=accumulators):
                ended = self._life.bridge_closed(accumulators)
                return [self._stages.report(), *self._keep_results(), *ended, *self._let_go_of_snapshots()]
            case BridgeLost(cause=cause):
                ended = self._life.bridge_lost(cause, keeps_results=self._stages.outputs.keeps_results)
                return [*ended, *self._let_go_of_snapshots()]
            case StageFailed(cause=cause) | FailTask(cause=cause):
                return self._life.fail(cause)
            case CancelTask():
                return self._life.cancel()
            case CancellationDue():
                return self._life.cancellation_due()
            case BridgeOpened():
                return self._on_bridge_opened(event, now)
            case PartitionProducerState() if self._life.may_consume:
                return self._life.on_producer_state(consequence(event))
            case TriggerCheckpoint(checkpoint_id=checkpoint_id) if not self._life.is_running:
                reason = CheckpointDeclineReason.CHECKPOINT_DECLINED_TASK_NOT_READY
                return [self._checkpoints.decline(checkpoint_id, reason)]
            case PartitionRequest() | AddCredit() | CancelPartitionRequest():
                # Served in every state: what is queued here is somebody's input.
                return self._stages.serve(event) + self._barriers.on_served() + self._read_on(now)
            case BuffersResized(buffers=buffers):
                self._stages.resize(buffers)
                return self._inputs.resize(buffers) + self._read_on(now)
            case ChannelStateWritten():
                return self._checkpoints.on_durable(event)
            case StageFinished() if self._life.is_finishing:
                # A snapshot that was begun behind the final one: behind it waits the end of the partitions.
                return self._on_stage_finished(event, now)
            case _ if not self._life.is_running:
                return [Ignore(reason=f"{type(event).__name__} in state {self._life.state}")]
            case _:
                return self._on_running(event, now) + self._read_on(now)

    def explain(self, now: int) -> TaskExplained:
        """Explain what the attempt does, and what it waits for."""
        source = self._source
        explained = explain_task(self._life, self._stages, self._inputs, self._checkpoints, now)
        return explained if source is None else explain_source(explained, source)

    def check(self) -> None:
        """Assert the invariants of the parts."""
        self._stages.check()
        self._inputs.check()

    def _on_running(self, event: TaskEvent, now: int) -> list[TaskEffect]:
        match event:
            case NotifyCheckpointComplete(checkpoint_id=checkpoint_id):
                commit = self._checkpoints.on_complete(checkpoint_id)
                return self._on_committed(checkpoint_id) if commit is None else [commit]
            case ErrorResponse(partition_not_found=True, partition_id=partition_id):
                asked = ask(self._descriptor.attempt, partition_id)
                return [*self._inputs.handle(event), *self._input_failure(), *asked]
            case ConnectionLost(task_manager=task_manager):
                return self._inputs.on_connection_failed(task_manager) + self._input_failure()
            case BacklogAnnouncement() | ErrorResponse() | PartitionRequestDue():
                return self._inputs.handle(event) + self._input_failure()
            case AlignmentTimeoutDue(checkpoint_id=checkpoint_id):
                return self._barriers.on_timeout(checkpoint_id, now)
            case _ if self._source is not None and isinstance(event, SourceReadingEvent):
                return self._source.handle(event, now)
            case MetricsDue():
                files_unread = 0 if self._source is None else self._source.files_unread
                return [self._stages.report(input_queue_length=self._inputs.buffers_in_use, files_unread=files_unread)]
            case IdleDue() if self._stages.makes_watermarks:
                return self._idleness.on_due(has_unread=self._has_input())
            case ProcessingTimeDue():
                self._timers.on_due(now)
                return []
            case OperatorEvents() | GlobalAggregateResults():
                self._events.on_message(event)
                return []
            case TriggerCheckpoint():
                return self._barriers.on_trigger(event, now)
            case SnapshotFailed():
                return self._checkpoints.on_failed(event)
            case NotifyCheckpointAborted(checkpoint_id=checkpoint_id):
                return self._checkpoints.on_aborted(checkpoint_id)
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

    def _open(self) -> list[TaskEffect]:
        if self._source is not None:
            try:
                self._source.open()
            except UnreadableStateError as misfit:
                return self._life.fail(described(misfit))
        checkpoint_id = self._descriptor.restored_checkpoint_id
        opening = OpenBridge(restore=self._descriptor.restore, restored_checkpoint_id=checkpoint_id)
        return [TellBridge(message=opening)]

    def _on_bridge_opened(self, opened: BridgeOpened, now: int) -> list[TaskEffect]:
        running = self._life.run()
        if not self._life.is_running:
            return running
        if self._descriptor.job_type is JobType.BATCH and self._descriptor.restored_checkpoint_id is not None:
            # The one checkpoint that a batch job takes is behind the end of all data.
            ended = self._stages.emit_after(EndOfData()) if self._source is None else self._source.end_data()
            return [*running, *ended]
        if self._descriptor.restore is not None:
            self._timers.on_restored()
        if (misplaced := self._stages.outputs.misplaced(opened.recovered_outputs)) is not None:
            return [*running, *self._life.fail(misplaced)]
        down = self._stages.recover(opened.recovered_outputs, self._inputs.watermark_ms)
        requests = self._inputs.request_partitions(opened.recovered_inputs)
        started = self._idleness.start() if self._source is None else self._source.start()
        return [*running, *started, *down, *requests, *self._read_on(now)]

    def _has_input(self) -> bool:
        return self._inputs.has_next if self._source is None else self._source.has_unread

    def _read_on(self, now: int) -> list[TaskEffect]:
        """Start what can be started: as many stages as there is room, input and demand for."""
        effects: list[TaskEffect] = []
        # Behind the barrier of the final checkpoint nothing is read: what is left belongs to who continues from it.
        while self._life.is_running and self._checkpoints.final_checkpoint is None:
            waits = self._inputs.waits_for_more and self._stages.is_reading
            has_room = self._stages.has_room and not waits
            if not has_room and not self._inputs.has_priority:
                break
            step = self._read_input(now, has_room=has_room) if self._source is None else self._source.read()
            if step is None:
                break
            effects += step
        if self._source is not None and self._life.is_running:
            effects += self._source.request_splits()
        return effects

    def _read_input(self, now: int, *, has_room: bool) -> list[TaskEffect] | None:
        """The next element; without room only what overtakes the data that waits for it."""
        if has_room and self._events.is_due:
            return [*self._events.handle(now)]
        if has_room and self._timers.is_due:
            return [self._fire_timers(now)]
        match self._inputs.next(now, only_priority=not has_room):
            case None:
                return None
            case BatchArrived() as arrived:
                awake = self._idleness.read()
                run = RunStage(
                    stage=self._stages.start(Process(channels=arrived.channels)),
                    gate=arrived.gate,
                    batch=arrived.batch,
                    watermark_ms=self._inputs.watermark_ms,
                    processing_time_ms=self._timers.time_of_stage(now),
                    coalesced=tuple(each.batch for each in arrived.behind),
                    aggregates=self._events.take_results(),
                )
                return [*awake, TellBridge(message=run)]
            case WatermarkAdvanced(watermark_ms=watermark_ms):
                ended = self._idleness.end() if watermark_ms == WATERMARK_MAX else []
                return ended + self._advance_watermark(watermark_ms, now)
            case EndOfDataReached(drain=drain):
                self._timers.end()
                self._events.end()
                return self._stages.emit_after(EndOfData(drain=drain))
            case PassedOn(event=WatermarkStatus()) if self._stages.makes_watermarks:
                return []
            case PassedOn(event=event):
                return self._stages.emit_after(event)
            case element:
                return self._barriers.on_element(element, now)

    # Stages and what goes down behind them

    def _advance_watermark(self, watermark_ms: int, now: int) -> list[TaskEffect]:
        if self._defers_firing:
            return []  # it goes down with the next barrier, behind the rows it fires
        if not self._uses_event_time:
            return self._stages.emit_after(Watermark(timestamp_ms=watermark_ms))
        stage = self._stages.start(Fire(watermark_ms=watermark_ms))
        now_ms = self._timers.time_of_stage(now)
        advance = AdvanceWatermark(stage=stage, watermark_ms=watermark_ms, processing_time_ms=now_ms)
        return [TellBridge(message=advance)]

    def _fire_timers(self, now: int) -> TellBridge:
        self._timers.fire()
        stage, watermark_ms = self._stages.start(FireTimers()), self._inputs.watermark_ms
        return TellBridge(message=AdvanceProcessingTime(stage=stage, processing_time_ms=now, watermark_ms=watermark_ms))

    def _on_stage_finished(self, finished: StageFinished, now: int) -> list[TaskEffect]:
        if (misplaced := self._stages.outputs.misplaced(finished.outputs)) is not None:
            return self._life.fail(misplaced)
        stage = self._stages.finish(finished, now)
        timers = self._timers.on_stage_finished(finished.next_timer_ms, now)
        sent = self._events.on_stage_finished(stage.purpose, finished)
        effects = [*stage.effects, *timers, *sent, *violation_effects(stage.violated, self._life, self._descriptor)]
        match stage.purpose:
            case Read() as read:
                assert self._source is not None, "only a source reads splits"
                effects += self._source.has_read(read, finished.duration_ms)
            case Process(channels=channels):
                effects += self._inputs.processed(channels) + self._idleness.read()
            case Snapshot():
                effects += self._barriers.on_barrier_sent(stage, now)
        if finished.snapshot is not None:
            effects += self._on_snapshotted(finished.snapshot)
        return effects

    def _on_snapshotted(self, snapshotted: StateSnapshotted) -> list[TaskEffect]:
        return [*self._stages.snapshotted(snapshotted), *self._checkpoints.on_durable(snapshotted)]

    def _on_committed(self, checkpoint_id: int) -> list[TaskEffect]:
        if not self._life.is_running:
            return [Ignore(reason=f"CheckpointCommitted in state {self._life.state}")]
        return self._finish() if self._checkpoints.is_end(checkpoint_id) else []

    # The end

    def _finish(self) -> list[TaskEffect]:
        return self._stages.emit_after(EndOfPartition()) + self._life.finish()

    def _let_go_of_snapshots(self) -> list[TaskEffect]:
        # Who has finished has acknowledged whatever it was asked for.
        return [] if self._life.is_finishing else self._checkpoints.on_ended()

    def _keep_results(self) -> list[TaskEffect]:
        """Behind the bridge's end nothing is added, and before the JobMaster hears of it others can read."""
        keeps = self._stages.outputs.keeps_results and self._life.is_finishing
        return [KeepResults(partitions=self._stages.outputs.kept())] if keeps else []
