"""A subtask's part in checkpoints: begins, writes, acknowledges, declines, aborts and commits them.

The inputs, or the trigger of a source, decide when a snapshot is due. A stage notes the state of the chain, and the
barrier is sent after this stage. Then, in the background and in the order of the barriers, the staged output is
prepared for the commit; from then on it is part of all later snapshots, even if this checkpoint is aborted. The state
is written unless the checkpoint was aborted meanwhile. If the sinks have staged nothing since the last commit, nothing
is prepared and the snapshot contains no output. Follows Flink's class of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from flykka.actors.machines.attempt.channel_state import ChannelStateWriter
from flykka.actors.machines.attempt.checkpoints import Checkpoint, CheckpointBook, CheckpointPhase, SnapshotDecision
from flykka.actors.machines.attempt.events import TaskEffect
from flykka.actors.machines.attempt.inputs import CheckpointElement, TaskInputs
from flykka.actors.machines.attempt.operator_events import OperatorEventDispatcher
from flykka.actors.machines.attempt.source import SourceReading
from flykka.actors.machines.attempt.stages import Stage, Stages
from flykka.actors.machines.attempt.time import uses_event_time
from flykka.actors.machines.effects import Ignore, Role, StartTimer, Tell
from flykka.actors.machines.exchange.checkpoint_barrier_handler import (
    AbortCheckpointOnBarrier,
    StopPersisting,
    alignment_timer,
)
from flykka.actors.machines.state.watermarks import watermark_states
from flykka.messages.attempt.answers import (
    ChainOpened,
    ChannelStateWritten,
    CheckpointCommitted,
    CommitPrepared,
    SnapshotWritten,
    WorkDone,
    WorkFailed,
)
from flykka.messages.attempt.commands import (
    CommitCheckpoint,
    DiscardSnapshot,
    HoldBatches,
    PrepareCommit,
    SnapshotState,
    WriteChannelState,
    WriteSnapshot,
)
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    CheckpointDeclineReason,
    DeclineCheckpoint,
    TriggerCheckpoint,
)
from flykka.messages.graph.job_graph import FiringMode
from flykka.messages.state.handles import WatermarkState
from flykka.messages.tasks.exchange import WATERMARK_MIN, CancelCheckpointMarker, CheckpointBarrier
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.failure import SerializedThrowable


class SubtaskCheckpointCoordinator:
    """The checkpoints of one attempt. With `defers_firing`, watermarks are sent together with the barriers."""

    __slots__ = (
        "_book",
        "_channel_state",
        "_descriptor",
        "_events",
        "_fires_at_barriers",
        "_has_state",
        "_inputs",
        "_source",
        "_stages",
        "_waiting",
        "defers_firing",
        "final_checkpoint",
    )

    def __init__(
        self,
        descriptor: TaskDeploymentDescriptor,
        book: CheckpointBook,
        channel_state: ChannelStateWriter,
        inputs: TaskInputs,
        stages: Stages,
        source: SourceReading | None,
        events: OperatorEventDispatcher,
    ) -> None:
        self.final_checkpoint: int | None = None
        self._descriptor = descriptor
        self._book = book
        self._channel_state = channel_state
        self._inputs = inputs
        self._stages = stages
        self._source = source
        self._events = events
        self._fires_at_barriers = descriptor.vertex.firing_mode is FiringMode.ON_CHECKPOINT
        self.defers_firing = self._fires_at_barriers and uses_event_time(descriptor.vertex)
        self._has_state = False
        # The checkpoint whose barrier waits in outputs, and may still overtake the batches before it.
        self._waiting: int | None = None

    def open(self, chain: ChainOpened) -> None:
        self._has_state = chain.has_state

    # Barriers

    def on_trigger(self, trigger: TriggerCheckpoint, now: int) -> list[TaskEffect]:
        """Begin a checkpoint that the coordinator triggers at a source, or after the end of data."""
        if self._source is None and not self._stages.has_reached_end_of_data:
            return [Ignore(reason="the task is not a source and its inputs have not ended: it waits for barriers")]
        barrier = CheckpointBarrier(
            checkpoint_id=trigger.checkpoint_id, timestamp_ms=trigger.timestamp_ms, options=trigger.options
        )
        drained = self._source.end_data() if self._source is not None and trigger.options.drain else []
        return drained + self._begin(barrier, now, now)

    def on_element(self, element: CheckpointElement, now: int) -> list[TaskEffect]:
        match element:
            case CheckpointBarrier():
                return self._begin(element, self._inputs.barriers.alignment_start_ms, now)
            case AbortCheckpointOnBarrier(checkpoint_id=checkpoint_id, reason=reason):
                marker = CancelCheckpointMarker(checkpoint_id=checkpoint_id)
                return [*self._give_up(checkpoint_id, reason), *self._stages.emit_after(marker)]
            case StopPersisting(checkpoint_id=checkpoint_id, is_complete=True):
                if (checkpoint := self._book.get(checkpoint_id)) is not None:
                    checkpoint.on_aligned(now, self._inputs.processed_bytes)
                return self._channel_state.finish_inputs(checkpoint_id)
            case StopPersisting(checkpoint_id=checkpoint_id):
                # Either a newer checkpoint was aborted, or this checkpoint, whose abort is then recorded already.
                is_known = self._book.get(checkpoint_id) is None
                return [] if is_known else self._give_up(checkpoint_id, CheckpointDeclineReason.SUBSUMED)
            case StartTimer():
                return [element]
            case _:
                assert_never(element)

    def on_barrier_sent(self, stage: Stage, sync_ms: int, now: int) -> list[TaskEffect]:
        barrier, checkpoint = stage.barrier, stage.checkpoint
        assert barrier is not None, "the stage of a snapshot has no barrier"
        assert stage.watermark is not None, "the stage of a snapshot has no watermark"
        assert checkpoint is not None, "the stage of a snapshot has no checkpoint"
        checkpoint_id = checkpoint.checkpoint_id
        noted = self._on_noted(checkpoint, stage.watermark, sync_ms)
        if not self._stages.outputs.holds_barrier:
            # The checkpoint may have become unaligned while its barrier was in the task.
            if barrier.is_unaligned and self._becomes_unaligned(checkpoint_id):
                self._channel_state.start(checkpoint_id, inputs_complete=True)
            sent = self._channel_state.finish_outputs(checkpoint_id, stage.overtaken)
        else:
            if checkpoint.is_under_way:
                self._waiting = checkpoint_id
                self._channel_state.start(checkpoint_id, inputs_complete=True)
            sent = [alignment_timer(barrier, now)]
        # If there is nothing to write, the snapshot is durable when its barrier is sent.
        is_written = checkpoint.phase is CheckpointPhase.WRITTEN
        return [*sent, *noted, *(_acknowledged(self._book.acknowledge(checkpoint)) if is_written else [])]

    def on_served(self) -> list[TaskEffect]:
        """Complete the outputs if all consumers have received the waiting barrier, which then overtook no batches."""
        if self._waiting is None or self._stages.outputs.holds_barrier:
            return []
        checkpoint_id, self._waiting = self._waiting, None
        return self._channel_state.finish_outputs(checkpoint_id, ())

    def on_timeout(self, checkpoint_id: int) -> list[TaskEffect]:
        self._inputs.time_out(checkpoint_id)
        effects, overtaken = self._stages.outputs.time_out(checkpoint_id)
        if self._waiting != checkpoint_id:
            return effects
        self._waiting = None
        self._becomes_unaligned(checkpoint_id)
        return [*effects, *self._channel_state.finish_outputs(checkpoint_id, overtaken)]

    def _begin(self, received: CheckpointBarrier, alignment_start_ms: int, now: int) -> list[TaskEffect]:
        checkpoint_id, barrier = received.checkpoint_id, received.to_send_on(now)
        in_flight = self._inputs.drain_in_flight()
        checkpoint = Checkpoint(
            checkpoint_id=checkpoint_id,
            alignment_start_ms=alignment_start_ms,
            states=() if self._source is None else (self._source.reader.snapshot(),),
            savepoint=barrier.options.target_location,
            is_unaligned=barrier.is_unaligned,
            # The alignment began when the first barrier, or the trigger of a source, arrived.
            start_delay_ms=max(0, alignment_start_ms - barrier.timestamp_ms),
        )
        checkpoint.on_aligned(now, self._inputs.processed_bytes)
        match self._book.begin(checkpoint):
            case SnapshotDecision.STALE as stale:
                return [Ignore(reason=stale.value)]
            case SnapshotDecision.SKIPPED:
                return self._stages.emit_after(CancelCheckpointMarker(checkpoint_id=checkpoint_id))
        if barrier.options.is_final:
            self.final_checkpoint = checkpoint_id
        if checkpoint.is_unaligned:
            self._channel_state.start(checkpoint_id)
        effects = self._channel_state.add_inputs(checkpoint_id, in_flight)
        if self._source is not None or not received.is_unaligned:
            effects += self._channel_state.finish_inputs(checkpoint_id)
        # The coordinator sent the waiting events before its own snapshot, so they belong to the snapshot of the
        # subtask.
        return [*effects, *self._events.handle(now), *self._snapshot(barrier, checkpoint)]

    def _snapshot(self, barrier: CheckpointBarrier, checkpoint: Checkpoint) -> list[TaskEffect]:
        watermark_ms = self._inputs.watermark_ms
        fired_ms = watermark_ms if self.defers_firing and watermark_ms > WATERMARK_MIN else None
        command = SnapshotState(
            stage=self._stages.line.next_stage,
            checkpoint_id=barrier.checkpoint_id,
            options=barrier.options,
            watermark_ms=watermark_ms if self._fires_at_barriers else None,
        )
        return self._stages.begin(
            Stage(command=command, barrier=barrier, checkpoint=checkpoint, watermark_ms=watermark_ms, fired_ms=fired_ms)
        )

    # Snapshots

    def _on_noted(self, checkpoint: Checkpoint, watermark: WatermarkState, sync_ms: int) -> list[TaskEffect]:
        checkpoint_id = checkpoint.checkpoint_id
        self._book.on_barrier_sent(checkpoint)
        if checkpoint.is_under_way:
            states = watermark_states(self._descriptor.vertex, watermark)
            checkpoint.states = (*checkpoint.states, *states)
        if self._has_state or self._book.has_output:
            checkpoint.sync_ms = sync_ms
            prepare = PrepareCommit(checkpoint_id=checkpoint_id, staged=checkpoint.staged)
            return self._book.background.add(prepare, checkpoint)
        checkpoint.is_open = False
        if checkpoint.is_under_way:
            checkpoint.written = SnapshotWritten(checkpoint_id=checkpoint_id)
            checkpoint.move(CheckpointPhase.WRITTEN)
        return []

    def on_answer(self, answer: CommitPrepared | SnapshotWritten | ChannelStateWritten | WorkDone) -> list[TaskEffect]:
        match answer:
            case CommitPrepared():
                return self._on_prepared(answer)
            case SnapshotWritten():
                return self.on_written(answer)
            case ChannelStateWritten():
                return self._on_channel_state_written(answer)
            case WorkDone(command=DiscardSnapshot() as command):
                is_awaited = self._book.background.awaiting(DiscardSnapshot, command.checkpoint_id) is not None
                return self._book.background.end_job() if is_awaited else [_not_awaited(command)]
            case WorkDone():
                return []

    def _on_prepared(self, prepared: CommitPrepared) -> list[TaskEffect]:
        checkpoint_id, background = prepared.checkpoint_id, self._book.background
        job = background.awaiting(PrepareCommit, checkpoint_id)
        if job is None or job.checkpoint is None:
            return [_not_awaited(prepared)]
        checkpoint = job.checkpoint
        self._book.on_prepared(checkpoint, prepared)
        self._stages.meter.count_prepared(prepared.rows_out, prepared.rows_staged)
        if background.is_stopped:
            return background.end_job()
        if checkpoint.is_under_way:
            write = WriteSnapshot(checkpoint_id=checkpoint_id, savepoint=checkpoint.savepoint, sinks=prepared.sinks)
            return background.continue_with(write)
        if self._has_state:
            return background.continue_with(DiscardSnapshot(checkpoint_id=checkpoint_id))
        return background.end_job()

    def on_written(self, written: SnapshotWritten) -> list[TaskEffect]:
        background = self._book.background
        job = background.awaiting(WriteSnapshot, written.checkpoint_id)
        if job is None or job.checkpoint is None or job.begun_ms is None:
            return [_not_awaited(written)]
        checkpoint = job.checkpoint
        checkpoint.written, checkpoint.awaits_commit = written, True
        checkpoint.async_ms = background.now - job.begun_ms
        checkpoint.move(CheckpointPhase.WRITTEN)
        return [*_acknowledged(self._book.acknowledge(checkpoint)), *background.end_job()]

    def _on_channel_state_written(self, written: ChannelStateWritten) -> list[TaskEffect]:
        background = self._book.background
        job = background.awaiting(WriteChannelState, written.checkpoint_id)
        if job is None or job.checkpoint is None or not isinstance(job.command, WriteChannelState):
            return [_not_awaited(written)]
        released = self._channel_state.on_written(job.checkpoint, job.command.parts, written.folders)
        acknowledged = _acknowledged(self._book.acknowledge(job.checkpoint))
        return [*released, *acknowledged, *background.end_job()]

    def on_failed(self, failed: WorkFailed) -> list[TaskEffect]:
        """Decline a checkpoint if part of its state could not be made durable, unless it was aborted."""
        command, background = failed.command, self._book.background
        reason = CheckpointDeclineReason.CHECKPOINT_ASYNC_EXCEPTION
        following: list[TaskEffect] = []
        match command:
            case HoldBatches(checkpoint_id=checkpoint_id):
                # The batch was read and released before the command arrived. As in Flink, nothing had been written
                # yet.
                reason = CheckpointDeclineReason.CHECKPOINT_DECLINED
                checkpoint = self._book.get(checkpoint_id)
            case WriteSnapshot(checkpoint_id=checkpoint_id) | WriteChannelState(checkpoint_id=checkpoint_id):
                job = background.awaiting(type(command), checkpoint_id)
                if job is None:
                    return [_not_awaited(command)]
                checkpoint = job.checkpoint
                following = background.end_job()
            case _:
                raise AssertionError(f"a failure of {command} ends the attempt")
        released = self._channel_state.release(checkpoint)
        if checkpoint is None or not checkpoint.is_under_way or background.is_stopped:
            return [*released, Ignore(reason=f"checkpoint {checkpoint_id} was aborted"), *following]
        # The decline is sent first: otherwise the coordinator would mistake the durable part for the complete state.
        declined, late = self.decline(checkpoint_id, reason, failed.cause), self._book.abort(checkpoint_id)
        return [*released, declined, *_acknowledged(late), *following]

    # Completed, aborted and final checkpoints

    def on_complete(self, checkpoint_id: int) -> list[TaskEffect] | None:
        """Commit all checkpoints up to a completed one. Returns `None` if no checkpoint awaits its commit."""
        if not self._book.take_completed(checkpoint_id):
            return None
        return self._book.background.add(CommitCheckpoint(checkpoint_id=checkpoint_id))

    def on_committed(self, committed: CheckpointCommitted) -> list[TaskEffect]:
        self._stages.meter.count_published(self._book.commit(committed.checkpoint_id))
        if self._book.background.awaiting(CommitCheckpoint, committed.checkpoint_id) is None:
            return [_not_awaited(committed)]
        return self._book.background.end_job()

    def on_aborted(self, checkpoint_id: int) -> list[TaskEffect]:
        if self.final_checkpoint == checkpoint_id:
            self.final_checkpoint = None
        return self._abort(checkpoint_id)

    def on_ended(self) -> list[TaskEffect]:
        """Acknowledge the durable parts of snapshots after an attempt that has failed or was cancelled.

        They are sent after the end of the attempt, which aborts its checkpoints. If they were sent earlier, the
        coordinator would mistake a part for the complete state. The coordinator deletes them.
        """
        return _acknowledged(self._book.end())

    def is_end(self, committed: int) -> bool:
        return self.final_checkpoint is not None and committed >= self.final_checkpoint

    def decline(
        self, checkpoint_id: int, reason: CheckpointDeclineReason, cause: SerializedThrowable | None = None
    ) -> TaskEffect:
        job_id, attempt = self._descriptor.job_id, self._descriptor.attempt
        declined = DeclineCheckpoint(
            job_id=job_id, attempt=attempt, checkpoint_id=checkpoint_id, reason=reason, cause=cause
        )
        return Tell(to=Role.JOB_MASTER, message=declined)

    def _give_up(self, checkpoint_id: int, reason: CheckpointDeclineReason) -> list[TaskEffect]:
        return [self.decline(checkpoint_id, reason), *self._abort(checkpoint_id)]

    def _becomes_unaligned(self, checkpoint_id: int) -> bool:
        checkpoint = self._book.get(checkpoint_id)
        if checkpoint is None or checkpoint.is_unaligned:
            return False
        checkpoint.is_unaligned = True
        return True

    def _abort(self, checkpoint_id: int) -> list[TaskEffect]:
        checkpoint = self._book.get(checkpoint_id)
        late = self._book.abort(checkpoint_id)
        if self._waiting == checkpoint_id:
            self._waiting = None
        return [*self._channel_state.release(checkpoint), *_acknowledged(late)]


def _acknowledged(snapshots: Iterable[AcknowledgeCheckpoint]) -> list[TaskEffect]:
    return [Tell(to=Role.JOB_MASTER, message=snapshot) for snapshot in snapshots]


def _not_awaited(message: object) -> Ignore:
    return Ignore(reason=f"no work waits for {type(message).__name__}")
