"""Decides when a job is rescaled, and to which parallelism (Flink's AdaptiveScheduler).

A rescale begins when a client has set new bounds, when there are more slots that the job can use, or when the job
restarts anyway. The parallelism is the one that fits into the available slots. If it differs from the current one, a
checkpoint is taken first, so that no work is repeated, and then the ExecutionGraph restarts all tasks. If no checkpoint
can be taken, the job continues from the latest checkpoint.

With the default scheduler a job starts with its configured parallelism and restarts with its current one; only a client
rescales it. With the adaptive scheduler, or if a client had set bounds before this JobMaster began, the job first waits
for all slots that it can use and, after a timeout, for the minimum that it needs.

Not here: how a job restarts (`graph.rescalable_graph`), which bounds are valid and which parallelism fits
(`requirements`), and how slots are requested.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum, auto
from typing import assert_never

from flykka.actors.machines.effects import CancelTimer, FailJob, Ignore, Role, StartTimer, Tell
from flykka.actors.machines.rescaling import events
from flykka.actors.machines.rescaling.events import RescalingEffect, RescalingEvent
from flykka.actors.machines.rescaling.requirements import (
    desired_parallelism,
    determine_parallelism,
    group_slots,
    initial_requirements,
    parallelism_of,
)
from flykka.actors.machines.states import JobMoved, next_phase
from flykka.messages.control.checkpoint_coordination import CheckpointRequest
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import JobRestartDue
from flykka.messages.control.rescaling import (
    CountSlotsDue,
    JobResourceRequirements,
    Rescale,
    RescaleChanged,
    RescaleTerminatedReason,
    RescaleTrigger,
    ResourceWaitTimedOut,
    SchedulerState,
    SchedulerStateSpan,
    VertexRescale,
)
from flykka.messages.graph.job_graph import JobGraph, SchedulerType
from flykka.messages.monitoring.explanation import ResourceWaitExplained
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobVertexId

COUNT_INTERVAL_MS = 200
"""The milliseconds between two counts of the slots while the job waits for slots."""
WATCH_INTERVAL_MS = 2_000
"""The milliseconds between two counts while the job runs and could use more slots."""
MAX_FAILED_CHECKPOINTS = 2
"""The number of failed checkpoints before a rescale uses the latest completed one (Flink's rescale-trigger)."""
_ENDS = {
    JobStatus.FINISHED: RescaleTerminatedReason.JOB_FINISHED,
    JobStatus.FAILED: RescaleTerminatedReason.JOB_FAILED,
    JobStatus.CANCELED: RescaleTerminatedReason.JOB_CANCELED,
    JobStatus.SUSPENDED: RescaleTerminatedReason.JOB_FAILED,
}
_STATES = {
    JobStatus.CREATED: SchedulerState.CREATING_EXECUTION_GRAPH,
    JobStatus.RUNNING: SchedulerState.EXECUTING,
    JobStatus.RESTARTING: SchedulerState.RESTARTING,
    JobStatus.FAILING: SchedulerState.FAILING,
    JobStatus.CANCELLING: SchedulerState.CANCELING,
}


class RescalePhase(Enum):
    IDLE = auto()
    COUNTING = auto()
    CHECKPOINTING = auto()
    APPLYING = auto()
    """The graph rescales, and its tasks are not deployed yet."""


R = RescalePhase

RESCALE_MOVES: dict[RescalePhase, tuple[RescalePhase, ...]] = {
    R.IDLE: (R.COUNTING,),
    R.COUNTING: (R.CHECKPOINTING, R.APPLYING, R.IDLE),
    R.CHECKPOINTING: (R.COUNTING, R.APPLYING, R.IDLE),
    R.APPLYING: (R.COUNTING, R.IDLE),
}
"""If the job fails during a rescale, the phase is COUNTING again: the job restarts with the slots available then."""


_COUNT, _WAIT = "count-slots", "resource-wait"


class AdaptiveScheduler:
    """Decides the parallelism of one job. `requirements` are those that a client set earlier. `name` is unique to the
    JobMaster.
    """

    def __init__(self, job_graph: JobGraph, name: str, requirements: JobResourceRequirements | None = None) -> None:
        self._job_graph = job_graph
        self._name = name
        self.requirements = requirements or initial_requirements(job_graph)
        self._is_adaptive = job_graph.scheduler_type is SchedulerType.ADAPTIVE
        self._waits_first = self._is_adaptive or requirements is not None
        self._parallelism: Mapping[JobVertexId, int] = parallelism_of(job_graph)
        self._timeline = RescaleTimeline(job_graph, name)
        self._state = SchedulerState.CREATED
        self._phase = RescalePhase.IDLE
        self._restart: JobRestartDue | None = None
        self._waiting_since_ms = 0
        self._wait = 0
        self._is_wait_over = False
        self._checkpoints = 0
        self._failed_checkpoints = 0
        self._target: Mapping[JobVertexId, int] = self._parallelism
        self._has_begun = False
        self._is_deployed = False
        self._executing_since_ms = 0
        self._rescaled_ms: int | None = None
        self._is_updated_meanwhile = False

    def awaits(self, request_id: str) -> bool:
        """Return True if the request came from this scheduler, even if it has abandoned the request since."""
        return request_id.startswith(f"{self._name}-")

    @property
    def _request_id(self) -> str:
        return f"{self._name}-{self._checkpoints}"

    def explain(self) -> ResourceWaitExplained | None:
        """Return the slots for which the job waits before it starts or restarts, or `None` if it does not wait."""
        if self._state is not SchedulerState.WAITING_FOR_RESOURCES:
            return None
        groups = group_slots(self._job_graph, self.requirements).values()
        return ResourceWaitExplained(
            since_ms=self._waiting_since_ms,
            minimum=sum(group.minimum for group in groups),
            desired=sum(group.desired for group in groups),
        )

    def handle(self, event: RescalingEvent, now: int) -> list[RescalingEffect]:
        match event:
            case events.StartRequested():
                return self._on_start_requested(now)
            case events.RequirementsChanged(requirements=requirements):
                return self._on_requirements(requirements, now)
            case events.SlotsCounted():
                return self._on_slots(event, now)
            case events.CheckpointAnswered():
                return self._on_checkpoint(event)
            case JobMoved(status=status):
                return self._on_job_moved(status, now)
            case events.TasksDeployed():
                return self._on_deployed(now)
            case events.RescaleRefused(why=why):
                return self._give_up(why, now)
            case JobRestartDue():
                return self._on_restart_due(event, now)
            case CountSlotsDue():
                return self._on_count_due()
            case ResourceWaitTimedOut(number=number):
                return self._on_wait_timed_out(number)
            case _:
                assert_never(event)

    def check(self) -> None:
        assert (self._phase is RescalePhase.IDLE) == (self._timeline.under_way is None), (
            f"{self._phase} contradicts the timeline"
        )
        assert self._restart is None or self._state is SchedulerState.WAITING_FOR_RESOURCES

    # Start and restarts

    def _on_start_requested(self, now: int) -> list[RescalingEffect]:
        if not self._waits_first:
            return [events.BeginScheduling()]
        reports = self._timeline.begin(RescaleTrigger.INITIAL_SCHEDULE, self.requirements, None, now)
        return [*self._report(reports), *self._wait_for_resources(now)]

    def _on_restart_due(self, due: JobRestartDue, now: int) -> list[RescalingEffect]:
        if not self._is_adaptive or self._state is not SchedulerState.RESTARTING:
            return [events.RestartJob(due=due)]
        self._restart = due
        reports: list[Rescale] = []
        if self._timeline.under_way is None:
            reports = self._timeline.begin(
                RescaleTrigger.RECOVERABLE_FAILOVER, self.requirements, self._parallelism, now
            )
        return [*self._report(reports), *self._wait_for_resources(now)]

    def _wait_for_resources(self, now: int) -> list[RescalingEffect]:
        self._move(RescalePhase.COUNTING)
        self._waiting_since_ms, self._is_wait_over = now, False
        self._wait += 1
        timed_out = ResourceWaitTimedOut(number=self._wait)
        timer = StartTimer(key=_WAIT, delay_ms=self._job_graph.resource_wait_timeout_ms, message=timed_out)
        return [*self._enter(SchedulerState.WAITING_FOR_RESOURCES, now), timer, *self._count()]

    def _on_wait_timed_out(self, number: int) -> list[RescalingEffect]:
        if number != self._wait or self._state is not SchedulerState.WAITING_FOR_RESOURCES:
            return [Ignore(reason=f"wait {number} for slots has ended already")]
        self._is_wait_over = True
        return [events.CountSlots()]

    def _begin_with(self, count: events.SlotsCounted, now: int) -> list[RescalingEffect]:
        """Start with these slots, unless more may become available before the timeout."""
        slots = count.slots + count.coming
        fitting = determine_parallelism(self._job_graph, self.requirements, slots)
        if fitting is None:
            return self._fail_for_lack_of_slots(slots, now)
        if fitting != desired_parallelism(self._job_graph, self.requirements) and not self._is_wait_over:
            return []
        restart, self._restart = self._restart, None
        return [
            *self._report(self._timeline.decide(fitting)),
            *self._stop_timers(),
            *self._enter(SchedulerState.CREATING_EXECUTION_GRAPH, now),
            self._apply(fitting),
            events.BeginScheduling() if restart is None else events.RestartJob(due=restart),
        ]

    def _fail_for_lack_of_slots(self, slots: int, now: int) -> list[RescalingEffect]:
        if now - self._waiting_since_ms < self._job_graph.slot_request_timeout_ms:
            return []
        needed = sum(each.minimum for each in group_slots(self._job_graph, self.requirements).values())
        text = f"the job needs at least {needed} slots, but got {slots} in {self._job_graph.slot_request_timeout_ms} ms"
        cause = SerializedThrowable(type_name="NoResourceAvailableError", message=text)
        self._restart = None
        return [
            *self._end(RescaleTerminatedReason.EXCEPTION_OCCURRED, now, text),
            *self._enter(SchedulerState.FAILING, now),
            FailJob(cause=cause),
        ]

    # Rescaling

    def _on_requirements(self, requirements: JobResourceRequirements, now: int) -> list[RescalingEffect]:
        self.requirements = requirements
        if self._state is SchedulerState.FINISHED or self._state is SchedulerState.CANCELING:
            return [Ignore(reason="the job is about to end")]
        self._timeline.requirements_changed()
        if self._phase is RescalePhase.APPLYING:
            self._is_updated_meanwhile = True
            return []
        end_reports = self._end(RescaleTerminatedReason.RESOURCE_REQUIREMENTS_UPDATED, now)
        before = self._parallelism if self._has_begun else None
        return [*end_reports, *self._begin(RescaleTrigger.UPDATE_REQUIREMENT, now, before)]

    def _begin(
        self, trigger: RescaleTrigger, now: int, before: Mapping[JobVertexId, int] | None
    ) -> list[RescalingEffect]:
        reports = self._timeline.begin(trigger, self.requirements, before, now)
        self._move(RescalePhase.COUNTING)
        return [*self._report(reports), *self._count()]

    def _on_slots(self, count: events.SlotsCounted, now: int) -> list[RescalingEffect]:
        if self._state is SchedulerState.WAITING_FOR_RESOURCES:
            return self._begin_with(count, now)
        if self._state is not SchedulerState.EXECUTING:
            return [Ignore(reason=f"the scheduler is {self._state}: slots are counted again")]
        if self._phase is RescalePhase.COUNTING:
            return self._rescale_to(self._fitting(count), count, now)
        if self._phase is RescalePhase.IDLE and self._is_adaptive:
            return self._adapt(count, now)
        if self._phase is RescalePhase.APPLYING and self._is_adaptive:
            return self._shrink(count, now)
        return [Ignore(reason="the number of slots is not needed any more")]

    def _fitting(self, count: events.SlotsCounted) -> dict[JobVertexId, int] | None:
        return determine_parallelism(self._job_graph, self.requirements, count.slots + count.coming)

    def _rescale_to(
        self, fitting: Mapping[JobVertexId, int] | None, count: events.SlotsCounted, now: int
    ) -> list[RescalingEffect]:
        if fitting is None:
            return []
        decided = self._report(self._timeline.decide(fitting))
        if fitting == self._parallelism:
            reason = RescaleTerminatedReason.NO_RESOURCES_OR_PARALLELISMS_CHANGE
            comment = f"the job already has the parallelism that {count.slots + count.coming} slots allow"
            return [*decided, *self._end(reason, now, comment)]
        self._target = fitting
        self._move(RescalePhase.CHECKPOINTING)
        self._failed_checkpoints = 0
        return [*decided, CancelTimer(key=_COUNT), self._take_checkpoint()]

    def _take_checkpoint(self) -> RescalingEffect:
        self._checkpoints += 1
        request = CheckpointRequest(job_id=self._job_graph.job_id, request_id=self._request_id)
        return Tell(to=Role.CHECKPOINT_COORDINATOR, message=request)

    def _on_checkpoint(self, answered: events.CheckpointAnswered) -> list[RescalingEffect]:
        if self._phase is not RescalePhase.CHECKPOINTING or answered.request_id != self._request_id:
            return [Ignore(reason=f"no rescale waits for checkpoint {answered.request_id} any more")]
        if not answered.is_complete:
            self._failed_checkpoints += 1
            if self._failed_checkpoints < MAX_FAILED_CHECKPOINTS:
                return [self._take_checkpoint()]
        return [self._apply(self._target)]

    def _apply(self, parallelism: Mapping[JobVertexId, int]) -> events.RescaleGraph:
        self._move(RescalePhase.APPLYING)
        self._parallelism = parallelism
        self._is_deployed, self._has_begun = False, True
        return events.RescaleGraph(parallelism=parallelism)

    def _on_deployed(self, now: int) -> list[RescalingEffect]:
        self._is_deployed = True
        if self._phase is not RescalePhase.APPLYING:
            return self._watch()
        self._rescaled_ms = now
        end_reports = self._end(RescaleTerminatedReason.SUCCEEDED, now)
        if not self._is_updated_meanwhile:
            return [*end_reports, *self._watch()]
        self._is_updated_meanwhile = False
        return [*end_reports, *self._begin(RescaleTrigger.UPDATE_REQUIREMENT, now, self._parallelism)]

    def _give_up(self, why: str, now: int) -> list[RescalingEffect]:
        self._parallelism, self._is_deployed = self._before(), True
        reason = RescaleTerminatedReason.NO_RESOURCES_OR_PARALLELISMS_CHANGE
        return self._end(reason, now, why)

    def _before(self) -> Mapping[JobVertexId, int]:
        under_way = self._timeline.under_way
        assert under_way is not None, "no rescale is under way that could be refused"
        return {
            each.vertex_id: each.pre_parallelism or self._parallelism[each.vertex_id] for each in under_way.vertices
        }

    def _end(self, reason: RescaleTerminatedReason, now: int, comment: str = "") -> list[RescalingEffect]:
        self._move(RescalePhase.IDLE)
        return self._report(self._timeline.end(reason, now, comment))

    # Rescaling to the available slots

    def _adapt(self, count: events.SlotsCounted, now: int) -> list[RescalingEffect]:
        """Rescale the running job if more slots are available, or if fewer are available than its tasks wait for."""
        if not self._is_deployed:
            return self._shrink(count, now)
        fitting = self._fitting(count)
        cooled_down = self._rescaled_ms is None or now - self._rescaled_ms >= self._job_graph.rescale_cooldown_ms
        if fitting is None or not cooled_down or sum(fitting.values()) <= sum(self._parallelism.values()):
            return []
        reports = self._begin(RescaleTrigger.NEW_RESOURCE_AVAILABLE, now, self._parallelism)
        return [*reports, *self._rescale_to(fitting, count, now)]

    def _shrink(self, count: events.SlotsCounted, now: int) -> list[RescalingEffect]:
        """Continue with fewer slots if the slots for which the tasks wait do not become available."""
        if now - self._executing_since_ms < self._job_graph.resource_wait_timeout_ms:
            return []
        fitting = determine_parallelism(self._job_graph, self.requirements, count.slots)
        if fitting is None or sum(fitting.values()) >= sum(self._parallelism.values()):
            return []
        reports: list[RescalingEffect] = []
        if self._timeline.under_way is None:
            reports = self._begin(RescaleTrigger.RECOVERABLE_FAILOVER, now, self._parallelism)
        return [*reports, *self._report(self._timeline.decide(fitting)), self._apply(fitting)]

    def _on_count_due(self) -> list[RescalingEffect]:
        if self._phase is RescalePhase.COUNTING:
            return self._count()
        if self._is_adaptive:
            return [events.CountSlots(), *self._watch()]
        return [Ignore(reason="no rescale waits for slots")]

    def _count(self) -> list[RescalingEffect]:
        due = StartTimer(key=_COUNT, delay_ms=COUNT_INTERVAL_MS, message=CountSlotsDue())
        return [events.CountSlots(), due]

    def _watch(self) -> list[RescalingEffect]:
        if not self._is_adaptive or self._state is SchedulerState.FINISHED:
            return []
        return [StartTimer(key=_COUNT, delay_ms=WATCH_INTERVAL_MS, message=CountSlotsDue())]

    # The status of the job

    def _on_job_moved(self, status: JobStatus, now: int) -> list[RescalingEffect]:
        # If the job waited for slots in order to restart, this change of status supersedes the restart.
        self._restart = None
        if status in _ENDS:
            end_reports = self._end(_ENDS[status], now)
            return [*self._enter(SchedulerState.FINISHED, now), *end_reports, *self._stop_timers()]
        entered = self._enter(_STATES[status], now) if status in _STATES else []
        match status:
            case JobStatus.RUNNING:
                self._executing_since_ms, self._has_begun = now, True
                return [*entered, *self._watch()]
            case JobStatus.FAILING if self._phase is RescalePhase.CHECKPOINTING and not self._is_adaptive:
                # All tasks restart anyway, from the latest completed checkpoint.
                return [*entered, self._apply(self._target)]
            case JobStatus.FAILING if self._phase is RescalePhase.CHECKPOINTING:
                self._move(RescalePhase.COUNTING)
                return entered
            case _:
                return entered

    def _move(self, phase: RescalePhase) -> None:
        self._phase = next_phase(RESCALE_MOVES, self._phase, phase)

    def _enter(self, state: SchedulerState, now: int) -> list[RescalingEffect]:
        self._state = state
        return self._report(self._timeline.enter(state, now))

    def _stop_timers(self) -> list[RescalingEffect]:
        return [CancelTimer(key=_WAIT), CancelTimer(key=_COUNT)]

    def _report(self, rescales: list[Rescale]) -> list[RescalingEffect]:
        changes = [RescaleChanged(job_id=self._job_graph.job_id, rescale=rescale) for rescale in rescales]
        return [Tell(to=Role.JOB_LISTENERS, message=change) for change in changes]


class RescaleTimeline:
    """Records the current rescale, with the states of the scheduler during it, for the listeners of the job.

    Mirrors Flink's RescaleTimeline. Makes no decisions: each change returns the value to report.
    """

    def __init__(self, job_graph: JobGraph, name: str) -> None:
        self._job_graph = job_graph
        self._name = name
        self._rescales = 0
        self._requirements = 0
        self._attempts = 0
        self._state: SchedulerStateSpan | None = None
        self.under_way: Rescale | None = None

    def requirements_changed(self) -> None:
        """Count a change of the requirements, which applies to later rescales."""
        self._requirements += 1
        self._attempts = 0

    def enter(self, state: SchedulerState, now: int) -> list[Rescale]:
        if self._state is not None and self._state.state is state:
            return []
        self._state = SchedulerStateSpan(state=state, entered_ms=now)
        if self.under_way is None:
            return []
        return [self._put(replace(self.under_way, states=(*self._left(now), self._state)))]

    def begin(
        self,
        trigger: RescaleTrigger,
        requirements: JobResourceRequirements,
        before: Mapping[JobVertexId, int] | None,
        now: int,
    ) -> list[Rescale]:
        """Begin a rescale. `before` is the current parallelism, or `None` if the job has not started."""
        assert self.under_way is None, "a rescale begins while another one is under way"
        self._rescales += 1
        self._attempts += 1
        desired = desired_parallelism(self._job_graph, requirements)
        lower = {each.vertex_id: each.lower_bound for each in requirements.vertices}
        rescale = Rescale(
            rescale_id=self._id(f"rescale/{self._rescales}"),
            requirements_id=self._id(f"requirements/{self._requirements}"),
            attempt=self._attempts,
            trigger=trigger,
            started_ms=now,
            states=() if self._state is None else (replace(self._state, entered_ms=now),),
            vertices=tuple(
                VertexRescale(
                    vertex_id=vertex.vertex_id,
                    name=vertex.name,
                    slot_sharing_group=vertex.slot_sharing_group,
                    sufficient_parallelism=lower[vertex.vertex_id],
                    desired_parallelism=desired[vertex.vertex_id],
                    pre_parallelism=None if before is None else before[vertex.vertex_id],
                )
                for vertex in self._job_graph.vertices
            ),
        )
        return [self._put(rescale)]

    def decide(self, parallelism: Mapping[JobVertexId, int]) -> list[Rescale]:
        assert self.under_way is not None, "no rescale is under way"
        vertices = tuple(
            replace(vertex, post_parallelism=parallelism[vertex.vertex_id]) for vertex in self.under_way.vertices
        )
        return [self._put(replace(self.under_way, vertices=vertices))]

    def end(self, reason: RescaleTerminatedReason, now: int, comment: str = "") -> list[Rescale]:
        if self.under_way is None:
            return []
        end_reports = replace(self.under_way, states=self._left(now), ended_ms=now, reason=reason, comment=comment)
        self.under_way = None
        return [end_reports]

    def _left(self, now: int) -> tuple[SchedulerStateSpan, ...]:
        assert self.under_way is not None
        *former, last = self.under_way.states or (None,)
        return tuple(each for each in (*former, None if last is None else replace(last, left_ms=now)) if each)

    def _put(self, rescale: Rescale) -> Rescale:
        self.under_way = rescale
        return rescale

    def _id(self, what: str) -> str:
        return hashlib.md5(f"{self._name}/{what}".encode(), usedforsecurity=False).hexdigest()
