"""The part of a JobMaster that rescales its job: requests slots and checkpoints, and stores resource requirements.

Requirements of clients are stored one at a time before they take effect, so that the job's next JobMaster continues
with them (as Flink's Dispatcher persists JobResourceRequirements). `AdaptiveScheduler` decides, and the ExecutionGraph
rescales.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from functools import partial
from typing import assert_never

from flykka.actors.errors import RescaleNotSupportedError, serialize_error
from flykka.actors.high_availability.services import LeaderStore
from flykka.actors.job_master.job_listeners import JobListeners
from flykka.actors.job_master.slot_pool_service import SlotPoolService
from flykka.actors.machines.effects import CancelTimer, FailJob, Ignore, Role, StartTimer, Tell
from flykka.actors.machines.graph.events import GlobalFailureReported, RescaleRequested, SchedulingRequested
from flykka.actors.machines.graph.rescalable_graph import RescalableExecutionGraph
from flykka.actors.machines.rescaling import events
from flykka.actors.machines.rescaling.adaptive_scheduler import AdaptiveScheduler
from flykka.actors.machines.rescaling.requirements import check_requirements, parallelism_of, updated
from flykka.actors.machines.states import JobMoved
from flykka.actors.timer_effects import set_timer
from flykka.messages.control.checkpoint_coordination import SavepointCompleted, SavepointFailed
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import JobRestartDue
from flykka.messages.control.rescaling import (
    CountSlotsDue,
    JobParallelismChanged,
    JobResourceRequirements,
    JobResourceRequirementsRefused,
    JobResourceRequirementsStored,
    JobResourceRequirementsUpdated,
    RequestJobResourceRequirements,
    ResourceWaitTimedOut,
    UpdateJobResourceRequirements,
    VertexParallelismInfo,
)
from flykka.messages.monitoring.explanation import JobExplained, SlotsExplained
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.ref import Ref
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import serialized

RescalingMessage = (
    UpdateJobResourceRequirements
    | RequestJobResourceRequirements
    | JobResourceRequirementsStored
    | SlotsExplained
    | CountSlotsDue
    | ResourceWaitTimedOut
)

GraphEvent = RescaleRequested | SchedulingRequested | JobRestartDue | GlobalFailureReported


class RescalingHandler:
    """Used in the turns of one JobMaster only."""

    def __init__(
        self,
        context: ActorContext,
        graph: RescalableExecutionGraph,
        slots: SlotPoolService,
        listeners: JobListeners,
        checkpoint_coordinator: Ref,
        store: LeaderStore,
        requirements: JobResourceRequirements | None,
    ) -> None:
        self._context = context
        self._graph = graph
        self._job_id = graph.job_graph.job_id
        # This name is unique, because no other JobMaster of the job starts with this attempt number.
        name = f"{self._job_id}-rescale-{graph.job_graph.first_attempt_number}"
        self._scheduler = AdaptiveScheduler(graph.job_graph, name, _fitting(graph, requirements))
        self._slots = slots
        self._listeners = listeners
        self._checkpoint_coordinator = checkpoint_coordinator
        self._store = store
        self._updates: deque[UpdateJobResourceRequirements] = deque()
        """Updates waiting to be stored. The first one is being stored."""

    def start(self) -> list[GraphEvent]:
        return self._decide(events.StartRequested())

    def job_moved(self, status: JobStatus) -> list[GraphEvent]:
        return self._decide(JobMoved(status=status))

    def tasks_deployed(self) -> list[GraphEvent]:
        return self._decide(events.TasksDeployed())

    def restart_due(self, due: JobRestartDue) -> list[GraphEvent]:
        return self._decide(due)

    def not_started(self, why: str) -> list[GraphEvent]:
        """Called when the ExecutionGraph has refused to rescale, and is unchanged."""
        return self._decide(events.RescaleRefused(why=why))

    def explained(self, job: JobExplained) -> JobExplained:
        waits = self._scheduler.explain()
        return job if waits is None else replace(job, waits_for_resources=waits)

    def graph_rescaled(self) -> None:
        vertices = parallelism_of(self._graph.job_graph).items()
        infos = (VertexParallelismInfo(vertex_id=vertex, parallelism=parallelism) for vertex, parallelism in vertices)
        self._listeners.tell(JobParallelismChanged(job_id=self._job_id, vertices=tuple(infos)))

    def handles(self, message: SavepointCompleted | SavepointFailed) -> bool:
        """Return whether this is a response, possibly late, to a checkpoint that this handler requested."""
        return self._scheduler.awaits(message.request_id)

    def on_checkpoint(self, message: SavepointCompleted | SavepointFailed) -> list[GraphEvent]:
        is_complete = isinstance(message, SavepointCompleted)
        return self._decide(events.CheckpointAnswered(request_id=message.request_id, is_complete=is_complete))

    def on_message(self, message: RescalingMessage) -> list[GraphEvent]:
        """Return the resulting events for the ExecutionGraph."""
        match message:
            case UpdateJobResourceRequirements():
                self._updates.append(message)
                if len(self._updates) == 1:
                    self._store_next()
                return []
            case RequestJobResourceRequirements(client=client):
                self._answer(client, self._scheduler.requirements)
                return []
            case JobResourceRequirementsStored():
                return self._on_stored(message)
            case SlotsExplained(free=free, could_start=coming):
                return self._decide(events.SlotsCounted(slots=self._slots.number_of_slots + free, coming=coming))
            case CountSlotsDue() | ResourceWaitTimedOut():
                return self._decide(message)
            case _:
                assert_never(message)

    def _store_next(self) -> None:
        """Store the next waiting update. Refuses updates that cannot be met."""
        while self._updates:
            update = self._updates[0]
            requirements = updated(self._scheduler.requirements, update.requirements)
            try:
                check_requirements(self._graph.present_job_graph, requirements)
            except RescaleNotSupportedError as error:
                self._updates.popleft()
                self._refuse(update.client, serialize_error(error))
                continue
            self._store_requirements(requirements)
            return

    def _store_requirements(self, requirements: JobResourceRequirements) -> None:
        self._context.pipe_to_self(
            partial(_stored, self._store, self._job_id, requirements),
            lambda answer: answer,
            lambda error: JobResourceRequirementsStored(requirements=requirements, cause=serialized(error)),
        )

    def _on_stored(self, message: JobResourceRequirementsStored) -> list[GraphEvent]:
        update = self._updates.popleft()
        graph_events: list[GraphEvent] = []
        if message.cause is not None:
            self._refuse(update.client, message.cause)
        else:
            graph_events = self._decide(events.RequirementsChanged(requirements=message.requirements))
            self._answer(update.client, message.requirements, is_new=True)
        self._store_next()
        return graph_events

    def _answer(self, client: Ref, requirements: JobResourceRequirements, *, is_new: bool = False) -> None:
        self._context.parent.tell(
            JobResourceRequirementsUpdated(job_id=self._job_id, client=client, requirements=requirements, is_new=is_new)
        )

    def _refuse(self, client: Ref, cause: SerializedThrowable) -> None:
        refusal = JobResourceRequirementsRefused(job_id=self._job_id, client=client, cause=cause)
        self._context.parent.tell(refusal)

    def _decide(self, event: events.RescalingEvent) -> list[GraphEvent]:
        effects = self._scheduler.handle(event, self._context.now())
        return [graph_event for effect in effects for graph_event in self._perform(effect)]

    def _perform(self, effect: events.RescalingEffect) -> list[GraphEvent]:
        match effect:
            case events.CountSlots():
                self._slots.ask_for_slots()
            case Tell(to=to, message=message):
                (self._listeners if to is Role.JOB_LISTENERS else self._checkpoint_coordinator).tell(message)
            case events.RescaleGraph(parallelism=parallelism):
                return [RescaleRequested(parallelism=parallelism)]
            case events.BeginScheduling():
                return [SchedulingRequested()]
            case events.RestartJob(due=due):
                return [due]
            case FailJob(cause=cause):
                return [GlobalFailureReported(cause=cause)]
            case StartTimer() | CancelTimer():
                set_timer(self._context, effect)
            case Ignore():
                pass
            case _:
                assert_never(effect)
        return []


def _fitting(
    graph: RescalableExecutionGraph, requirements: JobResourceRequirements | None
) -> JobResourceRequirements | None:
    """Return the previous JobMaster's requirements if the program, which may have changed, can meet them."""
    if requirements is None:
        return None
    try:
        check_requirements(graph.job_graph, requirements)
    except RescaleNotSupportedError:
        return None
    return requirements


def _stored(store: LeaderStore, job_id: JobId, requirements: JobResourceRequirements) -> JobResourceRequirementsStored:
    # The JobManager may write a new start of the job at the same time, if it considers this JobMaster dead.
    store.change_job(job_id, lambda job: replace(job, resource_requirements=requirements))
    return JobResourceRequirementsStored(requirements=requirements)
