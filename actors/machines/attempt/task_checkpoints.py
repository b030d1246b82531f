"""The part of a task in checkpoints: a stage that snapshots its chain, the barrier behind it, and batches overtaken.

Between the inputs or the trigger of a source, which say that a snapshot is due, and the `SubtaskCheckpointCoordinator`,
which keeps the books and tells the bridge and the JobMaster.
"""

from __future__ import annotations

from typing import assert_never

from flykka.actors.machines.attempt.checkpoints import Alignment, Begin, Checkpoint
from flykka.actors.machines.attempt.effects import TaskEffect
from flykka.actors.machines.attempt.in_flight_stages import Finished, InFlightStages
from flykka.actors.machines.attempt.input_elements import (
    CheckpointElement,
    InFlightAborted,
    InFlightComplete,
    SnapshotAborted,
    SnapshotDue,
)
from flykka.actors.machines.attempt.inputs import TaskInputs
from flykka.actors.machines.attempt.operator_events import OperatorEventDispatcher
from flykka.actors.machines.attempt.source import SourceReading
from flykka.actors.machines.attempt.stages import Stage
from flykka.actors.machines.attempt.subtask_checkpoint_coordinator import SubtaskCheckpointCoordinator
from flykka.actors.machines.effects import Ignore, StartTimer
from flykka.actors.machines.exchange.barrier_alignment import alignment_timer, is_unaligned, to_send_on
from flykka.messages.attempt.commands import SnapshotState
from flykka.messages.checkpointing.checkpoint import TriggerCheckpoint
from flykka.messages.tasks.exchange import WATERMARK_MIN, CancelCheckpointMarker, CheckpointBarrier


class TaskCheckpoints:
    """The checkpoints of one attempt on their way through it. With `defers_firing` its watermark waits for them."""

    __slots__ = ("_coordinator", "_defers_firing", "_events", "_fires_at_barriers", "_inputs", "_source", "_stages")

    def __init__(
        self,
        coordinator: SubtaskCheckpointCoordinator,
        inputs: TaskInputs,
        stages: InFlightStages,
        source: SourceReading | None,
        events: OperatorEventDispatcher,
        *,
        fires_at_barriers: bool,
        defers_firing: bool,
    ) -> None:
        self._coordinator = coordinator
        self._inputs = inputs
        self._stages = stages
        self._source = source
        self._events = events
        self._fires_at_barriers = fires_at_barriers
        self._defers_firing = defers_firing

    def on_trigger(self, trigger: TriggerCheckpoint, now: int) -> list[TaskEffect]:
        """The coordinator triggers a checkpoint."""
        if self._source is None and not self._stages.has_reached_end_of_data:
            return [Ignore(reason="no source is triggered before the end of its data: it waits for barriers")]
        barrier = CheckpointBarrier(
            checkpoint_id=trigger.checkpoint_id, timestamp_ms=trigger.timestamp_ms, options=trigger.options
        )
        drained = self._source.end_data() if self._source is not None and trigger.options.drain else []
        return drained + self._begin(SnapshotDue(barrier=barrier, alignment=Alignment()), now)

    def on_element(self, element: CheckpointElement, now: int) -> list[TaskEffect]:
        """The inputs say what their barriers ask for."""
        match element:
            case SnapshotDue() as due:
                return self._begin(due, now)
            case SnapshotAborted(checkpoint_id=checkpoint_id, reason=reason):
                given_up = self._coordinator.on_given_up(checkpoint_id, reason)
                return [*given_up, *self._stages.emit_after(CancelCheckpointMarker(checkpoint_id=checkpoint_id))]
            case InFlightComplete(checkpoint_id=checkpoint_id, alignment=alignment):
                return self._coordinator.all_barriers_received(checkpoint_id, alignment)
            case InFlightAborted(checkpoint_id=checkpoint_id):
                return self._coordinator.on_in_flight_given_up(checkpoint_id)
            case StartTimer() as timer:
                return [timer]
            case _:
                assert_never(element)

    def on_barrier_sent(self, stage: Stage, ended: Finished, sync_ms: int, now: int) -> list[TaskEffect]:
        """The stage of a snapshot has ended, and its barrier is sent."""
        barrier, checkpoint = ended.barrier, stage.checkpoint
        assert barrier is not None, "a barrier is sent after every snapshot"
        assert ended.watermark is not None, "a snapshot has the watermark of its task"
        assert checkpoint is not None, "a snapshot is taken for a checkpoint"
        noted = self._coordinator.on_noted(checkpoint, ended.watermark, sync_ms)
        if not self._stages.holds_barrier:
            sent = self._coordinator.barrier_sent(barrier, ended.overtaken)
        else:
            self._coordinator.barrier_waits(barrier.checkpoint_id)
            sent = [alignment_timer(barrier, now)]
        return [*sent, *noted, *self._coordinator.acknowledge_written(checkpoint)]

    def on_served(self) -> list[TaskEffect]:
        """A consumer took something, maybe the barrier that waited for it."""
        return [] if self._stages.holds_barrier else self._coordinator.barrier_left()

    def on_timeout(self, checkpoint_id: int, now: int) -> list[TaskEffect]:
        """The barriers of a checkpoint have been aligned for long enough, wherever they are."""
        self._inputs.time_out(checkpoint_id, now)
        effects, overtaken = self._stages.time_out(checkpoint_id)
        return [*effects, *self._coordinator.barrier_timed_out(checkpoint_id, overtaken)]

    def _begin(self, due: SnapshotDue, now: int) -> list[TaskEffect]:
        checkpoint_id, barrier = due.barrier.checkpoint_id, to_send_on(due.barrier, now)
        checkpoint = Checkpoint(
            checkpoint_id=checkpoint_id,
            alignment=due.alignment,
            states=() if self._source is None else (self._source.snapshot(),),
            savepoint=barrier.options.target_location,
            is_unaligned=is_unaligned(barrier),
            # The first barrier, or a source's trigger, came when the alignment began.
            start_delay_ms=max(0, now - due.alignment.duration_ms - barrier.timestamp_ms),
        )
        match self._coordinator.begin_checkpoint(checkpoint, is_final=barrier.options.is_final):
            case Begin.STALE as stale:
                return [Ignore(reason=stale.value)]
            case Begin.SKIPPED:
                return self._stages.emit_after(CancelCheckpointMarker(checkpoint_id=checkpoint_id))
            case Begin.TAKEN:
                is_all = self._source is not None or not is_unaligned(due.barrier)
                held = self._coordinator.in_flight(checkpoint_id, due.in_flight, is_all=is_all)
                # The coordinator has sent before its own snapshot what waits here: it belongs to the subtask's.
                return [*held, *self._events.handle(now), *self._snapshot(barrier, checkpoint)]
            case unreachable:
                assert_never(unreachable)

    def _snapshot(self, barrier: CheckpointBarrier, checkpoint: Checkpoint) -> list[TaskEffect]:
        """A stage that snapshots the chain, and after it the barrier. It does not wait for room."""
        watermark_ms = self._inputs.watermark_ms
        fired_ms = watermark_ms if self._defers_firing and watermark_ms > WATERMARK_MIN else None
        command = SnapshotState(
            stage=self._stages.next_stage,
            checkpoint_id=barrier.checkpoint_id,
            options=barrier.options,
            watermark_ms=watermark_ms if self._fires_at_barriers else None,
        )
        return self._stages.begin(
            Stage(
                command=command,
                barrier=barrier,
                checkpoint=checkpoint,
                watermark_ms=watermark_ms,
                fired_ms=fired_ms,
            )
        )
