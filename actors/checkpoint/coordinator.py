"""The machine of a CheckpointCoordinator: when a checkpoint begins, who has acknowledged it, what becomes of it.

Mirrors Flink's CheckpointCoordinator. What may not be put here: clocks, ids, refs, storage. An id is drawn outside and
comes back as an event, the metadata is written outside and comes back as an event; a checkpoint is pending, and may be
given up, until then. Late, duplicate and unknown messages are ordinary and end in `Ignore`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from flykka.actors.checkpoint import effects, events
from flykka.actors.checkpoint.completed_store import CompletedCheckpointStore
from flykka.actors.checkpoint.effects import CoordinatorEffect, TimerKind
from flykka.actors.checkpoint.events import CoordinatorEvent
from flykka.actors.checkpoint.failure_manager import CheckpointFailureManager
from flykka.actors.checkpoint.final_checkpoint import FinalPhase
from flykka.actors.checkpoint.pending import PendingCheckpoint, PendingPhase, TaskAcknowledgeResult
from flykka.actors.checkpoint.plan import CheckpointPlanCalculator, PlannedTask
from flykka.actors.checkpoint.request_decider import (
    CheckpointLoad,
    CheckpointRequestDecider,
    CheckpointTriggerRequest,
)
from flykka.actors.checkpoint.statistics import CheckpointStatsTracker
from flykka.actors.checkpoint.stored_checkpoints import StoredCheckpoints
from flykka.actors.checkpoint.trigger import CheckpointTrigger
from flykka.actors.ignore import Ignore
from flykka.messages.checkpoint import (
    AcknowledgeCheckpoint,
    CheckpointDeclineReason,
    DeclineCheckpoint,
    OperatorCoordinatorsSnapshotted,
    OperatorCoordinatorState,
)
from flykka.messages.checkpoint_metadata import CompletedCheckpoint
from flykka.messages.coordination import (
    CheckpointTimedOut,
    FinalCheckpointRetryDue,
    MetadataWriteFailed,
    MetadataWritten,
    PeriodicTriggerDue,
)
from flykka.messages.failure import SerializedThrowable
from flykka.messages.ids import ExecutionAttemptId, JobId
from flykka.messages.job import JobStatus
from flykka.messages.job_graph import CheckpointingSettings

RECENT_CHECKPOINTS = 16
"""How many checkpoints that are over are remembered, to tell a duplicate from a late acknowledgement."""

Effects = Iterator[CoordinatorEffect]


class CheckpointCoordinatorMachine:
    """One per job; it outlives restarts of the tasks, and so do the ids it has seen."""

    def __init__(self, job_id: JobId, settings: CheckpointingSettings, *, operator_coordinators: bool) -> None:
        self.job_id = job_id
        self.stats = CheckpointStatsTracker()
        self._timeout_ms = settings.timeout_ms
        self._operator_coordinators = operator_coordinators
        self._failures = CheckpointFailureManager(settings.tolerable_failures)
        self._tasks = CheckpointPlanCalculator()
        self._stored = StoredCheckpoints(CompletedCheckpointStore(settings.retained), settings.retention)
        self._pending: dict[int, PendingCheckpoint] = {}
        decider = CheckpointRequestDecider(max_concurrent=settings.max_concurrent, min_pause_ms=settings.min_pause_ms)
        self._trigger = CheckpointTrigger(settings, decider, self._tasks, self._load)
        self._recent: dict[int, set[ExecutionAttemptId]] = {}
        self._last_id = 0
        self.shut_down_with: JobStatus | None = None

    # --- what can be seen from outside -------------------------------------------------------------------------------

    @property
    def pending(self) -> dict[int, PendingCheckpoint]:
        """The pending checkpoints by id, oldest first."""
        return dict(self._pending)

    @property
    def completed(self) -> CompletedCheckpointStore:
        """The retained completed checkpoints."""
        return self._stored.store

    @property
    def is_scheduler_armed(self) -> bool:
        """Whether a next periodic trigger is scheduled."""
        return self._trigger.periodic.is_armed

    def check(self) -> None:
        """Raise `AssertionError` where the machine is in a state that cannot be."""
        self._stored.check()
        for checkpoint_id, pending in self._pending.items():
            pending.check()
            assert checkpoint_id == pending.checkpoint_id <= self._last_id
            assert (pending.phase is PendingPhase.METADATA) == (checkpoint_id in self._stored.writing)
        assert self.shut_down_with is None or not self._pending
        final = any(pending.properties.is_final for pending in self._pending.values())
        assert (self._trigger.final.phase is FinalPhase.PENDING) == final
        self._trigger.final.check()

    def handle(self, event: CoordinatorEvent, now: int) -> list[CoordinatorEffect]:
        """What follows from `event` at `now`."""
        return list(self._handle(event, now))

    def _handle(self, event: CoordinatorEvent, now: int) -> Effects:
        match event:
            case events.TasksChanged():
                yield from self._replace_tasks(event.tasks, CheckpointDeclineReason.JOB_FAILOVER_REGION, now)
            case events.TaskStateChanged():
                yield from self._on_task_state(event, now)
            case events.SchedulerStarted():
                yield from self._trigger.start_scheduler(now)
            case events.SchedulerStopped():
                yield from self._trigger.stop_scheduler(CheckpointDeclineReason.COORDINATOR_SUSPEND)
                yield from self._abort_all(CheckpointDeclineReason.COORDINATOR_SUSPEND, now)
            case PeriodicTriggerDue():
                yield from self._trigger.on_tick(now)
            case events.TriggerRequested():
                yield from self._trigger.request(
                    event.properties, now, is_periodic=event.is_periodic, request_id=event.request_id
                )
            case events.CheckpointIdDrawn():
                yield from self._on_id_drawn(event, now)
            case OperatorCoordinatorsSnapshotted():
                yield from self._on_coordinators_snapshotted(event, now)
            case AcknowledgeCheckpoint():
                yield from self._on_acknowledge(event, now)
            case DeclineCheckpoint():
                yield from self._on_decline(event, now)
            case CheckpointTimedOut():
                yield from self._on_timed_out(event, now)
            case MetadataWritten() | MetadataWriteFailed():
                yield from self._on_metadata(event, now)
            case events.FinalCheckpointRequested():
                yield from self._trigger.reach_end_of_data(now)
            case events.StopRequested():
                yield from self._trigger.stop_with(event.stop, now)
            case FinalCheckpointRetryDue():
                yield from self._trigger.on_final_retry(now)
            case events.PendingAborted():
                self._trigger.final.forget_stop()
                yield from self._replace_tasks((), event.reason, now)
            case events.RestoreRequested() | events.CheckpointAdopted():
                yield from self._on_restore(event, now)
            case events.Shutdown():
                yield from self._on_shutdown(event, now)
            case events.DisposalEnded():
                self._stored.disposal_ended()
                yield from self._trigger.resume(now)
            case _:
                assert_never(event)
        yield from self._settle()

    # --- tasks -------------------------------------------------------------------------------------------------------

    def _on_task_state(self, event: events.TaskStateChanged, now: int) -> Effects:
        if event.attempt not in self._tasks:
            yield Ignore(reason=f"{event.attempt} is not an attempt of the job")
            return
        self._tasks.set_state(event.attempt, event.state)
        yield from self._trigger.on_tasks_changed(now)

    def _replace_tasks(self, tasks: tuple[PlannedTask, ...], reason: CheckpointDeclineReason, now: int) -> Effects:
        yield from self._trigger.forget_final()
        yield from self._abort_all(reason, now)
        # Former attempts must not complete anything any more: new ones start from what is complete now.
        self._tasks.replace_tasks(tasks)
        yield from self._trigger.on_tasks_changed(now)
        yield from self._trigger.resume(now)

    # --- beginning ---------------------------------------------------------------------------------------------------

    def _on_id_drawn(self, event: events.CheckpointIdDrawn, now: int) -> Effects:
        assert event.checkpoint_id > self._last_id, "ids only grow"
        self._last_id = event.checkpoint_id
        request = yield from self._trigger.on_id_drawn(now)
        if request is None:
            yield from self._trigger.resume(now)
        else:
            yield from self._begin(event.checkpoint_id, request, now)

    def _begin(self, checkpoint_id: int, request: CheckpointTriggerRequest, now: int) -> Effects:
        properties = request.properties
        pending = PendingCheckpoint(
            job_id=self.job_id,
            checkpoint_id=checkpoint_id,
            timestamp_ms=now,
            properties=properties,
            plan=self._tasks.calculate(),
            request_id=request.request_id,
        )
        self._pending[checkpoint_id] = pending
        if properties.is_final:
            self._trigger.final.begin(checkpoint_id)
        self.stats.report_pending(checkpoint_id, now, is_savepoint=properties.is_savepoint)
        yield effects.StartTimer(kind=TimerKind.TIMEOUT, delay_ms=self._timeout_ms, checkpoint_id=checkpoint_id)
        if self._operator_coordinators:
            yield effects.SnapshotCoordinators(checkpoint_id=checkpoint_id)
        else:
            yield from self._trigger_tasks(pending, (), now)

    def _on_coordinators_snapshotted(self, event: OperatorCoordinatorsSnapshotted, now: int) -> Effects:
        pending = self._pending.get(event.checkpoint_id)
        if event.job_id != self.job_id or pending is None or pending.phase is not PendingPhase.COORDINATORS:
            yield Ignore(reason=f"checkpoint {event.checkpoint_id} does not wait for operator coordinators")
            return
        yield from self._trigger_tasks(pending, event.states, now)

    def _trigger_tasks(
        self, pending: PendingCheckpoint, coordinators: tuple[OperatorCoordinatorState, ...], now: int
    ) -> Effects:
        pending.set_coordinators(coordinators)
        for attempt in pending.plan.to_trigger:
            yield effects.TriggerTask(
                attempt=attempt,
                checkpoint_id=pending.checkpoint_id,
                timestamp_ms=pending.timestamp_ms,
                options=pending.properties.options,
            )
        self._trigger.give_way()
        yield from self._trigger.resume(now)

    def _load(self) -> CheckpointLoad:
        return CheckpointLoad(pending=len(self._pending), cleaning=self._stored.disposals)

    # --- collecting --------------------------------------------------------------------------------------------------

    def _on_acknowledge(self, event: AcknowledgeCheckpoint, now: int) -> Effects:
        if event.job_id != self.job_id:
            yield Ignore(reason=f"job {event.job_id} has a coordinator of its own")
            return
        pending = self._pending.get(event.checkpoint_id)
        if pending is None:
            yield from self._on_late_acknowledge(event)
            return
        match pending.expects(event.attempt):
            case TaskAcknowledgeResult.SUCCESS:
                state = event.state
                if not pending.properties.is_savepoint:
                    state, redundant = self._stored.acknowledge(event.checkpoint_id, state)
                    yield from self._stored.dispose(state=redundant)
                pending.acknowledge(event.attempt, state, event.metrics)
                if pending.is_fully_acknowledged:
                    yield from self._stored.write(pending.finalize(now), pending.properties.options.target_location)
            case TaskAcknowledgeResult.DUPLICATE:
                yield Ignore(reason=f"{event.attempt} has acknowledged checkpoint {event.checkpoint_id} already")
            case TaskAcknowledgeResult.UNKNOWN:
                yield Ignore(reason=f"checkpoint {event.checkpoint_id} does not wait for {event.attempt}")
                yield from self._discard_late(event)
            case unreachable:
                assert_never(unreachable)

    def _on_late_acknowledge(self, event: AcknowledgeCheckpoint) -> Effects:
        acknowledged = self._recent.get(event.checkpoint_id, set())
        if event.checkpoint_id in self.completed or event.attempt in acknowledged:
            yield Ignore(reason=f"{event.attempt} has acknowledged checkpoint {event.checkpoint_id} already")
            return
        acknowledged.add(event.attempt)
        yield Ignore(reason=f"checkpoint {event.checkpoint_id} is not pending")
        yield from self._discard_late(event)

    def _on_decline(self, event: DeclineCheckpoint, now: int) -> Effects:
        pending = self._pending.get(event.checkpoint_id)
        if event.job_id != self.job_id or pending is None:
            yield Ignore(reason=f"checkpoint {event.checkpoint_id} of job {event.job_id} is not pending")
            return
        yield from self._abort(pending, event.reason, now, event.cause)
        yield from self._trigger.resume(now)

    def _on_timed_out(self, event: CheckpointTimedOut, now: int) -> Effects:
        pending = self._pending.get(event.checkpoint_id)
        if pending is None:
            yield Ignore(reason=f"checkpoint {event.checkpoint_id} is over")
            return
        yield from self._abort(pending, CheckpointDeclineReason.EXPIRED, now)
        yield from self._trigger.resume(now)

    # --- completing and giving up ------------------------------------------------------------------------------------

    def _on_metadata(self, event: MetadataWritten | MetadataWriteFailed, now: int) -> Effects:
        write = self._stored.written(event.checkpoint_id)
        pending = self._pending.get(event.checkpoint_id)
        match event:
            case MetadataWritten() if pending is None:
                # Given up while it was written: nobody may find it.
                yield from self._stored.dispose(checkpoints=(event.path,))
            case MetadataWritten():
                assert pending is not None
                yield from self._complete(pending, replace(write.checkpoint, path=event.path), now)
            case MetadataWriteFailed() if pending is not None:
                reason = CheckpointDeclineReason.FINALIZE_CHECKPOINT_FAILURE
                pending.phase = PendingPhase.TASKS
                yield from self._abort(pending, reason, now, event.cause)
                yield from self._trigger.resume(now)
            case MetadataWriteFailed():
                yield Ignore(reason=f"checkpoint {event.checkpoint_id} was given up before its metadata failed")
                yield from self._stored.dispose(checkpoints=_folder(write.target_location))
            case unreachable:
                assert_never(unreachable)

    def _complete(self, pending: PendingCheckpoint, checkpoint: CompletedCheckpoint, now: int) -> Effects:
        self._remove(pending)
        yield effects.CancelTimer(kind=TimerKind.TIMEOUT, checkpoint_id=checkpoint.checkpoint_id)
        self._failures.succeed()
        stats = self.stats.report_completed(
            checkpoint.checkpoint_id,
            now,
            size_bytes=pending.size_bytes,
            incremental_bytes=pending.incremental_bytes,
        )
        # A savepoint is the user's: who goes on from it commits what it holds, and the job commits with its next one.
        commits = not pending.properties.is_savepoint or pending.properties.is_final
        for attempt in self._tasks.alive(pending.plan.to_commit_to) if commits else ():
            yield effects.NotifyComplete(
                attempt=attempt, checkpoint_id=checkpoint.checkpoint_id, timestamp_ms=checkpoint.timestamp_ms
            )
        yield effects.ReportCompleted(checkpoint=checkpoint, stats=stats)
        if pending.request_id is not None:
            yield effects.ReportSavepointCompleted(
                request_id=pending.request_id, checkpoint_id=checkpoint.checkpoint_id, path=checkpoint.path
            )
        if commits:
            yield from self._stored.retain(checkpoint)
            yield from self._subsume(checkpoint.checkpoint_id, now)
        yield from self._trigger.on_completed(pending.properties, now)
        yield from self._trigger.resume(now)

    def _subsume(self, completed_id: int, now: int) -> Effects:
        for pending in list(self._pending.values()):
            if pending.checkpoint_id < completed_id and pending.properties.can_be_subsumed:
                yield from self._abort(pending, CheckpointDeclineReason.SUBSUMED, now)

    def _abort_all(self, reason: CheckpointDeclineReason, now: int) -> Effects:
        for pending in list(self._pending.values()):
            yield from self._abort(pending, reason, now)

    def _abort(
        self,
        pending: PendingCheckpoint,
        reason: CheckpointDeclineReason,
        now: int,
        cause: SerializedThrowable | None = None,
    ) -> Effects:
        self._remove(pending)
        if pending.phase is PendingPhase.COORDINATORS:
            self._trigger.give_way()
        yield effects.CancelTimer(kind=TimerKind.TIMEOUT, checkpoint_id=pending.checkpoint_id)
        self.stats.report_failed(pending.checkpoint_id, now, reason)
        latest = self.completed.latest
        # No task has heard of a checkpoint that still waits for the operator coordinators.
        heard = () if pending.phase is PendingPhase.COORDINATORS else pending.plan.to_wait_for
        for attempt in self._tasks.alive(task.attempt for task in heard):
            yield effects.NotifyAborted(
                attempt=attempt,
                checkpoint_id=pending.checkpoint_id,
                latest_completed_id=latest.checkpoint_id if latest else None,
                timestamp_ms=pending.timestamp_ms,
            )
        yield effects.ReportAborted(checkpoint_id=pending.checkpoint_id, reason=reason)
        # While the metadata is being written there, the folder of a savepoint is left to the end of that.
        is_left = pending.phase is PendingPhase.METADATA
        folder = () if is_left else _folder(pending.properties.options.target_location)
        yield from self._stored.dispose(checkpoints=folder, state=pending.exclusive_state())
        counts = not pending.properties.is_savepoint
        failure = effects.CheckpointFailure(reason=reason, cause=cause)
        if pending.properties.is_final:
            # As a savepoint's, the failure of a stop is told to whoever wants it, and is nothing to the job.
            counts = self._trigger.final.stop is None
            yield from self._trigger.on_final_aborted(pending.checkpoint_id, failure)
        elif pending.request_id is not None:
            yield effects.ReportSavepointFailed(request_id=pending.request_id, failure=failure)
        if counts and self._failures.fail(pending.checkpoint_id, reason):
            yield effects.FailJob(cause=_too_many_failures(pending.checkpoint_id, reason, cause))

    def _remove(self, pending: PendingCheckpoint) -> None:
        del self._pending[pending.checkpoint_id]
        self._recent[pending.checkpoint_id] = set(pending.acknowledged)
        if len(self._recent) > RECENT_CHECKPOINTS:
            del self._recent[min(self._recent)]

    def _discard_late(self, event: AcknowledgeCheckpoint) -> Effects:
        lives = event.attempt in self._tasks
        yield from self._stored.discard_late(event.checkpoint_id, event.state, attempt_lives=lives)

    # --- restoring and ending ----------------------------------------------------------------------------------------

    def _on_restore(self, event: events.RestoreRequested | events.CheckpointAdopted, now: int) -> Effects:
        yield from self._replace_tasks((), CheckpointDeclineReason.JOB_FAILOVER_REGION, now)
        if isinstance(event, events.CheckpointAdopted) and not len(self.completed):
            self._stored.adopt(event.checkpoint)
            self._last_id = max(self._last_id, event.checkpoint.checkpoint_id)
        self._stored.restore(event.version)

    def _settle(self) -> Effects:
        for effect in self._stored.settle():
            if isinstance(effect, effects.Restore) and effect.checkpoint is not None:
                self.stats.report_restored(effect.checkpoint.checkpoint_id)
            yield effect

    def _on_shutdown(self, event: events.Shutdown, now: int) -> Effects:
        if self.shut_down_with is not None:
            yield Ignore(reason=f"the coordinator was shut down when the job was {self.shut_down_with}")
            return
        self.shut_down_with = event.job_status
        reason = (
            CheckpointDeclineReason.COORDINATOR_SUSPEND
            if event.job_status is JobStatus.SUSPENDED
            else CheckpointDeclineReason.COORDINATOR_SHUTDOWN
        )
        was_stopped = event.job_status is JobStatus.FINISHED and self._trigger.final.keeps_checkpoint
        yield from self._trigger.shut_down(reason)
        yield from self._replace_tasks((), reason, now)
        self._stored.close(event.job_status, keep_latest=was_stopped)


def _folder(target_location: str | None) -> tuple[str, ...]:
    return () if target_location is None else (target_location,)


def _too_many_failures(
    checkpoint_id: int, reason: CheckpointDeclineReason, cause: SerializedThrowable | None
) -> SerializedThrowable:
    because = f": {cause.type_name}: {cause.message}" if cause else ""
    return SerializedThrowable(
        type_name="CheckpointError",
        message=f"more checkpoints failed than are tolerable, the last one {checkpoint_id} with {reason}{because}",
        stack_trace=cause.stack_trace if cause else "",
    )
