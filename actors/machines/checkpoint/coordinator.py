"""The state machine of a CheckpointCoordinator: begins checkpoints, collects acknowledgements, completes or aborts
checkpoints.

Mirrors Flink's CheckpointCoordinator. This module must not use clocks, ids, refs or storage. The actor draws an id,
which returns as an event. The actor writes the metadata and adds it to the store; the event that follows makes the
checkpoint complete. After the write has been requested the checkpoint can no longer be aborted; the store decides.
Late, duplicate and unknown messages are expected and end in `Ignore`.

The methods follow the life of a checkpoint, from the drawn id to its end, which is reported once to the tasks, to the
requester and to listeners. `trigger.py` has the earlier steps, `completed_store.py` the completed checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from flykka.actors.errors import serialize_error
from flykka.actors.machines.checkpoint import events
from flykka.actors.machines.checkpoint.completed_store import CompletedCheckpointStore, Restore
from flykka.actors.machines.checkpoint.events import (
    CoordinatorEffect,
    CoordinatorEvent,
    EventFailed,
    LateAcknowledgement,
)
from flykka.actors.machines.checkpoint.final_checkpoint import FinalPhase
from flykka.actors.machines.checkpoint.master_states import MasterHookRestores
from flykka.actors.machines.checkpoint.pending import (
    CoordinatedJob,
    PendingCheckpoint,
    PendingPhase,
    PlannedTask,
    TaskAcknowledgeResult,
)
from flykka.actors.machines.checkpoint.properties import with_alignment
from flykka.actors.machines.checkpoint.request_decider import CheckpointTriggerRequest
from flykka.actors.machines.checkpoint.trigger import CheckpointTrigger, CoordinatorState, savepoint_failed
from flykka.actors.machines.effects import CancelTimer, Ignore, StartTimer
from flykka.actors.machines.state.handles import exclusive_state
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    CheckpointDeclineReason,
    CheckpointFailure,
    CompletedCheckpoint,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    OperatorCoordinatorsSnapshotted,
    SnapshotOperatorCoordinators,
    TriggerCheckpoint,
)
from flykka.messages.checkpointing.statistics import (
    CheckpointTriggered,
    SubtaskCheckpointStatistics,
    SubtasksAcknowledged,
)
from flykka.messages.control.checkpoint_coordination import (
    AbortPendingCheckpoints,
    CheckpointFailuresExceeded,
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
    SavepointCompleted,
    StartCheckpointScheduler,
    StopCheckpointing,
    StopCheckpointRequest,
    StopCheckpointScheduler,
)
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted, JobStatus
from flykka.messages.graph.job_graph import CheckpointingSettings

Effects = Iterator[CoordinatorEffect]

EventOfCheckpoint = (
    AcknowledgeCheckpoint
    | DeclineCheckpoint
    | CheckpointTimedOut
    | OperatorCoordinatorsSnapshotted
    | MasterHooksTriggered
    | MasterHookFailed
    | events.TriggerRequested
    | events.CheckpointIdDrawn
    | CheckpointIdsNotDrawn
    | PeriodicTriggerDue
    | FinalCheckpointRequest
    | FinalCheckpointRetryDue
    | StopCheckpointRequest
)
"""Events about one checkpoint: if handling an event raises an error, its checkpoint is aborted. After any other error
the coordinator cannot continue, because its state would differ from the store or from the attempts of the job.
"""
_GIVEN_UP = frozenset(
    {
        CheckpointDeclineReason.COORDINATOR_SHUTDOWN,
        CheckpointDeclineReason.COORDINATOR_SUSPEND,
        CheckpointDeclineReason.JOB_FAILOVER_REGION,
        CheckpointDeclineReason.SUBSUMED,
    }
)
"""The reasons for which the coordinator aborts checkpoints without counting a failure."""


class CheckpointCoordinatorMachine:
    """The coordinator of one job. It outlives restarts of the tasks, and never reuses a checkpoint id."""

    def __init__(
        self,
        job: CoordinatedJob,
        settings: CheckpointingSettings,
        *,
        operator_coordinators: bool,
        master_hooks: Sequence[str] = (),
    ) -> None:
        self._job_id = job.job_id
        self._state = state = CoordinatorState(job, settings)
        self._hooks = MasterHookRestores(job.job_id, master_hooks)
        self._trigger = CheckpointTrigger(state)
        self._operator_coordinators = operator_coordinators
        self.shut_down_with: JobStatus | None = None
        self._is_fenced = False

    # For the actor and tests

    @property
    def pending(self) -> dict[int, PendingCheckpoint]:
        return {pending.checkpoint_id: pending for pending in self._state.pendings}

    @property
    def completed(self) -> CompletedCheckpointStore:
        return self._state.completed

    def registrations(self, state_id: str) -> int:
        return self._state.completed.registry.references(state_id)

    @property
    def is_scheduler_armed(self) -> bool:
        return self._trigger.periodic.is_armed

    def check(self) -> None:
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
        """Handle `event` at `now`. A fenced coordinator accepts only the end of the job."""
        if self._is_fenced and not isinstance(event, StopCheckpointing):
            return [Ignore(reason="another coordinator leads the job")]
        if not isinstance(event, EventOfCheckpoint):
            return [*self._handle(event, now), *self._resume_waiting()]
        effects: list[CoordinatorEffect] = []
        try:
            # Effects before the effect that raises belong to changes that were applied.
            for effect in self._handle(event, now):
                effects.append(effect)
        except Exception as error:  # noqa: BLE001 - whatever it is, it costs one checkpoint
            effects += self._give_up_event(event, error, now)
        return [*effects, *self._resume_waiting()]

    def _handle(self, event: CoordinatorEvent, now: int) -> Effects:
        match event:
            # Events that every task sends with every checkpoint come first, because a match tests class by class.
            case AcknowledgeCheckpoint() | DeclineCheckpoint():
                yield from self._on_answer(event, now)
            case events.TasksChanged():
                if event.operators is not None:
                    self._state.job = replace(self._state.job, operators=event.operators)
                yield from self._replace_tasks(event.tasks, CheckpointDeclineReason.JOB_FAILOVER_REGION, now)
            case CoordinatedTaskStateChanged():
                yield from self._on_task_state(event, now)
            case StartCheckpointScheduler():
                yield from self._trigger.start_scheduler(now)
            case StopCheckpointScheduler():
                yield from self._trigger.stop_scheduler(CheckpointDeclineReason.COORDINATOR_SUSPEND)
                yield from self._abort_all(CheckpointDeclineReason.COORDINATOR_SUSPEND, now)
            case PeriodicTriggerDue():
                yield from self._trigger.on_tick(now)
            case events.TriggerRequested(properties=properties, is_periodic=is_periodic, request_id=request_id):
                yield from self._trigger.request(properties, now, is_periodic=is_periodic, request_id=request_id)
            case FinalCheckpointRequest():
                yield from self._trigger.reach_end_of_data(now)
            case StopCheckpointRequest():
                yield from self._trigger.stop_with(event, now)
            case FinalCheckpointRetryDue():
                yield from self._trigger.on_final_retry(now)
            case events.CheckpointIdDrawn():
                yield from self._on_id_drawn(event, now)
            case CheckpointIdsNotDrawn(cause=cause):
                yield from self._trigger.on_id_not_drawn(cause, now)
            case OperatorCoordinatorsSnapshotted():
                yield from self._on_coordinators_snapshotted(event, now)
            case MasterHooksTriggered() | MasterHookFailed():
                yield from self._on_master_hooks(event, now)
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

    # Tasks

    def _on_task_state(self, event: CoordinatedTaskStateChanged, now: int) -> Effects:
        if event.attempt not in self._state.tasks:
            yield Ignore(reason=f"{event.attempt} is not an attempt of the job")
            return
        self._state.tasks.set_state(event.attempt, event.state)
        yield from self._trigger.on_tasks_changed(now)

    def _replace_tasks(self, tasks: tuple[PlannedTask, ...], reason: CheckpointDeclineReason, now: int) -> Effects:
        yield from self._trigger.forget_final()
        yield from self._abort_all(reason, now)
        # Replaced attempts must not complete a checkpoint: the new attempts start from the latest completed one.
        self._state.tasks.replace_tasks(tasks)
        yield from self._trigger.on_tasks_changed(now)
        yield from self._trigger.resume(now)

    # Beginning

    def _on_id_drawn(self, event: events.CheckpointIdDrawn, now: int) -> Effects:
        self._state.pendings.use_id(event.checkpoint_id)
        request = yield from self._trigger.on_id_drawn(now)
        if request is None:
            yield from self._trigger.resume(now)
        else:
            yield from self._initialize(event.checkpoint_id, request, now)

    def _initialize(self, checkpoint_id: int, request: CheckpointTriggerRequest, now: int) -> Effects:
        properties = with_alignment(request.properties, self._state.settings)
        pending = PendingCheckpoint(
            job=self._state.job,
            checkpoint_id=checkpoint_id,
            timestamp_ms=now,
            properties=properties,
            plan=self._state.tasks.calculate(),
            built_on=self._state.completed.latest_id,
            request_id=request.request_id,
        )
        self._state.pendings.add(pending)
        self._trigger.begun()
        if properties.is_final:
            self._trigger.final.record_begun(checkpoint_id)
        yield CheckpointTriggered(
            job_id=self._job_id,
            checkpoint_id=checkpoint_id,
            timestamp_ms=now,
            num_subtasks=len(pending.plan.to_wait_for),
            is_savepoint=properties.is_savepoint,
        )
        timeout_ms = self._state.settings.timeout_ms
        timed_out = CheckpointTimedOut(checkpoint_id=checkpoint_id)
        yield StartTimer(key=pending.timer, delay_ms=timeout_ms, message=timed_out)
        if self._operator_coordinators:
            yield SnapshotOperatorCoordinators(job_id=self._job_id, checkpoint_id=checkpoint_id)
        else:
            pending.set_coordinators(())
            yield from self._trigger_hooks(pending, now)

    def _on_coordinators_snapshotted(self, event: OperatorCoordinatorsSnapshotted, now: int) -> Effects:
        pending = self._state.pendings.get(event.checkpoint_id)
        if event.job_id != self._job_id or pending is None or pending.phase is not PendingPhase.COORDINATORS:
            yield Ignore(reason=f"checkpoint {event.checkpoint_id} does not wait for operator coordinators")
            return
        pending.set_coordinators(event.states)
        yield from self._trigger_hooks(pending, now)

    def _on_master_hooks(self, event: MasterHooksTriggered | MasterHookFailed, now: int) -> Effects:
        pending = self._state.pendings.get(event.checkpoint_id)
        if pending is None or pending.phase is not PendingPhase.MASTER_HOOKS:
            yield Ignore(reason=f"checkpoint {event.checkpoint_id} does not wait for master hooks")
            return
        match event:
            case MasterHooksTriggered(states=states):
                pending.set_master_states(states)
                yield from self._trigger_tasks(pending, now)
            case MasterHookFailed(cause=cause, reason=reason):
                yield from self._abort(pending, CheckpointFailure(reason=reason, cause=cause), now)
                yield from self._trigger.resume(now)

    def _trigger_hooks(self, pending: PendingCheckpoint, now: int) -> Effects:
        if self._hooks.identifiers:
            yield events.TriggerMasterHooks(checkpoint_id=pending.checkpoint_id, timestamp_ms=pending.timestamp_ms)
        else:
            pending.set_master_states(())
            yield from self._trigger_tasks(pending, now)

    def _trigger_tasks(self, pending: PendingCheckpoint, now: int) -> Effects:
        for attempt in pending.plan.to_trigger:
            yield TriggerCheckpoint(
                job_id=self._job_id,
                attempt=attempt,
                checkpoint_id=pending.checkpoint_id,
                timestamp_ms=pending.timestamp_ms,
                options=pending.properties.options,
            )
        self._trigger.finish_triggering()
        yield from self._finish(pending, now)
        yield from self._trigger.resume(now)

    # Responses of tasks

    def _on_answer(self, event: AcknowledgeCheckpoint | DeclineCheckpoint, now: int) -> Effects:
        if event.job_id != self._job_id:
            yield Ignore(reason=f"job {event.job_id} has a coordinator of its own")
            return
        match event:
            case AcknowledgeCheckpoint():
                yield from self._receive_acknowledge(event, now)
            case DeclineCheckpoint():
                yield from self._receive_decline(event, now)
                yield from self._trigger.resume(now)

    def _receive_acknowledge(self, event: AcknowledgeCheckpoint, now: int) -> Effects:
        checkpoint_id, attempt = event.checkpoint_id, event.attempt
        match self._state.pendings.expects(checkpoint_id, attempt):
            case TaskAcknowledgeResult.SUCCESS:
                pending = self._state.pendings.get(checkpoint_id)
                assert pending is not None
                yield from self._collect(pending, event, now)
            case TaskAcknowledgeResult.DUPLICATE:
                yield Ignore(reason=f"{attempt} has acknowledged checkpoint {checkpoint_id} already")
            case TaskAcknowledgeResult.UNKNOWN if checkpoint_id in self._state.completed:
                yield Ignore(reason=f"checkpoint {checkpoint_id} is complete")
            case TaskAcknowledgeResult.UNKNOWN:
                yield Ignore(reason=f"checkpoint {checkpoint_id} does not wait for {attempt}")
                yield from self._discard_late(event)
            case TaskAcknowledgeResult.DISCARDED:
                task = self._state.tasks.task(attempt)
                by = task.where if task is not None else f"{attempt}, which has ended"
                yield LateAcknowledgement(reason=f"checkpoint {checkpoint_id} had ended when {by} acknowledged it")
                yield from self._measure(event, now)
                yield from self._discard_late(event)
            case unreachable:
                assert_never(unreachable)

    def _receive_decline(self, event: DeclineCheckpoint, now: int) -> Effects:
        pending = self._state.pendings.get(event.checkpoint_id)
        if pending is None:
            yield Ignore(reason=f"checkpoint {event.checkpoint_id} is not pending")
            return
        failure = self._state.tasks.failure_of(event.attempt, event.reason, event.cause)
        yield from self._abort(pending, failure, now, by_task=True)

    def _finish(self, pending: PendingCheckpoint, now: int) -> Effects:
        if pending.is_fully_acknowledged:
            yield from self._state.completed.write(
                pending.finalize(now),
                pending.properties.options.target_location,
                is_retained=self._state.retains(pending.properties),
            )

    def _collect(self, pending: PendingCheckpoint, event: AcknowledgeCheckpoint, now: int) -> Effects:
        state = event.state
        if not pending.properties.is_savepoint:
            state, redundant = self._state.completed.acknowledge(event.checkpoint_id, state)
            yield from self._state.completed.dispose(state=redundant)
        yield from self._measure(event, now)
        pending.measure(event.metrics)
        pending.record_in_flight(event.events)
        pending.acknowledge(event.attempt, state)
        yield from self._finish(pending, now)

    def _measure(self, event: AcknowledgeCheckpoint, now: int) -> Effects:
        task = self._state.tasks.task(event.attempt)
        if task is not None:
            measured = SubtaskCheckpointStatistics(
                vertex_id=task.vertex_id, subtask=task.subtask, ack_ms=now, metrics=event.metrics
            )
            yield SubtasksAcknowledged(job_id=self._job_id, checkpoint_id=event.checkpoint_id, subtasks=(measured,))

    def _discard_late(self, event: AcknowledgeCheckpoint) -> Effects:
        exclusive = self._state.pendings.discard(event.checkpoint_id, exclusive_state(event.state))
        lives = event.attempt in self._state.tasks
        yield from self._state.completed.discard_late(
            event.checkpoint_id,
            event.state,
            exclusive,
            attempt_lives=lives,
            needed_from=self._state.pendings.needed_from(self._state.completed.latest_id),
        )

    # Completed or aborted

    def _on_timed_out(self, event: CheckpointTimedOut, now: int) -> Effects:
        pending = self._state.pendings.get(event.checkpoint_id)
        if pending is None:
            yield Ignore(reason=f"checkpoint {event.checkpoint_id} has ended")
            return
        yield from self._give_up(pending, pending.expired(self._state.settings.timeout_ms), now)

    def _on_effect_failed(self, event: events.EffectFailed, now: int) -> Effects:
        pending = self._state.pendings.get(event.checkpoint_id)
        if pending is None:
            yield Ignore(reason=f"checkpoint {event.checkpoint_id} has ended")
            return
        reason = CheckpointDeclineReason.TRIGGER_CHECKPOINT_FAILURE
        yield from self._give_up(pending, CheckpointFailure(reason=reason, cause=event.cause), now)

    def _on_metadata(self, event: MetadataWritten | MetadataWriteFailed, now: int) -> Effects:
        write = self._state.completed.written(event.checkpoint_id)
        pending = self._state.pendings.get(event.checkpoint_id)
        match event:
            case MetadataWritten() if pending is None:
                # The savepoint was aborted while it was being written, so it must not be found.
                yield from self._state.completed.dispose(checkpoints=(event.path,))
            case MetadataWriteFailed() if pending is None:
                yield Ignore(reason=f"checkpoint {event.checkpoint_id} was aborted before its metadata failed")
                yield from self._discard_unwritten(write.target_location)
            case MetadataWritten(path=path):
                assert pending is not None
                yield from self._complete(pending, replace(write.checkpoint, path=path), now)
            case MetadataWriteFailed(cause=cause):
                assert pending is not None
                reason = CheckpointDeclineReason.FINALIZE_CHECKPOINT_FAILURE
                yield from self._give_up(pending, CheckpointFailure(reason=reason, cause=cause), now)
            case unreachable:
                assert_never(unreachable)

    def _give_up(self, pending: PendingCheckpoint, failure: CheckpointFailure, now: int) -> Effects:
        yield from self._abort(pending, failure, now)
        yield from self._trigger.resume(now)

    def _complete(self, pending: PendingCheckpoint, checkpoint: CompletedCheckpoint, now: int) -> Effects:
        """Complete the checkpoint. It can no longer fail, because its metadata is durable and it is in the store."""
        checkpoint_id, properties = checkpoint.checkpoint_id, pending.properties
        if properties.can_be_subsumed and checkpoint_id < self._state.completed.latest_id:
            # The checkpoint was added to the store after a newer one that subsumes it.
            yield from self._abort(pending, CheckpointFailure(reason=CheckpointDeclineReason.SUBSUMED), now)
            yield from self._state.completed.dispose(retained=(checkpoint_id,), checkpoints=(checkpoint.path,))
            yield from self._trigger.resume(now)
            return
        self._state.pendings.remove(pending)
        yield CancelTimer(key=pending.timer)
        self._state.failures.succeed(checkpoint_id)
        # A savepoint belongs to the user: a job that starts from it commits its output, and this job commits the same
        # output with its next checkpoint.
        is_retained = self._state.retains(properties)
        if is_retained:
            for attempt in self._state.tasks.alive(pending.plan.to_commit_to):
                yield NotifyCheckpointComplete(
                    job_id=self._job_id,
                    attempt=attempt,
                    checkpoint_id=checkpoint_id,
                    timestamp_ms=checkpoint.timestamp_ms,
                )
        yield CheckpointCompleted(
            job_id=self._job_id,
            checkpoint_id=checkpoint_id,
            duration_ms=now - pending.timestamp_ms,
            size_bytes=pending.size_bytes,
            incremental_bytes=pending.incremental_bytes,
            path=checkpoint.path,
            timestamp_ms=now,
            is_retained=is_retained,
        )
        if pending.request_id is not None and not self._is_retried(pending):
            yield SavepointCompleted(
                job_id=self._job_id,
                request_id=pending.request_id,
                checkpoint_id=checkpoint_id,
                path=checkpoint.path,
            )
        if is_retained:
            needed_from = self._state.pendings.needed_from(checkpoint_id)
            yield from self._state.completed.retain(checkpoint, needed_from=needed_from)
            yield from self._subsume(checkpoint_id, now)
        yield from self._trigger.on_completed(checkpoint_id, now)
        yield from self._trigger.resume(now)

    def _abort_all(self, reason: CheckpointDeclineReason, now: int) -> Effects:
        for pending in self._state.pendings:
            yield from self._abort(pending, CheckpointFailure(reason=reason), now)

    def _abort(
        self, pending: PendingCheckpoint, failure: CheckpointFailure, now: int, *, by_task: bool = False
    ) -> Effects:
        """Abort the checkpoint, because a task declined it (`by_task`) or for a reason of the coordinator.

        A checkpoint that is being added to the store is not aborted: only the store decides whether it completes, and
        the next coordinator relies on that.
        """
        if self._state.completed.is_being_added(pending.checkpoint_id):
            yield Ignore(reason=f"checkpoint {pending.checkpoint_id} is being added to the store")
            return
        # In a task the barrier of any newer checkpoint may overtake this one. In the coordinator only a checkpoint
        # that may subsume it does.
        is_overtaken = failure.reason is CheckpointDeclineReason.SUBSUMED and not by_task
        assert pending.properties.can_be_subsumed or not is_overtaken
        self._state.pendings.remove(pending)
        if not pending.has_reached_tasks:
            self._trigger.finish_triggering()
        yield CancelTimer(key=pending.timer)
        yield from self._notify_aborted(pending)
        is_given_up = failure.reason in _GIVEN_UP and not by_task
        yield CheckpointAborted(
            job_id=self._job_id,
            checkpoint_id=pending.checkpoint_id,
            reason=failure.reason,
            timestamp_ms=now,
            failure=None if is_given_up else self._state.failures.repeated(failure, now),
        )
        yield from self._discard(pending)
        fatal = self._why_fatal(pending, failure.reason, by_task=by_task)
        if self._trigger.final.begun == pending.checkpoint_id:
            yield from self._trigger.on_final_aborted(pending.checkpoint_id, failure)
        elif pending.request_id is not None and not self._is_retried(pending):
            yield savepoint_failed(self._job_id, pending.request_id, failure)
        if fatal is not None:
            cause = failure.error(f"{fatal} {pending.checkpoint_id}")
            yield CheckpointFailuresExceeded(job_id=self._job_id, cause=cause)

    def _discard_unwritten(self, target_location: str | None) -> Effects:
        yield from self._state.completed.dispose(checkpoints=_folder(target_location))

    def _subsume(self, completed_id: int, now: int) -> Effects:
        for pending in self._state.pendings:
            if pending.checkpoint_id < completed_id and pending.properties.can_be_subsumed:
                yield from self._abort(pending, CheckpointFailure(reason=CheckpointDeclineReason.SUBSUMED), now)

    def _notify_aborted(self, pending: PendingCheckpoint) -> Effects:
        if not pending.has_reached_tasks:
            return
        latest = self._state.completed.latest
        for attempt in self._state.tasks.alive(task.attempt for task in pending.plan.to_wait_for):
            yield NotifyCheckpointAborted(
                job_id=self._job_id,
                attempt=attempt,
                checkpoint_id=pending.checkpoint_id,
                latest_completed_id=latest.checkpoint_id if latest else None,
                timestamp_ms=pending.timestamp_ms,
            )

    def _discard(self, pending: PendingCheckpoint) -> Effects:
        # While the metadata is being written, the folder of a savepoint is deleted only afterwards.
        is_left = pending.checkpoint_id in self._state.completed.writing
        folder = () if is_left else _folder(pending.properties.options.target_location)
        yield from self._state.completed.dispose(checkpoints=folder, state=pending.exclusive_state())

    def _is_retried(self, pending: PendingCheckpoint) -> bool:
        """Return True if the checkpoint should stop attempts that have ended: the stop waits for the new attempts."""
        final = self._trigger.final
        is_needed = final.stop is not None and final.stop.request_id == pending.request_id
        return is_needed and final.begun != pending.checkpoint_id

    def _why_fatal(self, pending: PendingCheckpoint, reason: CheckpointDeclineReason, *, by_task: bool) -> str | None:
        properties = pending.properties
        is_aborted_stop = self._trigger.final.begun == pending.checkpoint_id
        if is_aborted_stop and self._trigger.final.stop is not None:
            # The requester of the stop is notified. Drained sources cannot read any further.
            is_drained = properties.options.drain and pending.has_reached_tasks
            return "the job was drained, but its last checkpoint failed," if is_drained else None
        if properties.is_savepoint and not by_task:
            # A failover does not help if a savepoint could not be written.
            return None
        exceeded = self._state.failures.fail(pending.checkpoint_id, reason)
        return None if exceeded is None else f"{exceeded}, the last one"

    def _give_up_event(self, event: EventOfCheckpoint, error: Exception, now: int) -> Effects:
        if isinstance(event, AcknowledgeCheckpoint | DeclineCheckpoint):
            failure = self._state.tasks.failure_of(
                event.attempt, CheckpointDeclineReason.EXCEPTION, serialize_error(error)
            )
        else:
            reason = CheckpointDeclineReason.TRIGGER_CHECKPOINT_FAILURE
            failure = CheckpointFailure(reason=reason, cause=serialize_error(error))
        checkpoint_id: int | None = getattr(event, "checkpoint_id", None)
        pending = None if checkpoint_id is None else self._state.pendings.get(checkpoint_id)
        cost = "the requested checkpoint" if checkpoint_id is None else f"checkpoint {checkpoint_id}"
        yield EventFailed(event=type(event).__name__, error=error, cost=cost)
        if pending is not None:
            yield from self._abort(pending, failure, now)
        if isinstance(event, AcknowledgeCheckpoint):
            try:
                yield from self._discard_late(event)
            except Exception as second_error:  # noqa: BLE001 - what made the event raise may make this raise too
                yield EventFailed(
                    event=type(event).__name__, error=second_error, cost="state files that are not deleted"
                )
        awaited_id = isinstance(event, events.CheckpointIdDrawn | CheckpointIdsNotDrawn)
        yield from self._trigger.recover(failure, now, awaited_id=awaited_id)

    # Restoring and ending

    def _on_store(self, event: CheckpointsRecovered | CheckpointsNotRecovered | CheckpointLeadershipLost) -> Effects:
        match event:
            case CheckpointsRecovered(completed=completed, adopted=adopted):
                yield from self._state.completed.recover(completed, adopted)
                self._state.pendings.skip_to(event.ids.first - 1)
            case CheckpointsNotRecovered(cause=cause):
                self._state.completed.fail_recovery(cause)
            case CheckpointLeadershipLost():
                # Pending checkpoints may or may not complete in the store, so the tasks are notified of neither
                # outcome.
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
            yield Ignore(reason=f"the coordinator was shut down when the job became {self.shut_down_with}")
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
            yield events.CloseMasterHooks()
        self._state.completed.close(
            event.job_status, keep_latest=was_stopped, keep_none=event.delete_checkpoints and not was_stopped
        )


def _folder(target_location: str | None) -> tuple[str, ...]:
    return () if target_location is None else (target_location,)
