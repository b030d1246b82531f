"""Triggers checkpoints: the scheduler's ticks, requests and their preconditions, the final checkpoint.

Mirrors the triggering half of Flink's CheckpointCoordinator. A request is checked, then the actor draws an id. When the
id arrives, all preconditions are checked again, because they may have changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from hashlib import blake2b

from flykka.actors.machines.checkpoint.completed_store import CompletedCheckpointStore
from flykka.actors.machines.checkpoint.events import CoordinatorEffect, DrawCheckpointId, TriggerDeclined
from flykka.actors.machines.checkpoint.failure_manager import CheckpointFailureManager
from flykka.actors.machines.checkpoint.final_checkpoint import FinalCheckpoint, FinalPhase
from flykka.actors.machines.checkpoint.pending import CheckpointPlanCalculator, CoordinatedJob, PendingCheckpoints
from flykka.actors.machines.checkpoint.properties import CheckpointProperties, for_checkpoint
from flykka.actors.machines.checkpoint.request_decider import (
    CheckpointLoad,
    CheckpointRequestDecider,
    CheckpointTriggerRequest,
    RequestDecision,
)
from flykka.actors.machines.effects import CancelTimer, Ignore, StartTimer
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, CheckpointFailure
from flykka.messages.control.checkpoint_coordination import (
    CheckpointFailuresExceeded,
    FinalCheckpointRetryDue,
    PeriodicTriggerDue,
    SavepointFailed,
    StopCheckpointFailed,
    StopCheckpointRequest,
)
from flykka.messages.graph.job_graph import CheckpointingSettings
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId


class CoordinatorState:
    """The state of one coordinator, which creates it. Only parts of the coordinator use it."""

    def __init__(self, job: CoordinatedJob, settings: CheckpointingSettings) -> None:
        self.job = job
        self.settings = settings
        self.tasks = CheckpointPlanCalculator()
        self.pendings = PendingCheckpoints()
        self.completed = CompletedCheckpointStore(
            job.job_id, settings.retained, for_checkpoint(settings.retention), settings.max_concurrent_deletions
        )
        self.failures = CheckpointFailureManager(settings.tolerable_failures, settings.tolerable_by_reason)

    def retains(self, properties: CheckpointProperties) -> bool:
        """Return True if the job may restart from the checkpoint, unlike from a savepoint after which it continues."""
        return not properties.is_savepoint or properties.is_final

    @property
    def load(self) -> CheckpointLoad:
        """The load without the request that is being triggered."""
        return CheckpointLoad(pending=len(self.pendings), cleaning=self.completed.disposals)


FINAL_RETRY_MS = 1_000
"""The delay after a failed final checkpoint, in milliseconds. Without it, a retry that fails at once would repeat
without a pause.
"""
_RETRY_TIMER = "final-retry"
FIRST_DELAY_MS = 1_000
"""The minimum delay of the first checkpoint in milliseconds, limited to the interval: the first batches run by then."""
_TIMER = "periodic"


class CheckpointTrigger:
    """Handles requests until they become checkpoints. Only reads the coordinator's state."""

    def __init__(self, state: CoordinatorState) -> None:
        self.final = FinalCheckpoint()
        self.periodic = PeriodicTrigger(state.settings, state.job.job_id)
        self._periodic_properties = for_checkpoint(state.settings.retention)
        self._state = state
        settings = state.settings
        self._requests = CheckpointRequestDecider(
            max_concurrent=settings.max_concurrent, min_pause_ms=settings.min_pause_ms
        )
        self._drawing: CheckpointTriggerRequest | None = None
        self._in_hand: CheckpointTriggerRequest | None = None
        """The request that is neither queued nor pending nor waiting for an id. Set only while one event is handled."""
        self._is_triggering = False
        self._failed_draws = 0
        self._requested = 0
        self._tick_waits = False
        self._missed_tick = False
        self._is_shut_down = False

    # The scheduler

    def start_scheduler(self, now: int) -> Iterator[CoordinatorEffect]:
        if self._is_shut_down:
            yield Ignore(reason="the coordinator is shut down")
            return
        yield from self.periodic.start(now)

    def stop_scheduler(self, reason: CheckpointDeclineReason) -> Iterator[CoordinatorEffect]:
        for request in self._requests.abort_all():
            yield from self._decline(request, reason)
        self._missed_tick = False
        yield from self.periodic.stop()

    def shut_down(self, reason: CheckpointDeclineReason) -> Iterator[CoordinatorEffect]:
        self._is_shut_down = True
        yield from self.give_up_stop(reason)
        yield from self.stop_scheduler(reason)

    def on_tick(self, now: int) -> Iterator[CoordinatorEffect]:
        """Handle the periodic timer. The periodic scheduler has at most one queued request."""
        if not self.periodic.is_armed:
            yield Ignore(reason="the scheduler is off")
            return
        yield from self.periodic.tick(now)
        if not self._tick_waits:
            yield from self._tick(now)

    def _tick(self, now: int) -> Iterator[CoordinatorEffect]:
        self._tick_waits = True
        yield from self.request(self._periodic_properties, now, is_periodic=True)

    # Requests

    def request(
        self,
        properties: CheckpointProperties,
        now: int,
        *,
        is_periodic: bool = False,
        request_id: str | None = None,
    ) -> Iterator[CoordinatorEffect]:
        self._requested += 1
        request = CheckpointTriggerRequest(
            properties=properties,
            timestamp_ms=now,
            number=self._requested,
            is_periodic=is_periodic,
            request_id=request_id,
        )
        self._in_hand = request
        if self._is_shut_down:
            yield from self._decline(request, CheckpointDeclineReason.COORDINATOR_SHUTDOWN)
            return
        yield from self._follow(self._requests.offer(request, self._load(), now), now)

    def on_id_drawn(self, now: int) -> Generator[CoordinatorEffect, None, CheckpointTriggerRequest | None]:
        """Return the request that begins with the drawn id, or `None` if its preconditions no longer hold."""
        request = self._drawn()
        self._failed_draws = 0
        refusal = self._refusal(request)
        if refusal is not None:
            yield from self._decline(request, refusal)
            return None
        self._is_triggering = True
        self._tick_waits = self._tick_waits and not request.is_periodic
        self._missed_tick = False
        if not request.properties.is_final:
            return request
        # The requesters may have changed while the id was being drawn.
        return replace(request, properties=self.final.properties(), request_id=_asks(self.final.stop))

    def on_id_not_drawn(self, cause: SerializedThrowable, now: int) -> Iterator[CoordinatorEffect]:
        """Decline the request for which no id could be drawn. The periodic scheduler tries again with its next tick.

        The number of failures in a row is Flink's numUnsuccessfulCheckpointsTriggers.
        """
        request = self._drawn()
        self._failed_draws += 1
        refusal = self._refusal(request)
        if refusal is not None:
            yield from self._decline(request, refusal)
        else:
            in_a_row = f", {self._failed_draws} times in a row" if self._failed_draws > 1 else ""
            error = replace(cause, message=f"its id could not be drawn{in_a_row}: {cause.message}")
            failure = CheckpointFailure(reason=CheckpointDeclineReason.TRIGGER_CHECKPOINT_FAILURE, cause=error)
            yield from self._decline(request, failure.reason, error)
            yield from self._count(request, failure)
        yield from self.resume(now)

    def _count(
        self, request: CheckpointTriggerRequest, failure: CheckpointFailure
    ) -> Iterator[CheckpointFailuresExceeded]:
        if request.properties.is_savepoint or request.properties.is_final:
            # The requester is notified, or the checkpoint is retried.
            return
        exceeded = self._state.failures.fail(None, failure.reason)
        if exceeded is not None:
            error = failure.error(f"{exceeded}, the last one before it had an id,")
            yield CheckpointFailuresExceeded(job_id=self._state.job.job_id, cause=error)

    def _drawn(self) -> CheckpointTriggerRequest:
        assert self._drawing is not None, "no checkpoint id was requested"
        self._in_hand = request = self._drawing
        self._drawing = None
        self._is_triggering = False
        return request

    def begun(self) -> None:
        """Record that the current request has become a pending checkpoint."""
        self._in_hand = None

    def recover(self, failure: CheckpointFailure, now: int, *, awaited_id: bool) -> Iterator[CoordinatorEffect]:
        """Decline the requests that were lost because handling an event raised an error.

        `awaited_id` is True if the event was the reply for the request that waits for its id.
        """
        requests = [self._in_hand]
        if awaited_id:
            requests.append(self._drawing)
            self._drawing = None
        for request in requests:
            if request is not None:
                yield from self._decline(request, failure.reason, failure.cause)
                yield from self._count(request, failure)
        self._is_triggering = self._drawing is not None or any(
            not pending.has_reached_tasks for pending in self._state.pendings
        )
        yield from self.periodic.rearm_if_missed(now)
        yield from self.resume(now)

    def finish_triggering(self) -> None:
        """Allow the next checkpoint: the last one was sent to the tasks, or was aborted before that."""
        self._is_triggering = False

    def on_tasks_changed(self, now: int) -> Iterator[CoordinatorEffect]:
        if not self._state.tasks.can_trigger:
            return
        yield from self.resume(now)
        if self._missed_tick and not self._tick_waits:
            yield from self._tick(now)

    def resume(self, now: int) -> Iterator[CoordinatorEffect]:
        """Continue with the requests that waited for a lower load."""
        yield from self._take_final(now)
        yield from self._follow(self._requests.poll(self._load(), now), now)

    # Ended checkpoints

    def on_completed(self, checkpoint_id: int, now: int) -> Iterator[CoordinatorEffect]:
        self._requests.completed(now)
        if self.final.begun == checkpoint_id:
            self.final.complete()
            yield from self.periodic.stop()

    def on_final_aborted(self, checkpoint_id: int | None, failure: CheckpointFailure) -> Iterator[CoordinatorEffect]:
        """Retry the aborted final checkpoint at the end of the input. A stop fails because of the abort."""
        stop = self.final.fail()
        if stop is not None:
            yield self._stop_failed(stop, checkpoint_id, failure)
        if self.final.is_to_be_retried:
            yield StartTimer(key=_RETRY_TIMER, delay_ms=FINAL_RETRY_MS, message=FinalCheckpointRetryDue())

    # The final checkpoint

    def reach_end_of_data(self, now: int) -> Iterator[CoordinatorEffect]:
        """Take one more checkpoint at the end of all input, as soon as all tasks run and no checkpoint is pending."""
        if not self.final.reach_end_of_data():
            yield Ignore(reason=f"the final checkpoint is {self.final.phase.name}")
            return
        yield from self._take_final(now)

    def stop_with(self, stop: StopCheckpointRequest, now: int) -> Iterator[CoordinatorEffect]:
        """End the job with a final checkpoint, which begins at once. A running checkpoint cannot become a savepoint."""
        final_id = self.final.begun
        if stop.target_location is not None and final_id is not None and self.final.stop is None:
            failure = CheckpointFailure(
                reason=CheckpointDeclineReason.INPUT_END_OF_STREAM,
                cause=SerializedThrowable(
                    type_name="CheckpointError",
                    message=f"the input is at its end, and the job already ends with checkpoint {final_id}",
                ),
            )
            yield self._stop_failed(stop, final_id, failure)
            return
        if not self.final.stop_with(stop):
            yield Ignore(reason=f"the final checkpoint is {self.final.phase.name}")
            return
        yield from self._take_final(now)

    def give_up_stop(self, reason: CheckpointDeclineReason) -> Iterator[CoordinatorEffect]:
        """Abandon the stop, because the job's state changed. The stop fails unless its savepoint is pending."""
        stop = self.final.forget_stop()
        if stop is None or stop.target_location is None or stop.request_id is None:
            return
        if all(pending.request_id != stop.request_id for pending in self._state.pendings):
            yield savepoint_failed(self._state.job.job_id, stop.request_id, CheckpointFailure(reason=reason))

    def on_final_retry(self, now: int) -> Iterator[CoordinatorEffect]:
        if self.final.phase is not FinalPhase.WAITING_TO_RETRY:
            yield Ignore(reason=f"the final checkpoint is {self.final.phase.name}")
            return
        self.final.move(FinalPhase.WANTED)
        yield from self._take_final(now)

    def forget_final(self) -> Iterator[CoordinatorEffect]:
        """Forget the end of data that ended attempts have reported. The new attempts will report it again."""
        if self.final.phase is FinalPhase.WAITING_TO_RETRY:
            yield CancelTimer(key=_RETRY_TIMER)
        self.final.forget_attempts()

    def _take_final(self, now: int) -> Iterator[CoordinatorEffect]:
        load = self._load()
        # A stop does not wait. At the end of the input, two concurrent checkpoints have no advantage.
        has_turn = self.final.stop is not None or not load.pending
        if self.final.phase is FinalPhase.WANTED and has_turn and not load.is_triggering:
            self.final.move(FinalPhase.REQUESTED)
            yield from self.request(self.final.properties(), now)

    # Preconditions

    def _load(self) -> CheckpointLoad:
        return replace(self._state.load, is_triggering=self._is_triggering)

    def _follow(self, decision: RequestDecision, now: int) -> Iterator[CoordinatorEffect]:
        while True:
            self._in_hand = decision.chosen
            yield from self._apply(decision, now)
            if decision.chosen is None:
                return
            refusal = self._refusal(decision.chosen)
            if refusal is None:
                self._drawing, self._in_hand, self._is_triggering = decision.chosen, None, True
                yield DrawCheckpointId()
                return
            yield from self._decline(decision.chosen, refusal)
            decision = self._requests.poll(self._load(), now)

    def _apply(self, decision: RequestDecision, now: int) -> Iterator[CoordinatorEffect]:
        for request, reason in decision.dropped:
            yield from self._decline(request, reason)
        if decision.retry_ms is not None:
            yield from self.periodic.rearm(now, decision.retry_ms)

    def _refusal_of_coordinator(self, request: CheckpointTriggerRequest) -> CheckpointDeclineReason | None:
        if self._is_shut_down:
            return CheckpointDeclineReason.COORDINATOR_SHUTDOWN
        if request.is_periodic and (not self.periodic.is_on or self.final.is_next):
            # After the final checkpoint's barrier nothing is read, so no other checkpoint may follow. While the final
            # checkpoint waits, no other may begin: if checkpoints overlap, one would always be pending, and the final
            # one would never begin.
            return CheckpointDeclineReason.PERIODIC_SCHEDULER_SHUTDOWN
        return None

    def _refusal(self, request: CheckpointTriggerRequest) -> CheckpointDeclineReason | None:
        refusal = self._refusal_of_coordinator(request)
        if refusal is not None:
            return refusal
        if request.properties.is_final and self.final.phase is not FinalPhase.REQUESTED:
            return CheckpointDeclineReason.ALREADY_QUEUED
        return None if self._state.tasks.can_trigger else CheckpointDeclineReason.NOT_ALL_REQUIRED_TASKS_RUNNING

    def _decline(
        self,
        request: CheckpointTriggerRequest,
        reason: CheckpointDeclineReason,
        cause: SerializedThrowable | None = None,
    ) -> Iterator[CoordinatorEffect]:
        if request.is_periodic:
            self._tick_waits = False
            if reason is CheckpointDeclineReason.NOT_ALL_REQUIRED_TASKS_RUNNING:
                self._missed_tick = True
        if self._in_hand is request:
            self._in_hand = None
        is_blocked = reason is CheckpointDeclineReason.NOT_ALL_REQUIRED_TASKS_RUNNING
        yield TriggerDeclined(reason=reason, cause=cause, blocking=self._state.tasks.blocking if is_blocked else ())
        failure = CheckpointFailure(reason=reason, cause=cause)
        if request.properties.is_final and cause is not None:
            yield from self.on_final_aborted(None, failure)
        elif request.properties.is_final:
            self.final.decline()
        elif request.request_id is not None:
            yield savepoint_failed(self._state.job.job_id, request.request_id, failure)

    def _stop_failed(
        self, stop: StopCheckpointRequest, checkpoint_id: int | None, failure: CheckpointFailure
    ) -> StopCheckpointFailed:
        return StopCheckpointFailed(
            job_id=self._state.job.job_id,
            checkpoint_id=checkpoint_id,
            reason=failure.reason,
            cause=failure.cause,
            request_id=stop.request_id,
        )


def savepoint_failed(job_id: JobId, request_id: str, failure: CheckpointFailure) -> SavepointFailed:
    return SavepointFailed(job_id=job_id, request_id=request_id, reason=failure.reason, cause=failure.cause)


def _asks(stop: StopCheckpointRequest | None) -> str | None:
    return None if stop is None else stop.request_id


class PeriodicTrigger:
    """Requests a checkpoint once per interval while the job runs.

    By default the first checkpoint is early, because until it is complete nothing is published, and a failure restarts
    the job from the beginning. Flink draws the first delay between the minimum pause and the interval
    (CheckpointCoordinator.getRandomInitDelay), so that jobs do not all write at once. A job may be configured to do the
    same: the draw is a function of the job id, so that it differs between jobs, but not in a replay.

    The rate is fixed: a late tick does not move later ticks. If a request comes before the end of a pause, the next
    tick is at the end of the pause, and the rate continues from there.
    """

    def __init__(self, settings: CheckpointingSettings, job_id: JobId) -> None:
        interval_ms, min_pause_ms = settings.interval_ms, settings.min_pause_ms
        if interval_ms is not None and interval_ms < 1:
            raise ValueError(f"the checkpoint interval has to be at least 1 ms, not {interval_ms}")
        # Requests more frequent than the pause allows would be declined.
        self._interval_ms = None if interval_ms is None else max(interval_ms, min_pause_ms)
        self._first_delay_ms = 0 if self._interval_ms is None else _first_delay(settings, self._interval_ms, job_id)
        self._due: int | None = None
        self.is_on = False

    @property
    def is_armed(self) -> bool:
        return self._due is not None

    def start(self, now: int) -> Iterator[StartTimer]:
        self.is_on = True
        if self._interval_ms is not None:
            yield self._arm(now, self._first_delay_ms)

    def stop(self) -> Iterator[CancelTimer]:
        self.is_on = False
        if self._due is not None:
            self._due = None
            yield CancelTimer(key=_TIMER)

    def rearm(self, now: int, delay_ms: int) -> Iterator[StartTimer]:
        """Set the next tick to `delay_ms` from now, and continue from there. Does nothing while switched off."""
        if self.is_on and self._interval_ms is not None:
            yield self._arm(now, delay_ms)

    def rearm_if_missed(self, now: int) -> Iterator[StartTimer]:
        if self._due is not None and self._due <= now and self._interval_ms is not None:
            yield self._arm(now, self._interval_ms)

    def tick(self, now: int) -> Iterator[StartTimer]:
        assert self._due is not None
        assert self._interval_ms is not None
        missed = (now - self._due) // self._interval_ms
        yield self._arm(now, self._due + (missed + 1) * self._interval_ms - now)

    def _arm(self, now: int, delay_ms: int) -> StartTimer:
        self._due = now + delay_ms
        return StartTimer(key=_TIMER, delay_ms=delay_ms, message=PeriodicTriggerDue())


def _first_delay(settings: CheckpointingSettings, interval_ms: int, job_id: JobId) -> int:
    if settings.has_random_initial_delay:
        hash_value = int.from_bytes(blake2b(job_id.encode(), digest_size=8).digest())
        return settings.min_pause_ms + hash_value % (interval_ms - settings.min_pause_ms + 1)
    if settings.initial_delay_ms is not None:
        return settings.initial_delay_ms
    return min(max(FIRST_DELAY_MS, settings.min_pause_ms), interval_ms)
