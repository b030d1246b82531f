"""The part of one subtask in the checkpoints: what it begins, acknowledges, declines and gives up.

Composes the snapshots of the attempt and the batches in flight that belong to them; says what the bridge and the
JobMaster are told. Follows Flink's SubtaskCheckpointCoordinator. When a snapshot is due is decided by the inputs, or by
the trigger of a source; the stage that takes it is begun by `TaskCheckpoints`.
"""

from __future__ import annotations

from collections.abc import Iterable

from flykka.actors.machines.exchange.barrier_alignment import is_unaligned
from flykka.actors.machines.ignore import Ignore
from flykka.actors.machines.state.watermarks import watermark_states
from flykka.actors.machines.task.channel_state import ChannelStateWriter
from flykka.actors.machines.task.declines import decline
from flykka.actors.machines.task.effects import TaskEffect, TellBridge, TellJobMaster
from flykka.actors.machines.task.snapshots import Alignment, Begin, Snapshots
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint, CheckpointDeclineReason
from flykka.messages.state.handles import OperatorSubtaskState, WatermarkState
from flykka.messages.tasks.exchange import CheckpointBarrier
from flykka.messages.tasks.stage import (
    AbortCheckpoint,
    ChannelStateWritten,
    CommitCheckpoint,
    InputInFlight,
    SnapshotFailed,
    StageOutput,
    StateSnapshotted,
)
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.failure import SerializedThrowable


class SubtaskCheckpointCoordinator:
    """The checkpoints of one attempt. `channel_state` is what the inputs report batches in flight to."""

    __slots__ = ("_descriptor", "_snapshots", "_to_commit", "_waiting", "channel_state", "final_checkpoint")

    def __init__(self, descriptor: TaskDeploymentDescriptor) -> None:
        self.channel_state = ChannelStateWriter()
        self.final_checkpoint: int | None = None
        self._descriptor = descriptor
        # The checkpoint whose barrier waits in outputs.
        self._waiting: int | None = None
        # Snapshots in which something waits for their checkpoint, or a later one, to be complete.
        self._to_commit: set[int] = set()
        self._snapshots = Snapshots(descriptor.job_id, descriptor.attempt)

    @property
    def snapshotting(self) -> tuple[int, ...]:
        """The checkpoints that were begun here, and are neither acknowledged nor given up."""
        return self._snapshots.under_way

    def begin_checkpoint(
        self,
        checkpoint_id: int,
        alignment: Alignment,
        reader_state: OperatorSubtaskState | None,
        *,
        is_final: bool,
        is_unaligned: bool,
        start_delay_ms: int,
    ) -> Begin:
        """A barrier is here; whether the snapshot is to be taken."""
        begun = self._snapshots.begin_snapshot(
            checkpoint_id, alignment, reader_state, is_unaligned=is_unaligned, start_delay_ms=start_delay_ms
        )
        if begun is Begin.TAKEN:
            if is_final:
                self.final_checkpoint = checkpoint_id
            if is_unaligned:
                self.channel_state.start(checkpoint_id)
        return begun

    def note_watermark(self, checkpoint_id: int, watermark: WatermarkState) -> None:
        """The watermark of the task at the barrier is part of the snapshot."""
        states = watermark_states(self._descriptor.vertex, watermark)
        self._snapshots.add_state(checkpoint_id, states)

    def in_flight(self, checkpoint_id: int, inputs: Iterable[InputInFlight], *, is_all: bool) -> list[TaskEffect]:
        """These were overtaken on their way in; `is_all` where no barrier is missing."""
        held = self.channel_state.add_inputs(checkpoint_id, inputs)
        return [*held, *(self.channel_state.finish_inputs(checkpoint_id) if is_all else [])]

    def all_barriers_received(self, checkpoint_id: int, alignment: Alignment) -> list[TaskEffect]:
        """An unaligned checkpoint has the barriers of all channels."""
        self._snapshots.aligned(checkpoint_id, alignment)
        return [*self.channel_state.finish_inputs(checkpoint_id)]

    def barrier_sent(self, barrier: CheckpointBarrier, overtaken: Iterable[StageOutput]) -> list[TaskEffect]:
        """The barrier went down, and has overtaken these. It may have become unaligned on its way through the task."""
        checkpoint_id = barrier.checkpoint_id
        if is_unaligned(barrier) and self._snapshots.go_unaligned(checkpoint_id):
            self.channel_state.start(checkpoint_id)
            self.channel_state.finish_inputs(checkpoint_id)
        return [*self.channel_state.finish_outputs(checkpoint_id, overtaken)]

    def barrier_waits(self, checkpoint_id: int) -> None:
        """The barrier waits in outputs, and may still overtake what it waits behind."""
        if self._snapshots.await_channels(checkpoint_id):
            self._waiting = checkpoint_id
            self.channel_state.start(checkpoint_id)
            self.channel_state.finish_inputs(checkpoint_id)

    def barrier_left(self) -> list[TaskEffect]:
        """No barrier waits in outputs any more: none has overtaken anything."""
        if self._waiting is None:
            return []
        checkpoint_id, self._waiting = self._waiting, None
        return [*self.channel_state.finish_outputs(checkpoint_id, ())]

    def barrier_timed_out(self, checkpoint_id: int, overtaken: Iterable[StageOutput]) -> list[TaskEffect]:
        """The barrier waits no longer, and has overtaken these."""
        if self._waiting != checkpoint_id:
            return []
        self._waiting = None
        self._snapshots.go_unaligned(checkpoint_id)
        return [*self.channel_state.finish_outputs(checkpoint_id, overtaken)]

    def on_durable(self, part: StateSnapshotted | ChannelStateWritten) -> list[TaskEffect]:
        """State is durable: acknowledge the snapshot when it is all of it."""
        if isinstance(part, StateSnapshotted) and part.awaits_commit:
            self._to_commit.add(part.checkpoint_id)
        return _acknowledged(self._snapshots.durable(part))

    def on_failed(self, failed: SnapshotFailed) -> list[TaskEffect]:
        """State could not be made durable: decline, if anybody still waits for it."""
        late = self._snapshots.give_up(failed.checkpoint_id)
        if late is None:
            return [Ignore(reason=f"checkpoint {failed.checkpoint_id} was aborted")]
        self.channel_state.abort(failed.checkpoint_id)
        declined = self.decline(failed.checkpoint_id, failed.reason, failed.cause)
        # Behind the decline: before it, the part that is there would be taken for all of it.
        return [declined, *_acknowledged(late)]

    def on_given_up(self, checkpoint_id: int, reason: CheckpointDeclineReason) -> list[TaskEffect]:
        """The inputs have found that a checkpoint is not going to happen here."""
        return [self.decline(checkpoint_id, reason), *self._forget(checkpoint_id)]

    def on_in_flight_given_up(self, checkpoint_id: int) -> list[TaskEffect]:
        """Barriers of an unaligned checkpoint will not come: a newer one was given up, or this one, and is known."""
        if not self._snapshots.is_wanted(checkpoint_id):
            return []
        return self.on_given_up(checkpoint_id, CheckpointDeclineReason.SUBSUMED)

    def on_complete(self, checkpoint_id: int) -> TellBridge | None:
        """The checkpoint is complete, and with it all before it: the commit, None where nothing waits for one."""
        later = {each for each in self._to_commit if each > checkpoint_id}
        if len(later) == len(self._to_commit):
            return None
        self._to_commit = later
        return TellBridge(message=CommitCheckpoint(checkpoint_id=checkpoint_id))

    def on_aborted(self, checkpoint_id: int) -> list[TaskEffect]:
        """The coordinator has given a checkpoint up."""
        if self.final_checkpoint == checkpoint_id:
            self.final_checkpoint = None
        return self._forget(checkpoint_id)

    def on_ended(self) -> list[TaskEffect]:
        """The attempt has failed or was cancelled: half of a snapshot is told to who deletes it.

        To be told behind the end of the attempt, with which its checkpoints are given up: before it, the half would be
        taken for all of it.
        """
        return _acknowledged(self._snapshots.end())

    def is_end(self, committed: int) -> bool:
        """True if the commit of this checkpoint is the end of the task."""
        return self.final_checkpoint is not None and committed >= self.final_checkpoint

    def decline(
        self, checkpoint_id: int, reason: CheckpointDeclineReason, cause: SerializedThrowable | None = None
    ) -> TellJobMaster:
        """Tell the coordinator that it cannot count on this subtask."""
        return decline(self._descriptor, checkpoint_id, reason, cause)

    def _forget(self, checkpoint_id: int) -> list[TaskEffect]:
        late = self._snapshots.abort(checkpoint_id)
        self.channel_state.abort(checkpoint_id)
        if self._waiting == checkpoint_id:
            self._waiting = None
        if not self._snapshots.has_begun(checkpoint_id):
            return []
        return [TellBridge(message=AbortCheckpoint(checkpoint_id=checkpoint_id)), *_acknowledged(late)]


def _acknowledged(snapshots: Iterable[AcknowledgeCheckpoint]) -> list[TaskEffect]:
    return [TellJobMaster(message=snapshot) for snapshot in snapshots]
