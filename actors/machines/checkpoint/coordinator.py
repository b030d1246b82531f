"""The machine of a CheckpointCoordinator: when a checkpoint begins, who has acknowledged it, what becomes of it.

Mirrors Flink's CheckpointCoordinator. What may not be put here: clocks, ids, refs, storage. An id is drawn outside and
comes back as an event, the metadata is written and added to the store outside and comes back as an event: with that
the checkpoint is complete. From when this is asked for it cannot be given up any more; the store decides. Late,
duplicate and unknown messages are ordinary and end in `Ignore`.

One entry, and behind it a part for each stretch of a checkpoint's life: `trigger.py` until its id is drawn,
`initialization.py` until the tasks have heard of it, `acknowledgements.py` while they answer, `completion.py` for its
end, and `completed_store.py` for what is left of it then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from flykka.actors.machines.checkpoint import effects, events
from flykka.actors.machines.checkpoint.acknowledgements import Acknowledgements
from flykka.actors.machines.checkpoint.completed_store import CompletedCheckpointStore, Restore
from flykka.actors.machines.checkpoint.completion import CheckpointCompletion
from flykka.actors.machines.checkpoint.coordinator_state import CoordinatorState
from flykka.actors.machines.checkpoint.effects import CoordinatorEffect
from flykka.actors.machines.checkpoint.events import CoordinatorEvent
from flykka.actors.machines.checkpoint.failed_events import EventOfCheckpoint, FailedEvents
from flykka.actors.machines.checkpoint.final_checkpoint import FinalPhase
from flykka.actors.machines.checkpoint.initialization import CheckpointInitialization
from flykka.actors.machines.checkpoint.master_states import MasterHookRestores
from flykka.actors.machines.checkpoint.pending import CoordinatedJob, PendingCheckpoint, PendingPhase
from flykka.actors.machines.checkpoint.plan import PlannedTask
from flykka.actors.machines.checkpoint.trigger import CheckpointTrigger
from flykka.actors.machines.effects import Ignore
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    CheckpointDeclineReason,
    CheckpointFailure,
    DeclineCheckpoint,
    OperatorCoordinatorsSnapshotted,
)
from flykka.messages.control.checkpoint_coordination import (
    AbortPendingCheckpoints,
    CheckpointIdsNotDrawn,
    CheckpointLeadershipLost,
    CheckpointsNotRecovered,
    CheckpointsRecovered,
    CheckpointTimedOut,
    CoordinatedTaskStateChanged,
    Disposed,
    FinalCheckpointRequest,
    FinalCheckpointRetryDue,
    MasterHookFailed,
    MasterHookRestoreFailed,
    MasterHooksRestored,
    MasterHooksTriggered,
    MetadataRead,
    MetadataWriteFailed,
    MetadataWritten,
    PeriodicTriggerDue,
    RequestRestoreState,
    StartCheckpointScheduler,
    StopCheckpointing,
    StopCheckpointRequest,
    StopCheckpointScheduler,
)
from flykka.messages.control.job import JobStatus
from flykka.messages.graph.job_graph import CheckpointingSettings

Effects = Iterator[CoordinatorEffect]


class CheckpointCoordinatorMachine:
    """The coordinator of one job; it outlives restarts of the tasks, and so do the ids it has seen."""

    def __init__(
        self,
        job: CoordinatedJob,
        settings: CheckpointingSettings,
        *,
        operator_coordinators: bool,
        master_hooks: Sequence[str] = (),
    ) -> None:
        self._state = state = CoordinatorState(job, settings)
        self._hooks = MasterHookRestores(job.job_id, master_hooks)
        self._trigger = CheckpointTrigger(state)
        self._completion = CheckpointCompletion(state, self._trigger)
        self._acknowledgements = Acknowledgements(state, self._completion)
        self._initialization = CheckpointInitialization(
            state,
            self._trigger,
            self._completion,
            self._acknowledgements,
            operator_coordinators=operator_coordinators,
            master_hooks=bool(master_hooks),
        )
        self._failed_events = FailedEvents(state, self._trigger, self._completion, self._acknowledgements)
        self.shut_down_with: JobStatus | None = None
        self._is_fenced = False

    # --- what can be seen from outside -------------------------------------------------------------------------------

    @property
    def pending(self) -> dict[int, PendingCheckpoint]:
        """The pending checkpoints by id, oldest first."""
        return {pending.checkpoint_id: pending for pending in self._state.pendings}

    @property
    def completed(self) -> CompletedCheckpointStore:
        """The retained completed checkpoints."""
        return self._state.completed

    def registrations(self, state_id: str) -> int:
        """The number of retained checkpoints that refer to this shared state."""
        return self._state.completed.registry.references(state_id)

    @property
    def is_scheduler_armed(self) -> bool:
        """True if a next periodic trigger is scheduled."""
        return self._trigger.periodic.is_armed

    def check(self) -> None:
        """Raise `AssertionError` where the machine is in a state that cannot be."""
        self._state.pendings.check()
        self._state.completed.check()
        for pending in self._state.pendings:
            checkpoint_id = pending.checkpoint_id
            assert (pending.phase is PendingPhase.METADATA) == (checkpoint_id in self._state.completed.writing)
            is_over = self.shut_down_with is not None
            assert not is_over or self._state.completed.is_being_added(checkpoint_id)
        final = self._trigger.final
        assert self._is_fenced or (final.phase is FinalPhase.PENDING) == (final.begun in self.pending)
        final.check()

    def handle(self, event: CoordinatorEvent, now: int) -> list[CoordinatorEffect]:
        """Handle `event` at `now`. A fenced coordinator only ends."""
        if self._is_fenced and not isinstance(event, StopCheckpointing):
            return [Ignore(reason="somebody else coordinates the job")]
        if not isinstance(event, EventOfCheckpoint):
            return [*self._handle(event, now), *self._resume_waiting()]
        made: list[CoordinatorEffect] = []
        try:
            # Effects before the one that raises belong to changes that were made.
            for effect in self._handle(event, now):
                made.append(effect)
        except Exception as error:  # noqa: BLE001 - whatever it is, it costs one checkpoint
            made += self._failed_events.recover(event, error, now)
        return [*made, *self._resume_waiting()]

    def _handle(self, event: CoordinatorEvent, now: int) -> Effects:
        match event:
            # What every task says with every checkpoint first: a match asks class by class.
            case AcknowledgeCheckpoint() | DeclineCheckpoint():
                yield from self._on_answer(event, now)
            case events.TasksChanged():
                if event.operators is not None:
                    self._state.job = replace(self._state.job, operators=event.operators)
                yield from self._replace_tasks(event.tasks, CheckpointDeclineReason.JOB_FAILOVER_REGION, now)
            case CoordinatedTaskStateChanged():
                yield from self._on_task_state(event, now)
            case StartCheckpointScheduler() | StopCheckpointScheduler() | PeriodicTriggerDue():
                yield from self._on_scheduler(event, now)
            case (
                events.TriggerRequested()
                | FinalCheckpointRequest()
                | StopCheckpointRequest()
                | FinalCheckpointRetryDue()
            ):
                yield from self._on_request(event, now)
            case events.CheckpointIdDrawn():
                yield from self._on_id_drawn(event, now)
            case CheckpointIdsNotDrawn(cause=cause):
                yield from self._trigger.on_id_not_drawn(cause, now)
            case OperatorCoordinatorsSnapshotted():
                yield from self._initialization.on_coordinators_snapshotted(event, now)
            case MasterHooksTriggered() | MasterHookFailed():
                yield from self._initialization.on_master_hooks(event, now)
            case CheckpointTimedOut():
                yield from self._on_timed_out(event, now)
            case events.EffectFailed():
                yield from self._on_effect_failed(event, now)
            case MetadataWritten() | MetadataWriteFailed():
                yield from self._on_metadata(event, now)
            case AbortPendingCheckpoints():
                yield from self._trigger.give_up_stop(event.reason)
                yield from self._replace_tasks((), event.reason, now)
            case CheckpointsRecovered() | CheckpointsNotRecovered() | CheckpointLeadershipLost():
                yield from self._on_store(event)
            case RequestRestoreState() | MetadataRead():
                yield from self._on_restore(event, now)
            case MasterHooksRestored() | MasterHookRestoreFailed():
                yield from self._hooks.restored(event)
            case StopCheckpointing():
                yield from self._on_shutdown(event, now)
            case Disposed():
                yield from self._state.completed.disposal_ended()
                yield from self._trigger.resume(now)
            case _:
                assert_never(event)

    # --- tasks -------------------------------------------------------------------------------------------------------

    def _on_task_state(self, event: CoordinatedTaskStateChanged, now: int) -> Effects:
        if event.attempt not in self._state.tasks:
            yield Ignore(reason=f"{event.attempt} is not an attempt of the job")
            return
        self._state.tasks.set_state(event.attempt, event.state)
        yield from self._trigger.on_tasks_changed(now)

    def _replace_tasks(self, tasks: tuple[PlannedTask, ...], reason: CheckpointDeclineReason, now: int) -> Effects:
        yield from self._trigger.forget_final()
        yield from self._completion.abort_all(reason, now)
        # Former attempts must not complete anything any more: new ones start from what is complete now.
        self._state.tasks.replace_tasks(tasks)
        yield from self._trigger.on_tasks_changed(now)
        yield from self._trigger.resume(now)

    # --- beginning ---------------------------------------------------------------------------------------------------

    def _on_scheduler(
        self, event: StartCheckpointScheduler | StopCheckpointScheduler | PeriodicTriggerDue, now: int
    ) -> Effects:
        match event:
            case StartCheckpointScheduler():
                yield from self._trigger.start_scheduler(now)
            case StopCheckpointScheduler():
                yield from self._trigger.stop_scheduler(CheckpointDeclineReason.COORDINATOR_SUSPEND)
                yield from self._completion.abort_all(CheckpointDeclineReason.COORDINATOR_SUSPEND, now)
            case PeriodicTriggerDue():
                yield from self._trigger.on_tick(now)

    def _on_request(
        self,
        event: events.TriggerRequested | FinalCheckpointRequest | StopCheckpointRequest | FinalCheckpointRetryDue,
        now: int,
    ) -> Effects:
        match event:
            case events.TriggerRequested():
                yield from self._trigger.request(
                    event.properties, now, is_periodic=event.is_periodic, request_id=event.request_id
                )
            case FinalCheckpointRequest():
                yield from self._trigger.reach_end_of_data(now)
            case StopCheckpointRequest():
                yield from self._trigger.stop_with(event, now)
            case FinalCheckpointRetryDue():
                yield from self._trigger.on_final_retry(now)

    def _on_id_drawn(self, event: events.CheckpointIdDrawn, now: int) -> Effects:
        self._state.pendings.use_id(event.checkpoint_id)
        request = yield from self._trigger.on_id_drawn(now)
        if request is None:
            yield from self._trigger.resume(now)
        else:
            yield from self._initialization.initialize(event.checkpoint_id, request, now)

    # --- collecting, completing, giving up ---------------------------------------------------------------------------

    def _on_answer(self, event: AcknowledgeCheckpoint | DeclineCheckpoint, now: int) -> Effects:
        if event.job_id != self._state.job.job_id:
            yield Ignore(reason=f"job {event.job_id} has a coordinator of its own")
            return
        match event:
            case AcknowledgeCheckpoint():
                yield from self._acknowledgements.acknowledge(event, now)
            case DeclineCheckpoint():
                yield from self._acknowledgements.decline(event, now)
                yield from self._trigger.resume(now)

    def _on_timed_out(self, event: CheckpointTimedOut, now: int) -> Effects:
        pending = self._state.pendings.get(event.checkpoint_id)
        if pending is None:
            yield Ignore(reason=f"checkpoint {event.checkpoint_id} is over")
            return
        yield from self._give_up(pending, pending.expired(self._state.settings.timeout_ms), now)

    def _on_effect_failed(self, event: events.EffectFailed, now: int) -> Effects:
        pending = self._state.pendings.get(event.checkpoint_id)
        if pending is None:
            yield Ignore(reason=f"checkpoint {event.checkpoint_id} is over")
            return
        reason = CheckpointDeclineReason.TRIGGER_CHECKPOINT_FAILURE
        yield from self._give_up(pending, CheckpointFailure(reason=reason, cause=event.cause), now)

    def _on_metadata(self, event: MetadataWritten | MetadataWriteFailed, now: int) -> Effects:
        write = self._state.completed.written(event.checkpoint_id)
        pending = self._state.pendings.get(event.checkpoint_id)
        match event:
            case MetadataWritten() if pending is None:
                # A savepoint that was given up while it was written: nobody may find it.
                yield from self._state.completed.dispose(checkpoints=(event.path,))
            case MetadataWriteFailed() if pending is None:
                yield Ignore(reason=f"checkpoint {event.checkpoint_id} was given up before its metadata failed")
                yield from self._completion.discard_unwritten(write.target_location)
            case MetadataWritten(path=path):
                assert pending is not None
                yield from self._completion.complete(pending, replace(write.checkpoint, path=path), now)
            case MetadataWriteFailed(cause=cause):
                assert pending is not None
                reason = CheckpointDeclineReason.FINALIZE_CHECKPOINT_FAILURE
                yield from self._give_up(pending, CheckpointFailure(reason=reason, cause=cause), now)
            case unreachable:
                assert_never(unreachable)

    def _give_up(self, pending: PendingCheckpoint, failure: CheckpointFailure, now: int) -> Effects:
        yield from self._completion.abort(pending, failure, now)
        yield from self._trigger.resume(now)

    # --- restoring and ending ----------------------------------------------------------------------------------------

    def _on_store(self, event: CheckpointsRecovered | CheckpointsNotRecovered | CheckpointLeadershipLost) -> Effects:
        match event:
            case CheckpointsRecovered(completed=completed, adopted=adopted):
                yield from self._state.completed.recover(completed, adopted)
                self._state.pendings.skip_to(event.ids.first - 1)
            case CheckpointsNotRecovered(cause=cause):
                self._state.completed.fail_recovery(cause)
            case CheckpointLeadershipLost():
                # What is pending may be complete in the store, or never will be: the tasks are told neither.
                self._is_fenced = True
                self._state.pendings.forget_all()
                self._state.completed.abandon()

    def _on_restore(self, event: RequestRestoreState | MetadataRead, now: int) -> Effects:
        yield from self._replace_tasks((), CheckpointDeclineReason.JOB_FAILOVER_REGION, now)
        if isinstance(event, RequestRestoreState):
            self._state.completed.restore(
                event.version, event.path, allow_non_restored_state=event.allow_non_restored_state
            )
            return
        if not len(self.completed):
            self._state.completed.adopt(event.checkpoint)
            self._state.pendings.skip_to(event.checkpoint.checkpoint_id)
        self._state.completed.restore(event.version, allow_non_restored_state=event.allow_non_restored_state)

    def _resume_waiting(self) -> Effects:
        for effect in self._state.completed.resume_waiting():
            if isinstance(effect, Restore):
                yield from self._hooks.restore(effect)
            else:
                yield effect

    def _on_shutdown(self, event: StopCheckpointing, now: int) -> Effects:
        if self.shut_down_with is not None:
            yield Ignore(reason=f"the coordinator was shut down when the job was {self.shut_down_with}")
            return
        self.shut_down_with = event.job_status
        reason = CheckpointDeclineReason.COORDINATOR_SHUTDOWN
        if self._is_fenced:
            self._state.completed.close(event.job_status)
            return
        was_stopped = event.job_status is JobStatus.FINISHED and self._trigger.final.keeps_checkpoint
        yield from self._trigger.shut_down(reason)
        yield from self._replace_tasks((), reason, now)
        if self._hooks.identifiers:
            yield effects.CloseMasterHooks()
        self._state.completed.close(
            event.job_status, keep_latest=was_stopped, keep_none=event.delete_checkpoints and not was_stopped
        )
