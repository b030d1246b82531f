"""When a checkpoint begins: the scheduler's ticks, requests and their preconditions, the final checkpoint.

Mirrors the triggering half of Flink's CheckpointCoordinator. A request is checked, an id is drawn outside, and when it
comes everything is checked a second time, because the world went on meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sized

from flykka.actors.checkpoint.effects import (
    CancelTimer,
    CheckpointFailure,
    CoordinatorEffect,
    DrawCheckpointId,
    ReportStopFailed,
    StartTimer,
    TimerKind,
    TriggerDeclined,
)
from flykka.actors.checkpoint.final_checkpoint import FinalCheckpoint, FinalDemand, FinalPhase
from flykka.actors.checkpoint.periodic_trigger import PeriodicTrigger
from flykka.actors.checkpoint.plan import CheckpointPlanCalculator
from flykka.actors.checkpoint.properties import CheckpointProperties
from flykka.actors.checkpoint.request_decider import CheckpointRequestDecider
from flykka.actors.ignore import Ignore
from flykka.messages.checkpoint import CheckpointDeclineReason, CheckpointOptions
from flykka.messages.job_graph import CheckpointingSettings

FINAL_RETRY_MS = 1_000
"""How long to wait after a failed final checkpoint: it may fail at once, and nothing else slows it down."""

_PERIODIC = CheckpointProperties(periodic=True)
_FINAL = CheckpointProperties(options=CheckpointOptions(is_final=True), final=True)


class CheckpointTrigger:
    """Requests on their way to a checkpoint. `tasks` and `pending` are the coordinator's and only looked at."""

    def __init__(self, settings: CheckpointingSettings, tasks: CheckpointPlanCalculator, pending: Sized) -> None:
        self.final = FinalCheckpoint()
        self.periodic = PeriodicTrigger(settings.interval_ms)
        self._decider = CheckpointRequestDecider(
            max_concurrent=settings.max_concurrent, min_pause_ms=settings.min_pause_ms
        )
        self._tasks = tasks
        self._pending = pending
        self._drawing: CheckpointProperties | None = None
        self._requests: deque[CheckpointProperties] = deque()
        self._missed_tick = False
        self._is_shut_down = False

    # --- the scheduler -----------------------------------------------------------------------------------------------

    def start_scheduler(self, now: int) -> Iterator[CoordinatorEffect]:
        """Trigger periodically from now on."""
        if self._is_shut_down:
            yield Ignore(reason="the coordinator is shut down")
            return
        yield from self.periodic.start(now)

    def stop_scheduler(self) -> Iterator[CoordinatorEffect]:
        """Trigger periodically no more, and forget who waits for a turn."""
        self._decider.take_queued()
        self._missed_tick = False
        yield from self.periodic.stop()

    def shut_down(self) -> Iterator[CoordinatorEffect]:
        """Trigger nothing any more."""
        self._is_shut_down = True
        yield from self.stop_scheduler()

    def on_tick(self, now: int) -> Iterator[CoordinatorEffect]:
        """The periodic timer went off."""
        if not self.periodic.is_armed:
            yield Ignore(reason="the scheduler is off")
            return
        yield from self.periodic.tick(now)
        yield from self.request(_PERIODIC, now)

    # --- requests ----------------------------------------------------------------------------------------------------

    def request(self, properties: CheckpointProperties, now: int) -> Iterator[CoordinatorEffect]:
        """Somebody wants a checkpoint. Requests do not overtake each other while an id is on its way."""
        if self._drawing is not None:
            self._requests.append(properties)
            return
        declined = self._decide(properties, now)
        if declined is not None:
            yield from self._decline(properties, declined, now)
            return
        self._drawing = properties
        yield DrawCheckpointId()

    def on_id_drawn(self, now: int) -> Generator[CoordinatorEffect, None, CheckpointProperties | None]:
        """The id is here: what begins now, None where it is too late for that."""
        assert self._drawing is not None, "an id comes only when it was asked for"
        properties, self._drawing = self._drawing, None
        declined = self._decide(properties, now)
        if declined is not None:
            yield from self._decline(properties, declined, now)
            return None
        self._missed_tick = False
        if properties.final:
            self.final.phase = FinalPhase.PENDING
        return properties

    def next_request(self, now: int) -> Iterator[CoordinatorEffect]:
        """Go on with a request that came while an id was on its way."""
        if self._requests:
            yield from self.request(self._requests.popleft(), now)
        else:
            yield from self._take_final(now)

    def on_tasks_changed(self, now: int) -> Iterator[CoordinatorEffect]:
        """Where a checkpoint was due before all tasks ran, it is taken as soon as they do."""
        if not self._tasks.can_trigger:
            return
        yield from self._take_final(now)
        if self._missed_tick:
            yield from self.request(_PERIODIC, now)

    # --- checkpoints that end ----------------------------------------------------------------------------------------

    def on_completed(self, properties: CheckpointProperties, now: int) -> Iterator[CoordinatorEffect]:
        """A checkpoint is complete; after the final one nothing is left to be saved."""
        self._decider.completed(now)
        if properties.final:
            self.final.phase = FinalPhase.COMPLETED
            yield from self.periodic.stop()

    def on_aborted(self, checkpoint_id: int, failure: CheckpointFailure) -> Iterator[CoordinatorEffect]:
        """The final checkpoint was given up: at the end of the input it is tried again, a stop has failed with it."""
        if self.final.phase is not FinalPhase.PENDING:
            # Its attempts are over: those that follow will say when they are at their end.
            return
        if self.final.fail():
            yield ReportStopFailed(checkpoint_id=checkpoint_id, failure=failure)
        if self.final.is_to_be_retried:
            yield StartTimer(kind=TimerKind.FINAL_RETRY, delay_ms=FINAL_RETRY_MS)

    def resume(self, now: int) -> Iterator[CoordinatorEffect]:
        """A checkpoint is over: whoever waited for that goes on."""
        yield from self._take_final(now)
        if self._decider.take_queued():
            yield from self.periodic.rearm(now, 0)

    # --- the final checkpoint ----------------------------------------------------------------------------------------

    def request_final(self, demand: FinalDemand, now: int) -> Iterator[CoordinatorEffect]:
        """The job is to end: one checkpoint more, as soon as all tasks run and none is pending."""
        if not self.final.demand(demand):
            yield Ignore(reason=f"the final checkpoint is {self.final.phase.name}")
            return
        yield from self._take_final(now)

    def on_final_retry(self, now: int) -> Iterator[CoordinatorEffect]:
        """The final checkpoint failed a while ago."""
        if self.final.phase is not FinalPhase.WAITING_TO_RETRY:
            yield Ignore(reason=f"the final checkpoint is {self.final.phase.name}")
            return
        self.final.phase = FinalPhase.WANTED
        yield from self._take_final(now)

    def forget_final(self) -> Iterator[CoordinatorEffect]:
        """The attempts that reported the end of their data are over; new ones will report again."""
        if self.final.phase is FinalPhase.WAITING_TO_RETRY:
            yield CancelTimer(kind=TimerKind.FINAL_RETRY)
        self.final.forget_attempts()

    def _take_final(self, now: int) -> Iterator[CoordinatorEffect]:
        if self.final.phase is FinalPhase.WANTED and not len(self._pending) and self._drawing is None:
            yield from self.request(_FINAL, now)

    # --- preconditions -----------------------------------------------------------------------------------------------

    def _decide(self, properties: CheckpointProperties, now: int) -> CheckpointDeclineReason | None:
        if self._is_shut_down:
            return CheckpointDeclineReason.COORDINATOR_SHUTDOWN
        if properties.periodic and (not self.periodic.is_on or self.final.is_next):
            # Behind the barrier of the final one nothing is read, and before it no other may begin: where checkpoints
            # overlap, one would always be pending, and the final one would never have its turn.
            return CheckpointDeclineReason.PERIODIC_SCHEDULER_SHUTDOWN
        declined = self._decider.decide(properties, now, pending=len(self._pending))
        if declined is None and not self._tasks.can_trigger:
            return CheckpointDeclineReason.NOT_ALL_REQUIRED_TASKS_RUNNING
        return declined

    def _decline(
        self, properties: CheckpointProperties, reason: CheckpointDeclineReason, now: int
    ) -> Iterator[CoordinatorEffect]:
        match reason:
            case CheckpointDeclineReason.TOO_MANY_CONCURRENT_CHECKPOINTS:
                yield from self.periodic.park()
            case CheckpointDeclineReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS:
                yield from self.periodic.rearm(now, self._decider.remaining_pause_ms(now))
            case CheckpointDeclineReason.NOT_ALL_REQUIRED_TASKS_RUNNING:
                self._missed_tick = self._missed_tick or properties.periodic
            case _:
                pass
        yield TriggerDeclined(reason=reason)
