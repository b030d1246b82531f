"""The part of one subtask in the checkpoints: what it begins, writes, acknowledges, declines, gives up and commits.

At the barrier, in the order of the stages, the state is noted. After it, in the background and in the order of the
barriers: the output that was staged is prepared to be committed, and from then on it is in all later snapshots,
whatever becomes of this one; then the state is written, unless the checkpoint was aborted meanwhile. If sinks were
given nothing since the last commit there is nothing to prepare, and nothing in the snapshot. Follows Flink's
SubtaskCheckpointCoordinator. When a snapshot is due is decided by the inputs, or by the trigger of a source; the stage
that takes it is begun by `TaskCheckpoints`.
"""

from __future__ import annotations

from collections.abc import Iterable

from flykka.actors.machines.attempt.background import BackgroundWork
from flykka.actors.machines.attempt.channel_state import ChannelStateWriter
from flykka.actors.machines.attempt.checkpoints import Alignment, Begin, Checkpoint, CheckpointBook, CheckpointPhase
from flykka.actors.machines.attempt.declines import decline
from flykka.actors.machines.attempt.effects import TaskEffect
from flykka.actors.machines.attempt.metrics import TaskMeter
from flykka.actors.machines.effects import Ignore, Role, Tell
from flykka.actors.machines.exchange.barrier_alignment import is_unaligned
from flykka.actors.machines.state.watermarks import watermark_states
from flykka.messages.attempt.answers import (
    ChainOpened,
    ChannelStateWritten,
    CheckpointCommitted,
    CommitPrepared,
    SnapshotWritten,
    StageResult,
    WorkFailed,
)
from flykka.messages.attempt.commands import (
    CommitCheckpoint,
    DiscardSnapshot,
    HoldBatches,
    PrepareCommit,
    WriteChannelState,
    WriteSnapshot,
)
from flykka.messages.attempt.values import InputInFlight, StageOutput
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint, CheckpointDeclineReason
from flykka.messages.state.handles import WatermarkState
from flykka.messages.tasks.exchange import CheckpointBarrier
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.failure import SerializedThrowable


class SubtaskCheckpointCoordinator:
    """The checkpoints of one attempt. `channel_state` is what the inputs report batches in flight to."""

    __slots__ = (
        "_book",
        "_descriptor",
        "_has_state",
        "_meter",
        "_waiting",
        "background",
        "channel_state",
        "final_checkpoint",
    )

    def __init__(self, descriptor: TaskDeploymentDescriptor, meter: TaskMeter) -> None:
        self.background = BackgroundWork()
        self.final_checkpoint: int | None = None
        self._descriptor = descriptor
        self._meter = meter
        self._has_state = False
        # The checkpoint whose barrier waits in outputs.
        self._waiting: int | None = None
        self._book = CheckpointBook(descriptor.job_id, descriptor.attempt)
        self.channel_state = ChannelStateWriter(descriptor, self._book, self.background)

    @property
    def snapshotting(self) -> tuple[int, ...]:
        """The checkpoints that were begun here, and are neither acknowledged nor given up."""
        return self._book.under_way

    def open(self, chain: ChainOpened) -> None:
        """The chain is open, and it is known if it has state."""
        self._has_state = chain.has_state

    # Barriers and channel state

    def begin_checkpoint(self, checkpoint: Checkpoint, *, is_final: bool) -> Begin:
        """A barrier is here; whether the snapshot is to be taken."""
        begun = self._book.begin(checkpoint)
        if begun is Begin.TAKEN:
            if is_final:
                self.final_checkpoint = checkpoint.checkpoint_id
            if checkpoint.is_unaligned:
                self.channel_state.start(checkpoint.checkpoint_id)
        return begun

    def in_flight(self, checkpoint_id: int, inputs: Iterable[InputInFlight], *, is_all: bool) -> list[TaskEffect]:
        """These were overtaken on their way in; `is_all` if no barrier is missing."""
        held = self.channel_state.add_inputs(checkpoint_id, inputs)
        return [*held, *(self.channel_state.finish_inputs(checkpoint_id) if is_all else [])]

    def all_barriers_received(self, checkpoint_id: int, alignment: Alignment) -> list[TaskEffect]:
        """An unaligned checkpoint has the barriers of all channels."""
        if (checkpoint := self._book.get(checkpoint_id)) is not None:
            checkpoint.alignment = alignment
        return self.channel_state.finish_inputs(checkpoint_id)

    def barrier_sent(self, barrier: CheckpointBarrier, overtaken: Iterable[StageOutput]) -> list[TaskEffect]:
        """The barrier is sent, and has overtaken these. It may have become unaligned on its way through the task."""
        checkpoint_id = barrier.checkpoint_id
        if is_unaligned(barrier) and self._go_unaligned(checkpoint_id):
            self.channel_state.start(checkpoint_id, inputs_complete=True)
        return self.channel_state.finish_outputs(checkpoint_id, overtaken)

    def barrier_waits(self, checkpoint_id: int) -> None:
        """The barrier waits in outputs, and may still overtake what is queued before it."""
        if self._book.get(checkpoint_id) is not None:
            self._waiting = checkpoint_id
            self.channel_state.start(checkpoint_id, inputs_complete=True)

    def barrier_left(self) -> list[TaskEffect]:
        """No barrier waits in outputs any more: none has overtaken anything."""
        if self._waiting is None:
            return []
        checkpoint_id, self._waiting = self._waiting, None
        return self.channel_state.finish_outputs(checkpoint_id, ())

    def barrier_timed_out(self, checkpoint_id: int, overtaken: Iterable[StageOutput]) -> list[TaskEffect]:
        """The barrier waits no longer, and has overtaken these."""
        if self._waiting != checkpoint_id:
            return []
        self._waiting = None
        self._go_unaligned(checkpoint_id)
        return self.channel_state.finish_outputs(checkpoint_id, overtaken)

    # Snapshots

    def on_stage_over(self, result: StageResult) -> None:
        """A stage has ended: what it has staged belongs to the checkpoint whose barrier is next."""
        self._book.stage(result.staged)

    def on_noted(self, checkpoint: Checkpoint, watermark: WatermarkState, sync_ms: int) -> list[TaskEffect]:
        """The stage of a snapshot has ended, and its barrier is sent; `watermark` is the task's at the barrier."""
        checkpoint_id = checkpoint.checkpoint_id
        self._book.on_barrier_sent(checkpoint)
        if checkpoint.is_under_way:
            states = watermark_states(self._descriptor.vertex, watermark)
            checkpoint.states = (*checkpoint.states, *states)
        if self._has_state or self._book.has_output:
            checkpoint.sync_ms = sync_ms
            return self.background.add(PrepareCommit(checkpoint_id=checkpoint_id, staged=checkpoint.staged), checkpoint)
        checkpoint.is_open = False
        if checkpoint.is_under_way:
            checkpoint.written = SnapshotWritten(checkpoint_id=checkpoint_id)
            checkpoint.move(CheckpointPhase.WRITTEN)
        return []

    def acknowledge_written(self, checkpoint: Checkpoint) -> list[TaskEffect]:
        """Acknowledge a snapshot that is durable with its barrier: there is nothing to write."""
        is_written = checkpoint.phase is CheckpointPhase.WRITTEN
        return _acknowledged(self._book.acknowledge(checkpoint)) if is_written else []

    def on_prepared(self, prepared: CommitPrepared) -> list[TaskEffect]:
        """The output is prepared: write the state, or discard it if the checkpoint was aborted."""
        checkpoint_id = prepared.checkpoint_id
        job = self.background.at_work(PrepareCommit, checkpoint_id)
        if job is None or job.checkpoint is None:
            return [_not_awaited(prepared)]
        checkpoint = job.checkpoint
        self._book.on_prepared(checkpoint, prepared)
        self._meter.count_prepared(prepared.rows_out, prepared.rows_staged)
        if self.background.is_stopped:
            return self.background.end_job()
        if checkpoint.is_under_way:
            write = WriteSnapshot(checkpoint_id=checkpoint_id, savepoint=checkpoint.savepoint, sinks=prepared.sinks)
            return self.background.continue_with(write)
        if self._has_state:
            return self.background.continue_with(DiscardSnapshot(checkpoint_id=checkpoint_id))
        return self.background.end_job()

    def on_written(self, written: SnapshotWritten) -> list[TaskEffect]:
        """The state is durable: acknowledge the snapshot when it is all of it."""
        job = self.background.at_work(WriteSnapshot, written.checkpoint_id)
        if job is None or job.checkpoint is None or job.begun_ms is None:
            return [_not_awaited(written)]
        checkpoint = job.checkpoint
        checkpoint.written, checkpoint.awaits_commit = written, True
        checkpoint.async_ms = self.background.now - job.begun_ms
        checkpoint.move(CheckpointPhase.WRITTEN)
        return [*_acknowledged(self._book.acknowledge(checkpoint)), *self.background.end_job()]

    def on_discarded(self, command: DiscardSnapshot) -> list[TaskEffect]:
        """The state of an aborted checkpoint is released."""
        is_awaited = self.background.at_work(DiscardSnapshot, command.checkpoint_id) is not None
        return self.background.end_job() if is_awaited else [_not_awaited(command)]

    def on_channel_state_written(self, written: ChannelStateWritten) -> list[TaskEffect]:
        """The batches in flight are durable: acknowledge the snapshot when it is all of it."""
        job = self.background.at_work(WriteChannelState, written.checkpoint_id)
        if job is None or job.checkpoint is None or not isinstance(job.command, WriteChannelState):
            return [_not_awaited(written)]
        released = self.channel_state.on_written(job.checkpoint, job.command.parts, written.folders)
        acknowledged = _acknowledged(self._book.acknowledge(job.checkpoint))
        return [*released, *acknowledged, *self.background.end_job()]

    def on_failed(self, failed: WorkFailed) -> list[TaskEffect]:
        """A part of a snapshot could not be made durable: decline its checkpoint, unless it was aborted."""
        command, reason = failed.command, CheckpointDeclineReason.CHECKPOINT_ASYNC_EXCEPTION
        following: list[TaskEffect] = []
        match command:
            case HoldBatches(checkpoint_id=checkpoint_id):
                # The reader of a batch was faster than the command. As in Flink, nothing was written yet.
                reason = CheckpointDeclineReason.CHECKPOINT_DECLINED
                checkpoint = self._book.get(checkpoint_id)
            case WriteSnapshot(checkpoint_id=checkpoint_id) | WriteChannelState(checkpoint_id=checkpoint_id):
                job = self.background.at_work(type(command), checkpoint_id)
                if job is None:
                    return [_not_awaited(command)]
                checkpoint = job.checkpoint
                following = self.background.end_job()
            case _:
                raise AssertionError(f"a failure of {command} ends the attempt")
        released = self.channel_state.release(checkpoint)
        if checkpoint is None or not checkpoint.is_under_way or self.background.is_stopped:
            return [*released, Ignore(reason=f"checkpoint {checkpoint_id} was aborted"), *following]
        # The decline goes first: before it, the part that is durable would be taken for all of it.
        declined, late = self.decline(checkpoint_id, reason, failed.cause), self._book.abort(checkpoint_id)
        return [*released, declined, *_acknowledged(late), *following]

    # The ends of checkpoints

    def on_given_up(self, checkpoint_id: int, reason: CheckpointDeclineReason) -> list[TaskEffect]:
        """The inputs have found that a checkpoint is not going to happen here."""
        return [self.decline(checkpoint_id, reason), *self._abort(checkpoint_id)]

    def on_in_flight_given_up(self, checkpoint_id: int) -> list[TaskEffect]:
        """Barriers of an unaligned checkpoint will not come: a newer one was given up, or this one, and is known."""
        if self._book.get(checkpoint_id) is None:
            return []
        return self.on_given_up(checkpoint_id, CheckpointDeclineReason.SUBSUMED)

    def on_complete(self, checkpoint_id: int) -> list[TaskEffect] | None:
        """The checkpoint is complete, and with it all before it: the commit, None if nothing waits for one."""
        if not self._book.take_completed(checkpoint_id):
            return None
        return self.background.add(CommitCheckpoint(checkpoint_id=checkpoint_id))

    def on_committed(self, committed: CheckpointCommitted) -> list[TaskEffect]:
        """Output was published, in whatever state the attempt is."""
        self._meter.count_published(self._book.commit(committed.checkpoint_id))
        if self.background.at_work(CommitCheckpoint, committed.checkpoint_id) is None:
            return [_not_awaited(committed)]
        return self.background.end_job()

    def on_aborted(self, checkpoint_id: int) -> list[TaskEffect]:
        """The coordinator has aborted a checkpoint."""
        if self.final_checkpoint == checkpoint_id:
            self.final_checkpoint = None
        return self._abort(checkpoint_id)

    def on_ended(self) -> list[TaskEffect]:
        """The attempt has failed or was cancelled: durable halves of snapshots are reported, to be deleted.

        To be sent after the end of the attempt, with which its checkpoints are aborted: before it, the half would be
        taken for all of it.
        """
        return _acknowledged(self._book.end())

    def is_end(self, committed: int) -> bool:
        """True if the commit of this checkpoint is the end of the task."""
        return self.final_checkpoint is not None and committed >= self.final_checkpoint

    def decline(
        self, checkpoint_id: int, reason: CheckpointDeclineReason, cause: SerializedThrowable | None = None
    ) -> Tell[Role]:
        """Tell the coordinator that it cannot count on this subtask."""
        return decline(self._descriptor, checkpoint_id, reason, cause)

    def check(self) -> None:
        """Assert the invariants of the book."""
        self._book.check()

    def _go_unaligned(self, checkpoint_id: int) -> bool:
        """The barrier overtakes batches after the task, after all; whether that is news of a snapshot under way."""
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
        return [*self.channel_state.release(checkpoint), *_acknowledged(late)]


def _acknowledged(snapshots: Iterable[AcknowledgeCheckpoint]) -> list[TaskEffect]:
    return [Tell(to=Role.JOB_MASTER, message=snapshot) for snapshot in snapshots]


def _not_awaited(message: object) -> Ignore:
    return Ignore(reason=f"no work waits for {type(message).__name__}")
