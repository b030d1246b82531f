"""The adaptive scheduler decides when a job is rescaled and to which parallelism: events in, effects out."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.machines.effects import Ignore, Tell
from flykka.actors.machines.rescaling import events
from flykka.actors.machines.rescaling.adaptive_scheduler import AdaptiveScheduler
from flykka.actors.machines.rescaling.events import RescalingEffect, RescalingEvent
from flykka.actors.machines.states import JobMoved
from flykka.messages.control.checkpoint_coordination import CheckpointRequest
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import JobRestartDue
from flykka.messages.control.rescaling import (
    CountSlotsDue,
    JobResourceRequirements,
    JobVertexResourceRequirements,
    Rescale,
    RescaleChanged,
    RescaleTerminatedReason,
    RescaleTrigger,
    ResourceWaitTimedOut,
)
from flykka.messages.graph.job_graph import SchedulerType
from flykka.messages.wire.ids import JobVertexId
from tests.actors.machines.graph.graphs import graph_of, vertex

E = TypeVar("E")

DEFAULT = graph_of(vertex("source", 2))
ADAPTIVE = replace(DEFAULT, scheduler_type=SchedulerType.ADAPTIVE)
SOURCE = JobVertexId("source")


def require(upper: int, lower: int = 1) -> JobResourceRequirements:
    bounds = JobVertexResourceRequirements(vertex_id=SOURCE, lower_bound=lower, upper_bound=upper)
    return JobResourceRequirements(vertices=(bounds,))


class Scheduling:
    """A scheduler whose invariants are checked after every event."""

    def __init__(self, *, adaptive: bool = False) -> None:
        self.scheduler = AdaptiveScheduler(ADAPTIVE if adaptive else DEFAULT, "test")
        self.now = 0
        self.effects: list[RescalingEffect] = []

    def tell(self, *happened: RescalingEvent) -> list[RescalingEffect]:
        made: list[RescalingEffect] = []
        for event in happened:
            made = self.scheduler.handle(event, self.now)
            self.scheduler.check()
            self.effects += made
        return made

    def run(self) -> None:
        self.tell(events.StartRequested(), events.SlotsCounted(slots=2))
        self.tell(JobMoved(status=JobStatus.RUNNING), events.TasksDeployed())

    def restart(self) -> None:
        for status in (JobStatus.RESTARTING, JobStatus.CREATED, JobStatus.RUNNING):
            self.tell(JobMoved(status=status))
        self.tell(events.TasksDeployed())

    def effects_of(self, kind: type[E]) -> list[E]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def sent_messages(self, kind: type[E]) -> list[E]:
        messages = [effect.message for effect in self.effects_of(Tell)]
        return [message for message in messages if isinstance(message, kind)]

    def targets(self) -> list[int]:
        return [each.parallelism[SOURCE] for each in self.effects_of(events.RescaleGraph)]

    def rescales(self) -> list[Rescale]:
        last = {each.rescale.rescale_id: each.rescale for each in self.sent_messages(RescaleChanged)}
        return list(last.values())

    def answer(self, *, is_complete: bool) -> list[RescalingEffect]:
        asked = self.sent_messages(CheckpointRequest)[-1]
        return self.tell(events.CheckpointAnswered(request_id=asked.request_id, is_complete=is_complete))


def test_the_default_scheduler_starts_a_job_without_counting_slots() -> None:
    scheduling = Scheduling()

    assert scheduling.tell(events.StartRequested()) == [events.BeginScheduling()]
    assert scheduling.tell(CountSlotsDue()) == [Ignore(reason="no rescale waits for slots")]


def test_a_client_rescales_the_job_after_a_checkpoint() -> None:
    scheduling = Scheduling()
    scheduling.run()

    scheduling.tell(events.RequirementsChanged(requirements=require(5)))
    assert scheduling.effects_of(events.CountSlots) != []
    scheduling.tell(events.SlotsCounted(slots=3, coming=1))
    assert scheduling.targets() == []
    scheduling.answer(is_complete=True)
    scheduling.restart()

    assert scheduling.targets() == [4]
    [done] = scheduling.rescales()
    assert (done.trigger, done.reason) == (RescaleTrigger.UPDATE_REQUIREMENT, RescaleTerminatedReason.SUCCEEDED)


def test_a_rescale_does_not_wait_for_more_than_two_failed_checkpoints() -> None:
    scheduling = Scheduling()
    scheduling.run()
    scheduling.tell(events.RequirementsChanged(requirements=require(5)), events.SlotsCounted(slots=3))

    scheduling.answer(is_complete=False)
    assert scheduling.targets() == []
    scheduling.answer(is_complete=False)

    assert scheduling.targets() == [3]


def test_the_completion_of_an_earlier_request_is_ignored() -> None:
    scheduling = Scheduling()
    scheduling.run()
    scheduling.tell(events.RequirementsChanged(requirements=require(5)), events.SlotsCounted(slots=3))
    outdated = scheduling.sent_messages(CheckpointRequest)[-1]

    scheduling.tell(events.RequirementsChanged(requirements=require(4)), events.SlotsCounted(slots=9))
    scheduling.tell(events.CheckpointAnswered(request_id=outdated.request_id, is_complete=True))
    assert scheduling.targets() == []
    scheduling.answer(is_complete=True)

    assert scheduling.targets() == [4]
    assert scheduling.rescales()[0].reason is RescaleTerminatedReason.RESOURCE_REQUIREMENTS_UPDATED


def test_requirements_without_effect_are_ignored_with_a_comment() -> None:
    scheduling = Scheduling()
    scheduling.run()

    scheduling.tell(events.RequirementsChanged(requirements=require(9)), events.SlotsCounted(slots=2))

    [ignored] = scheduling.rescales()
    assert ignored.reason is RescaleTerminatedReason.NO_RESOURCES_OR_PARALLELISMS_CHANGE
    assert ignored.comment == "the job already has the parallelism that 2 slots allow"


def test_a_job_that_fails_during_a_rescale_restarts_rescaled() -> None:
    scheduling = Scheduling()
    scheduling.run()
    scheduling.tell(events.RequirementsChanged(requirements=require(5)), events.SlotsCounted(slots=3))

    scheduling.tell(JobMoved(status=JobStatus.FAILING))

    assert scheduling.targets() == [3]
    due = JobRestartDue(version=2)
    scheduling.tell(JobMoved(status=JobStatus.RESTARTING))
    assert scheduling.tell(due) == [events.RestartJob(due=due)]


def test_a_job_can_be_rescaled_after_a_refused_rescale() -> None:
    scheduling = Scheduling()
    scheduling.run()
    scheduling.tell(events.RequirementsChanged(requirements=require(5)), events.SlotsCounted(slots=3))
    scheduling.answer(is_complete=True)

    scheduling.tell(events.RescaleRefused(why="it is being stopped"))
    scheduling.tell(events.RequirementsChanged(requirements=require(3)), events.SlotsCounted(slots=3))
    scheduling.answer(is_complete=True)

    assert scheduling.targets() == [3, 3]
    assert scheduling.rescales()[0].comment == "it is being stopped"


def test_the_end_of_a_job_ends_its_rescale() -> None:
    scheduling = Scheduling()
    scheduling.run()
    scheduling.tell(events.RequirementsChanged(requirements=require(9, lower=9)), events.SlotsCounted(slots=3))

    scheduling.tell(JobMoved(status=JobStatus.FINISHED))

    assert scheduling.rescales()[0].reason is RescaleTerminatedReason.JOB_FINISHED


def test_an_adaptive_job_waits_for_slots_before_using_available_ones() -> None:
    scheduling = Scheduling(adaptive=True)
    scheduling.tell(events.StartRequested(), events.SlotsCounted(slots=1))
    assert scheduling.targets() == []

    scheduling.tell(ResourceWaitTimedOut(number=1), events.SlotsCounted(slots=1))

    assert scheduling.targets() == [1]
    assert isinstance(scheduling.effects[-1], events.BeginScheduling)


def test_a_failed_job_restarts_with_the_remaining_slots() -> None:
    scheduling = Scheduling(adaptive=True)
    scheduling.run()
    due = JobRestartDue(version=2)
    scheduling.tell(JobMoved(status=JobStatus.FAILING), JobMoved(status=JobStatus.RESTARTING))

    scheduling.tell(due, ResourceWaitTimedOut(number=2), events.SlotsCounted(slots=1))

    assert scheduling.targets() == [2, 1]
    assert scheduling.effects[-1] == events.RestartJob(due=due)
    assert scheduling.rescales()[-1].trigger is RescaleTrigger.RECOVERABLE_FAILOVER


def test_a_job_scales_up_after_its_cooldown() -> None:
    scheduling = Scheduling(adaptive=True)
    scheduling.tell(events.StartRequested(), ResourceWaitTimedOut(number=1), events.SlotsCounted(slots=1))
    scheduling.tell(JobMoved(status=JobStatus.RUNNING), events.TasksDeployed())

    scheduling.now = ADAPTIVE.rescale_cooldown_ms - 1
    assert scheduling.tell(events.SlotsCounted(slots=2)) == []
    scheduling.now += 1
    scheduling.tell(events.SlotsCounted(slots=2))
    scheduling.answer(is_complete=True)

    assert scheduling.targets() == [1, 2]
    assert scheduling.rescales()[-1].trigger is RescaleTrigger.NEW_RESOURCE_AVAILABLE


EVENTS = st.one_of(
    st.builds(events.SlotsCounted, slots=st.integers(0, 6), coming=st.integers(0, 2)),
    st.builds(JobMoved, status=st.sampled_from([*JobStatus])),
    st.builds(events.RequirementsChanged, requirements=st.builds(require, st.integers(2, 6), st.integers(1, 2))),
    st.builds(events.CheckpointAnswered, request_id=st.sampled_from(["test-1", "test-2"]), is_complete=st.booleans()),
    st.builds(ResourceWaitTimedOut, number=st.integers(1, 3)),
    st.sampled_from([events.TasksDeployed(), CountSlotsDue(), JobRestartDue(version=2)]),
)


@given(adaptive=st.booleans(), happened=st.lists(EVENTS, max_size=40))
def test_under_any_events_each_rescale_ends_once_within_bounds(adaptive: bool, happened: list[RescalingEvent]) -> None:
    scheduling = Scheduling(adaptive=adaptive)
    scheduling.run()

    for event in happened:
        scheduling.now += 1_000
        scheduling.tell(event)

    ended = [each.rescale.rescale_id for each in scheduling.sent_messages(RescaleChanged) if each.rescale.reason]
    assert len(ended) == len(set(ended))
    assert all(1 <= target <= 6 for target in scheduling.targets())
