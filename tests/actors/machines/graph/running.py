"""Drives an ExecutionGraph. Each method passes one event, and the effects so far are recorded."""

from __future__ import annotations

from typing import TypeVar

from flykka.actors.machines.effects import Tell
from flykka.actors.machines.graph.events import (
    Effect,
    JobStatusMoved,
    RescalableEvent,
    RestartScheduled,
    RestoreStateReady,
    SchedulingRequested,
)
from flykka.actors.machines.graph.rescalable_graph import RescalableExecutionGraph
from flykka.actors.machines.restart.restart_strategy import restart_strategy
from flykka.actors.machines.slots.slot_requests import AssignedSlot, RequestSlots, SlotAllocated, SlotsLost
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import JobRestartDue, JobVerticesFinalized
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.tasks.task import CancelTask, ExecutionState, TaskExecutionState, UpdateTaskExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId
from tests.actors.machines.graph.graphs import JOB, failure, graph_of, slot, vertex

E = TypeVar("E")

TWO_VERTICES = graph_of(vertex("source", 2, outputs=1), vertex("sink", 1, reads=("source",)))


class Running:
    """An ExecutionGraph whose invariants are checked after every event."""

    def __init__(self, job_graph: JobGraph = TWO_VERTICES) -> None:
        self.graph = RescalableExecutionGraph(job_graph, restart_strategy(job_graph.restart_strategy), now=0)
        self.now = 0
        self.effects: list[Effect] = []

    def tell(self, event: RescalableEvent) -> list[Effect]:
        self.now += 1
        made = self.graph.handle(event, self.now)
        self.graph.check()
        self.effects += made
        return made

    def effects_of(self, kind: type[E]) -> list[E]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def messages_of(self, kind: type[E]) -> list[E]:
        messages = [each.message for each in self.effects if isinstance(each, Tell)]
        return [message for message in messages if isinstance(message, kind)]

    def statuses(self) -> list[JobStatus]:
        return [moved.status for moved in self.effects_of(JobStatusMoved)]

    def cancelled(self) -> list[str]:
        return [cancel.attempt for cancel in self.messages_of(CancelTask)]

    def schedule(self) -> list[Effect]:
        return self.tell(SchedulingRequested())

    def give_slots(self) -> list[Effect]:
        return [effect for place in self.attempts_by_place() for effect in self.give_slot(place)]

    def attempts_by_place(self) -> dict[str, tuple[ExecutionAttemptId, ...]]:
        """Return the attempts in the last request by slot: subtasks with equal indexes in one group share a slot."""
        wanted: dict[str, tuple[ExecutionAttemptId, ...]] = {}
        for request in self.effects_of(RequestSlots)[-1].requests:
            place = f"{request.slot_sharing_group}/{request.subtask}"
            wanted[place] = (*wanted.get(place, ()), request.attempt)
        return wanted

    def give_slot(self, place: str) -> list[Effect]:
        return self.tell(SlotAllocated(attempts=self.attempts_by_place()[place], slot=slot_for(place)))

    def lose_slots(self, *places: str) -> list[Effect]:
        lost = tuple(attempt for place in places for attempt in self.attempts_by_place()[place])
        return self.tell(SlotsLost(attempts=lost, cause=failure("gone")))

    def restore(self, checkpoint_id: int | None = None) -> list[Effect]:
        return self.tell(RestoreStateReady(version=self.graph.version, checkpoint_id=checkpoint_id, states={}))

    def deploy(self) -> list[Effect]:
        self.schedule()
        self.restore()
        return self.give_slots()

    def report(self, attempt: str, state: ExecutionState, cause: SerializedThrowable | None = None) -> list[Effect]:
        because = cause or (failure() if state is ExecutionState.FAILED else None)
        update = TaskExecutionState(attempt=ExecutionAttemptId(attempt), state=state, failure=because)
        return self.tell(UpdateTaskExecutionState(state=update))

    def finalize(self, cause: SerializedThrowable | None = None) -> list[Effect]:
        """Complete or fail the finalization of the vertices; all tasks must have finished."""
        return self.tell(JobVerticesFinalized(job_id=JOB, version=self.graph.version, cause=cause))

    def pass_pauses(self) -> list[Effect]:
        """End the delays of all restarts so far."""
        return [
            made
            for timer in self.effects_of(RestartScheduled)
            for made in self.tell(JobRestartDue(version=timer.version))
        ]

    def report_all(self, state: ExecutionState) -> list[Effect]:
        made: list[Effect] = []
        for each in self.graph.job_graph.vertices:
            for subtask in range(each.parallelism):
                execution = self.graph.subtask(each.vertex_id, subtask).execution
                if not execution.is_terminal:
                    made += self.report(execution.attempt, state)
        return made

    def fail_and_restart(self, attempt: str) -> None:
        self.report(attempt, ExecutionState.FAILED)
        self.pass_pauses()
        self.restore()
        self.give_slots()

    def run(self) -> None:
        self.deploy()
        self.report_all(ExecutionState.RUNNING)


def slot_for(place: str) -> AssignedSlot:
    return slot(f"slot-of-{place}")
