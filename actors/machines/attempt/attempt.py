"""The state machine of an execution attempt: decides which stage runs next, what the outputs emit, and when the attempt
has finished.

Mirrors Flink's StreamTask with its mailbox: one event at a time. An input element becomes either a stage, which the
bridge runs on the engine, or an event that is sent after the preceding stages, in the order of reading. The batches of
a stage are sent when the stage has ended. The task continues to read while another stage may start, the outputs have
room, and the attempt is not about to end.

Not here: how channels and credits work (`machines.exchange`), what a stage computes (the engine).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import assert_never

from flykka.actors.errors import UnreadableStateError, serialize_error
from flykka.actors.machines.attempt.channel_state import (
    ChannelStateWriter,
    recovered_inputs,
    recovered_outputs,
    to_recover,
    without_channel_state,
)
from flykka.actors.machines.attempt.checkpoints import CheckpointBook
from flykka.actors.machines.attempt.ending import AttemptState
from flykka.actors.machines.attempt.events import BridgeLost, ConnectionLost, StartTask, TaskEffect, TaskEvent
from flykka.actors.machines.attempt.inputs import (
    BatchArrived,
    EndOfDataReached,
    ForwardedEvent,
    TaskInputs,
    WatermarkAdvanced,
)
from flykka.actors.machines.attempt.operator_events import OperatorEventDispatcher
from flykka.actors.machines.attempt.source import SourceReading, SourceReadingEvent, WatermarksWithIdleness
from flykka.actors.machines.attempt.stages import Stage, Stages
from flykka.actors.machines.attempt.subtask_checkpoint_coordinator import SubtaskCheckpointCoordinator
from flykka.actors.machines.attempt.time import ProcessingTimers, uses_event_time
from flykka.actors.machines.effects import Ignore, Role, Tell
from flykka.actors.machines.exchange.effects import ChannelFailed, ChannelFailureKind
from flykka.actors.machines.exchange.input_channel import InputChannel
from flykka.actors.machines.exchange.result_partition import ResultPartition
from flykka.messages.attempt import answers
from flykka.messages.attempt.answers import EngineFailed
from flykka.messages.attempt.commands import (
    AdvanceProcessingTime,
    AdvanceWatermark,
    CloseChain,
    HandleOperatorEvents,
    OpenChain,
    ProcessBatch,
    ReadSplits,
    SnapshotState,
    StageCommand,
)
from flykka.messages.checkpointing.checkpoint import (
    CheckpointDeclineReason,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    TriggerCheckpoint,
)
from flykka.messages.graph.job_graph import JobType, OperatorKind, TaskCancellationSettings
from flykka.messages.monitoring.explanation import ChannelExplained, OutputExplained, StageExplained, TaskExplained
from flykka.messages.tasks import exchange, task
from flykka.messages.tasks.exchange import WATERMARK_MAX, EndOfData, Watermark, WatermarkStatus
from flykka.messages.tasks.operator_event import GlobalAggregateResults, OperatorEvents
from flykka.messages.wire.ref import Ref


class StreamTask:
    """The state machine of one execution attempt. `consumer` is its Task, to which its producers send batches."""

    __slots__ = (
        "_book",
        "_checkpoints",
        "_descriptor",
        "_events",
        "_finishes_at_end_of_data",
        "_idleness",
        "_inputs",
        "_source",
        "_stages",
        "_timers",
        "_uses_event_time",
        "state",
    )

    def __init__(
        self,
        descriptor: task.TaskDeploymentDescriptor,
        consumer: Ref,
        cluster: TaskCancellationSettings | None = None,
    ) -> None:
        vertex = descriptor.vertex
        kinds = {operator.kind for operator in vertex.operators}
        # In a batch job only sinks have something to commit: other tasks need not wait for a checkpoint.
        is_batch = descriptor.job_type is JobType.BATCH and OperatorKind.SINK not in kinds
        self._finishes_at_end_of_data = is_batch or vertex.feeds_broadcast_variables
        self._descriptor = descriptor
        self.state = AttemptState(descriptor.attempt, cluster)
        self._book = CheckpointBook(descriptor.job_id, descriptor.attempt)
        channel_state = ChannelStateWriter(descriptor, self._book)
        self._inputs = TaskInputs(descriptor, consumer, channel_state)
        self._stages = Stages(descriptor)
        self._idleness = WatermarksWithIdleness(descriptor, self._stages)
        is_source = vertex.operators[0].kind is OperatorKind.SOURCE
        self._source = SourceReading(descriptor, self._stages, self._idleness) if is_source else None
        self._timers = ProcessingTimers(vertex)
        self._uses_event_time = uses_event_time(vertex)
        self._events = OperatorEventDispatcher(descriptor, self._stages, self._inputs, self._timers)
        self._checkpoints = SubtaskCheckpointCoordinator(
            descriptor, self._book, channel_state, self._inputs, self._stages, self._source, self._events
        )

    def handle(self, event: TaskEvent, now: int) -> list[TaskEffect]:
        self._stages.on_tick(now)
        self.state.on_tick(now)
        self._book.background.now = now
        effects = self._on_event(event, now)
        if self._finishes_at_end_of_data and self._stages.has_reached_end_of_data and self.state.is_running:
            effects = [*effects, *self._finish()]
        if self.state.ending is not None:
            effects = [*effects, *self._end_work()]
        self._stages.account_time(is_running=self.state.is_running, has_input=self._has_input)
        return effects

    def _on_event(self, event: TaskEvent, now: int) -> list[TaskEffect]:
        match event:
            # The most frequent events come first, because a match tests class by class.
            case exchange.BufferResponse() if self.state.is_running:
                return self._inputs.on_buffer(event) + self._input_failure() + self._read_on(now)
            case (answers.StageResult() as answer) | answers.WorkDone(command=StageCommand() as answer):
                return self._on_stage_answer(answer, now)
            case answers.CheckpointCommitted(checkpoint_id=checkpoint_id):
                # Counted in every state, because the rows are published.
                return [*self._checkpoints.on_committed(event), *self._on_committed(checkpoint_id)]
            case NotifyCheckpointComplete() | task.MetricsDue() if self.state.is_running:
                # These events neither bring input nor make room for it.
                return self._on_running(event, now)
            case answers.CommitPrepared(rows_out=rows_out) if rows_out:
                # Rows that leave the chain with a snapshot are reported now, because a later stage may never report.
                return [*self._checkpoints.on_answer(event), self._stages.report()]
            case (
                answers.CommitPrepared()
                | answers.SnapshotWritten()
                | answers.ChannelStateWritten()
                | answers.WorkDone()
            ):
                # Handled in every state: state that arrives too late is deleted, and only the coordinator knows
                # whether it is late.
                return self._checkpoints.on_answer(event)
            case StartTask():
                self.state.deploy(self._descriptor.task_cancellation)
                return self._open()
            case answers.ChainClosed():
                # After the chain has closed no batch is added. Consumers can read before the JobMaster is notified.
                keep_effects = self._stages.outputs.keep(self._descriptor.attempt) if self.state.is_finishing else []
                end_effects = self.state.chain_closed(event)
                return [self._stages.report(), *keep_effects, *end_effects, *self._report_durable_parts()]
            case BridgeLost(cause=cause):
                end_effects = self.state.bridge_lost(cause, keeps_results=self._stages.outputs.keeps_results)
                return [*end_effects, *self._report_durable_parts()]
            case answers.WorkFailed():
                return self._on_work_failed(event, now)
            case EngineFailed() if self.state.is_closing:
                return [Ignore(reason="the chain is closing")]
            case EngineFailed(cause=cause) | task.FailTask(cause=cause):
                return self.state.fail(cause)
            case task.CancelTask():
                return self.state.cancel()
            case task.CancellationDue():
                return self.state.on_cancellation_due()
            case answers.ChainOpened():
                return self._on_chain_opened(event, now)
            case task.PartitionProducerState() if self.state.may_consume:
                return self.state.on_producer_state(event)
            case TriggerCheckpoint(checkpoint_id=checkpoint_id) if not self.state.is_running:
                reason = CheckpointDeclineReason.CHECKPOINT_DECLINED_TASK_NOT_READY
                return [self._checkpoints.decline(checkpoint_id, reason)]
            case exchange.PartitionRequest() | exchange.AddCredit() | exchange.CancelPartitionRequest():
                # Served in every state: the queued batches are the input of another task.
                serve_effects = self._stages.outputs.handle(event)
                return serve_effects + self._checkpoints.on_served() + self._read_on(now)
            case exchange.BuffersResized(buffers=buffers):
                self._stages.outputs.resize(buffers)
                return self._inputs.resize(buffers) + self._read_on(now)
            case _ if not self.state.is_running:
                return [Ignore(reason=f"{type(event).__name__} in state {self.state.current}")]
            case _:
                return self._on_running(event, now) + self._read_on(now)

    def explain(self, now: int) -> TaskExplained:
        return explain_task(self.state, self._stages, self._inputs, self._source, self._book, now)

    def check(self) -> None:
        self._stages.check()
        self._inputs.check()
        self._book.check()

    def _on_running(self, event: TaskEvent, now: int) -> list[TaskEffect]:
        match event:
            case NotifyCheckpointComplete(checkpoint_id=checkpoint_id):
                commit = self._checkpoints.on_complete(checkpoint_id)
                return self._on_committed(checkpoint_id) if commit is None else commit
            case exchange.ErrorResponse(partition_not_found=True, partition_id=partition_id):
                request = task.RequestPartitionProducerState(
                    attempt=self._descriptor.attempt, partition_id=partition_id
                )
                effects = [*self._inputs.handle(event), *self._input_failure()]
                return [*effects, Tell(to=Role.JOB_MASTER, message=request)]
            case ConnectionLost(task_manager=task_manager):
                return self._inputs.on_connection_failed(task_manager) + self._input_failure()
            case exchange.BacklogAnnouncement() | exchange.ErrorResponse() | exchange.PartitionRequestDue():
                return self._inputs.handle(event) + self._input_failure()
            case exchange.AlignmentTimeoutDue(checkpoint_id=checkpoint_id):
                return self._checkpoints.on_timeout(checkpoint_id)
            case exchange.MiniBatchDue():
                self._inputs.on_mini_batch_due()
                return []
            case _ if self._source is not None and isinstance(event, SourceReadingEvent):
                return self._source.handle(event, now)
            case task.MetricsDue():
                files_unread = 0 if self._source is None else self._source.reader.files_unread
                in_use = self._inputs.gate.buffers_in_use
                return [self._stages.report(input_queue_length=in_use, files_unread=files_unread)]
            case task.IdleDue() if self._stages.event_time.makes_watermarks:
                return self._idleness.on_due(has_unread=self._has_input())
            case task.ProcessingTimeDue():
                self._timers.on_due(now)
                return []
            case OperatorEvents() | GlobalAggregateResults():
                self._events.on_message(event)
                return []
            case TriggerCheckpoint():
                return self._checkpoints.on_trigger(event, now)
            case NotifyCheckpointAborted(checkpoint_id=checkpoint_id):
                return self._checkpoints.on_aborted(checkpoint_id)
            case _:
                return [Ignore(reason=f"{type(event).__name__} does not apply to a task in state {self.state.current}")]

    def _input_failure(self) -> list[TaskEffect]:
        match self._inputs.failure:
            case None:
                return []
            case ChannelFailed(kind=ChannelFailureKind.PRODUCER_FAILED):
                # The failure is not this task's: the producer's own failure decides what follows (Flink's
                # CancelTaskException).
                return self.state.cancel()
            case ChannelFailed(cause=cause):
                return self.state.fail(cause)
            case unreachable:
                assert_never(unreachable)

    # Opening and reading

    def _open(self) -> list[TaskEffect]:
        if self._source is not None:
            try:
                self._source.open()
            except UnreadableStateError as error:
                return self.state.fail(serialize_error(error))
        restore = without_channel_state(self._descriptor.restore)
        restored, recover = self._descriptor.restored_checkpoint_id, to_recover(self._descriptor)
        command = OpenChain(restore=restore, recover=recover, restored_checkpoint_id=restored)
        return [Tell(to=Role.BRIDGE, message=command)]

    def _on_chain_opened(self, opened: answers.ChainOpened, now: int) -> list[TaskEffect]:
        running = self.state.run()
        if not self.state.is_running:
            return running
        if opened.is_ordered:
            self._stages.line.limit = 1
        self._checkpoints.open(opened)
        if self._descriptor.job_type is JobType.BATCH and self._descriptor.restored_checkpoint_id is not None:
            # A batch job takes one checkpoint only, after the end of all data.
            end_effects = (
                self._stages.emit_after(exchange.EndOfData()) if self._source is None else self._source.end_data()
            )
            return [*running, *end_effects]
        if self._descriptor.restore is not None:
            self._timers.on_restored()
        reads = to_recover(self._descriptor)
        outputs = recovered_outputs(reads, opened.recovered)
        if (misplaced := self._stages.outputs.misplaced(outputs)) is not None:
            return [*running, *self.state.fail(misplaced)]
        recovered = self._stages.recover(outputs, self._inputs.watermark_ms)
        requests = self._inputs.request_partitions(recovered_inputs(reads, opened.recovered))
        started = self._idleness.start() if self._source is None else self._source.start()
        return [*running, *started, *recovered, *requests, *self._read_on(now)]

    def _has_input(self) -> bool:
        return self._inputs.has_next if self._source is None else self._source.reader.has_unread

    def _read_on(self, now: int) -> list[TaskEffect]:
        """Start as many stages as the stage limit, the inputs and the demand of the consumers allow."""
        effects: list[TaskEffect] = []
        # After the barrier of the final checkpoint the task stops reading: the remaining input belongs to the job
        # that restores the checkpoint.
        while self.state.is_running and self._checkpoints.final_checkpoint is None:
            waits = self._inputs.waits_for_more and self._stages.is_reading
            has_room = self._stages.has_room and not waits and not self._inputs.collects_mini_batch
            if not has_room and not self._inputs.has_priority:
                break
            step = self._read_input(now, has_room=has_room) if self._source is None else self._source.read()
            if step is None:
                break
            effects += step
        if self._source is not None and self.state.is_running:
            effects += self._source.request_splits()
        return effects

    def _read_input(self, now: int, *, has_room: bool) -> list[TaskEffect] | None:
        """Read the next element, or return `None`. Without `has_room`, read only an element that needs no stage."""
        if has_room and self._events.is_due:
            return self._events.handle(now)
        if has_room and self._timers.is_due:
            return self._fire_timers(now)
        match self._inputs.next(now, only_priority=not has_room):
            case None:
                return None
            case BatchArrived() as arrived:
                awake = self._idleness.read()
                command = ProcessBatch(
                    stage=self._stages.line.next_stage,
                    gate=arrived.gate,
                    batch=arrived.batch,
                    watermark_ms=self._inputs.watermark_ms,
                    processing_time_ms=self._timers.time_of_stage(now),
                    coalesced=tuple(each.batch for each in arrived.coalesced),
                    aggregates=self._events.drain_results(),
                )
                return [*awake, *self._stages.begin(Stage(command=command, channels=arrived.channels))]
            case WatermarkAdvanced(watermark_ms=watermark_ms):
                effects = self._idleness.end() if watermark_ms == WATERMARK_MAX else []
                return effects + self._advance_watermark(watermark_ms, now)
            case EndOfDataReached(drain=drain):
                self._timers.end()
                self._events.end()
                return self._stages.emit_after(EndOfData(drain=drain))
            case ForwardedEvent(event=WatermarkStatus()) if self._stages.event_time.makes_watermarks:
                return []
            case ForwardedEvent(event=event):
                return self._stages.emit_after(event)
            case element:
                return self._checkpoints.on_element(element, now)

    def _advance_watermark(self, watermark_ms: int, now: int) -> list[TaskEffect]:
        if self._checkpoints.defers_firing:
            return []  # The watermark is sent before the next barrier, after the rows that it fires.
        if not self._uses_event_time:
            return self._stages.emit_after(Watermark(timestamp_ms=watermark_ms))
        stage, now_ms = self._stages.line.next_stage, self._timers.time_of_stage(now)
        command = AdvanceWatermark(stage=stage, watermark_ms=watermark_ms, processing_time_ms=now_ms)
        return self._stages.begin(Stage(command=command))

    def _fire_timers(self, now: int) -> list[TaskEffect]:
        self._timers.fire()
        stage, watermark_ms = self._stages.line.next_stage, self._inputs.watermark_ms
        command = AdvanceProcessingTime(stage=stage, processing_time_ms=now, watermark_ms=watermark_ms)
        return self._stages.begin(Stage(command=command))

    # Stages

    def _on_stage_answer(self, answer: answers.StageResult | StageCommand, now: int) -> list[TaskEffect]:
        if not self._stages.line.on_answer(answer):
            return [Ignore(reason=f"nothing waits for stage {answer.stage}")]
        effects: list[TaskEffect] = []
        while self.state.may_process and (stage := self._stages.line.pop_ended()) is not None:
            effects += self._on_stage_ended(stage, now)
        return effects + self._stages.begin_work() + self._read_on(now)

    def _on_stage_ended(self, stage: Stage, now: int) -> list[TaskEffect]:
        result, took_ms = stage.result, now - (now if stage.begun_ms is None else stage.begun_ms)
        if (misplaced := self._stages.outputs.misplaced(result.outputs)) is not None:
            return self.state.fail(misplaced)
        self._book.stage(result.staged)
        end_effects = self._stages.finish(stage, now)
        timer_effects = self._timers.on_stage_finished(result.next_timer_ms, now)
        event_effects = self._events.on_stage_ended(stage)
        violation_effects = self.state.on_monotony_violated(self._descriptor.vertex.name, stage.violated)
        effects = [*end_effects, *timer_effects, *event_effects, *violation_effects]
        match stage.command:
            case ReadSplits():
                assert self._source is not None, "the task has no source, so it cannot read splits"
                effects += self._source.on_read(stage.cost, took_ms)
            case ProcessBatch():
                effects += self._inputs.processed(stage.channels) + self._idleness.read()
            case SnapshotState():
                effects += self._checkpoints.on_barrier_sent(stage, took_ms, now)
        return effects

    def _on_work_failed(self, event: answers.WorkFailed, now: int) -> list[TaskEffect]:
        if isinstance(event.command, CloseChain):
            # The chain counts as closed, because nothing more can be done.
            return self._on_event(answers.ChainClosed(failure=event.cause), now)
        if not event.ends_attempt:
            return self._checkpoints.on_failed(event)
        if self.state.is_closing:
            return [Ignore(reason="the chain is closing")]
        return self.state.fail(event.cause)

    def _on_committed(self, checkpoint_id: int) -> list[TaskEffect]:
        if not self.state.is_running:
            return [Ignore(reason=f"CheckpointCommitted in state {self.state.current}")]
        return self._finish() if self._checkpoints.is_end(checkpoint_id) else []

    # Finishing

    def _finish(self) -> list[TaskEffect]:
        return self._stages.emit_after(exchange.EndOfPartition()) + self.state.finish()

    def _end_work(self) -> list[TaskEffect]:
        """Close the chain of a finishing attempt when its work has ended. Drop the work of any other ending attempt."""
        background = self._book.background
        if not self.state.is_finishing:
            self._stages.line.clear()
            background.stop()
            return []
        return self.state.close() if self._stages.line.in_flight == 0 and background.is_idle else []

    def _report_durable_parts(self) -> list[TaskEffect]:
        # An attempt that has finished has acknowledged all its snapshots.
        return [] if self.state.is_finishing else self._checkpoints.on_ended()


MAX_EXPLAINED = 16
"""The maximum number of channels, and of outputs, in an explanation: a task may have thousands, and a few show the
cause.
"""


def explain_task(
    state: AttemptState,
    stages: Stages,
    inputs: TaskInputs,
    source: SourceReading | None,
    book: CheckpointBook,
    now: int,
) -> TaskExplained:
    channels = list(_channels(inputs))
    # Channels for which the task waits come first: those without the barrier, then empty ones.
    channels.sort(key=lambda channel: (not channel.barrier_missing, channel.queued, channel.is_blocked))
    outputs = sorted(_outputs(stages), key=lambda output: (not output.is_full, output.credit or 0, -output.queued))
    explained = TaskExplained(
        attempt=state.attempt,
        now_ms=now,
        state=state.current,
        activity=stages.meter.activity.value,
        activity_since_ms=stages.meter.activity_since_ms,
        stages=tuple(
            StageExplained(purpose=_activity_text(each.command), since_ms=each.since_ms) for each in stages.line.stages
        ),
        channels=tuple(channels[:MAX_EXPLAINED]),
        channels_open=len(channels),
        outputs=tuple(outputs[:MAX_EXPLAINED]),
        aligning=next(reversed(inputs.barriers.pending_checkpoints), None),
        snapshotting=book.under_way,
        waits_for_final_checkpoint=stages.has_reached_end_of_data,
        ending=state.ending,
        held_back_by=stages.event_time.held_back_by,
    )
    if source is None:
        return explained
    waits = not source.reader.has_unread and not source.end_of_data
    return replace(
        explained,
        is_source=True,
        waits_for_splits=waits,
        files_unread=source.reader.files_unread,
        batch_limit_bytes=source.reader.batch_limit_bytes,
        waits_for_group=source.held_back_by,
    )


def _channels(inputs: TaskInputs) -> Iterator[ChannelExplained]:
    missing, blocked = inputs.barriers.missing_channels, inputs.barriers.blocked_channels
    for channel in inputs.gate.channels:
        if channel.is_open:
            number = channel.channel
            yield _channel(channel, barrier_missing=number in missing, is_blocked=number in blocked)


def _channel(channel: InputChannel, *, barrier_missing: bool, is_blocked: bool) -> ChannelExplained:
    return ChannelExplained(
        partition_id=channel.descriptor.partition_id,
        subpartition=channel.descriptor.subpartition,
        state=channel.state.value,
        queued=len(channel.queue),
        credit=channel.credits.outstanding,
        is_blocked=is_blocked,
        barrier_missing=barrier_missing,
    )


def _outputs(stages: Stages) -> Iterator[OutputExplained]:
    for partition in stages.outputs.partitions:
        # No consumer waits for rows of a blocking partition.
        if not partition.is_blocking:
            yield from _subpartitions(partition)


def _subpartitions(partition: ResultPartition) -> Iterable[OutputExplained]:
    for index in partition.unread_subpartitions:
        subpartition = partition.subpartitions[index]
        if subpartition.queued:
            yield OutputExplained(
                partition_id=partition.descriptor.partition_id,
                subpartition=index,
                queued=subpartition.queued,
                credit=None if subpartition.consumer is None else subpartition.credit,
                is_full=not partition.is_available,
            )


def _activity_text(command: StageCommand) -> str:
    match command:
        case ReadSplits():
            return "reads its source"
        case ProcessBatch():
            return "processes a batch"
        case AdvanceWatermark():
            return "emits results that event time has completed"
        case AdvanceProcessingTime():
            return "fires due processing-time timers"
        case HandleOperatorEvents():
            return "handles events of its coordinator"
        case SnapshotState(checkpoint_id=checkpoint_id):
            return f"takes its snapshot for checkpoint {checkpoint_id}"
        case _:
            raise AssertionError(f"no stage begins with {command}")
