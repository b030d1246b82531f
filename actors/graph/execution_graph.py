"""The job as it runs: which attempts there are, when they are deployed, what follows when one fails.

Mirrors Flink's ExecutionGraph: a version of the graph asks for all of its slots and for the state to start from, and is
deployed when both are there, as a whole or region by region (`regions`). Each failure of the job, its cancellation and
its suspension make a new version; what belongs to an older one (a slot, a restart, a state that was read) comes too
late and is ignored.

Not here: where slots come from (SlotPool), what a checkpoint is (CheckpointCoordinator), whether a job restarts
(`scheduling.failover`), and what a single attempt does with a report (`execution`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import assert_never

from flykka.actors.errors import IllegalTransitionError
from flykka.actors.graph.accumulators import merged
from flykka.actors.graph.current_attempts import CurrentAttempts
from flykka.actors.graph.deployment import coordinated_task, deployment_descriptor
from flykka.actors.graph.effects import (
    AllTasksReachedEndOfData,
    AnswerProducerState,
    AskForRestoreState,
    CoordinateTasks,
    Deploy,
    Effect,
    ExecutionMoved,
    FinalizeVertices,
    JobStatusMoved,
    StartRestartTimer,
)
from flykka.actors.graph.events import (
    CancellationRequested,
    EndOfDataReported,
    Event,
    GlobalFailureReported,
    PartitionProducerStateRequested,
    RestartDue,
    RestoreStateReady,
    SchedulingRequested,
    SlotAllocated,
    SlotAllocationFailed,
    SlotsLost,
    SuspensionRequested,
    TaskStateUpdated,
    VerticesFinalized,
)
from flykka.actors.graph.execution import AttemptEffect, Execution, LeaveSlot, ProtocolViolated
from flykka.actors.graph.execution_job_vertex import execution_job_vertices
from flykka.actors.graph.execution_vertex import ExecutionVertex
from flykka.actors.graph.partition_producers import producer_state
from flykka.actors.graph.regions import Regions
from flykka.actors.graph.states import JOB_TERMINAL, job_may_move
from flykka.actors.ignore import Ignore
from flykka.actors.scheduling.failover import GiveUp, Restart, decide
from flykka.actors.scheduling.restart_strategy import RestartStrategy
from flykka.actors.scheduling.slot_sharing import ReturnSlot, SlotSharing
from flykka.messages.accumulator import AccumulatorResults
from flykka.messages.failure import SerializedThrowable
from flykka.messages.ids import ExecutionAttemptId, JobVertexId
from flykka.messages.job import JobStatus
from flykka.messages.job_graph import JobGraph
from flykka.messages.task import ExecutionState

_OF_A_FAILURE = frozenset({JobStatus.FAILING, JobStatus.RESTARTING, JobStatus.FAILED, JobStatus.SUSPENDED})


class ExecutionGraph:
    """A job in execution. The job graph it is made of is valid (`validation`)."""

    def __init__(self, job_graph: JobGraph, restart_strategy: RestartStrategy, now: int) -> None:
        self.job_graph = job_graph
        self.status = JobStatus.CREATED
        self.version = 1
        self.failure_cause: SerializedThrowable | None = None
        self._strategy = restart_strategy
        self._vertices = execution_job_vertices(job_graph, now)
        self._attempts = CurrentAttempts(self._subtasks())
        self._slots = SlotSharing()
        self._regions = Regions(self._vertices, job_graph.schedule_mode)
        self._restore: RestoreStateReady | None = None
        self._finalizing = False

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Take one event; what is to be done about it, in order."""
        return [*self._on_event(event, now), *self._settle(now)]

    def _on_event(self, event: Event, now: int) -> list[Effect]:
        match event:
            case SchedulingRequested():
                return self._on_schedule(now)
            case SlotAllocated():
                return self._on_slot_allocated(event, now)
            case SlotAllocationFailed():
                return self._on_slot_allocation_failed(event, now)
            case RestoreStateReady():
                return self._on_restore_state(event, now)
            case TaskStateUpdated():
                return self._on_task_state(event, now)
            case EndOfDataReported(attempt=attempt):
                return self._on_end_of_data(attempt)
            case SlotsLost():
                return self._on_slots_lost(event, now)
            case GlobalFailureReported():
                return self._on_global_failure(event, now)
            case CancellationRequested():
                return self._on_cancel(now)
            case SuspensionRequested(cause=cause):
                return self._on_suspend(cause, now)
            case RestartDue(version=version):
                return self._on_restart_due(version, now)
            case PartitionProducerStateRequested():
                return self._on_producer_state_requested(event)
            case VerticesFinalized():
                return self._on_finalized(event, now)
            case _:
                assert_never(event)

    # What others may ask

    @property
    def number_of_restarts(self) -> int:
        """How often the job has failed and was to begin again, the refused last time included (as in Flink 1.9)."""
        return self.version - 1

    @property
    def live_attempts(self) -> int:
        """How many attempts have not come to an end."""
        return self._attempts.live

    def accumulators(self) -> AccumulatorResults:
        """What the job has counted: the accumulators of the attempts that have FINISHED, of no former ones."""
        executions = (subtask.execution for subtask in self._subtasks())
        return merged(
            snapshot
            for execution in executions
            if execution.state is ExecutionState.FINISHED
            for snapshot in execution.accumulators
        )

    def subtask(self, vertex_id: JobVertexId, subtask: int) -> ExecutionVertex:
        """A subtask and its attempts."""
        return self._vertices[vertex_id].subtasks[subtask]

    def execution(self, attempt: ExecutionAttemptId) -> Execution | None:
        """The attempt, where it is the current one of its subtask."""
        return self._attempts.get(attempt)

    def check(self) -> None:
        """Assert the invariants."""
        self._attempts.check()
        self._slots.check()
        for execution in (subtask.execution for subtask in self._subtasks()):
            if execution.state in (ExecutionState.DEPLOYING, ExecutionState.RUNNING, ExecutionState.CANCELING):
                assert execution.slot is not None, f"{execution.attempt} is {execution.state} without a slot"
        if self.status in JOB_TERMINAL or self.status is JobStatus.RESTARTING:
            assert self.live_attempts == 0, f"the job is {self.status} with live attempts"
        if self.status is JobStatus.FINISHED:
            assert self._attempts.have_finished

    # Scheduling

    def _on_schedule(self, now: int) -> list[Effect]:
        if self.status is not JobStatus.CREATED:
            return [self._ignore("scheduling")]
        effects = [self._move(JobStatus.RUNNING)]
        self._regions.begin()
        for subtask in self._subtasks():
            effects += self._perform(subtask.execution.schedule(now), now)
        wanted = (
            (subtask.job_vertex.slot_sharing_group, subtask.subtask, subtask.execution.attempt)
            for subtask in self._subtasks()
        )
        return [*effects, AskForRestoreState(version=self.version), self._slots.request(self.version, wanted)]

    def _on_slot_allocated(self, event: SlotAllocated, now: int) -> list[Effect]:
        if not self._slots.is_waiting(event.request_id):
            # The pool answers a request once, so this one was cancelled while the answer was on its way.
            return [ReturnSlot(request_id=event.request_id)]
        for attempt in self._slots.assign(event.request_id, event.slot):
            subtask = self._attempts[attempt]
            was_wanted = subtask.execution.assign(event.slot)
            assert was_wanted, f"{attempt} waits for a slot and does not take it"
            self._regions.slot_assigned(subtask)
        return self._deploy_when_ready(now)

    def _on_slot_allocation_failed(self, event: SlotAllocationFailed, now: int) -> list[Effect]:
        if not self._slots.is_waiting(event.request_id):
            return [self._ignore(f"the failure of slot request {event.request_id}")]
        return self._fail(event.cause, now)

    def _on_restore_state(self, event: RestoreStateReady, now: int) -> list[Effect]:
        if event.version != self.version or self.status is not JobStatus.RUNNING or self._restore is not None:
            return [self._ignore(f"the state for version {event.version}")]
        self._restore = event
        for vertex_id, max_parallelism in event.max_parallelism.items():
            self._vertices[vertex_id].set_max_parallelism(max_parallelism)
        for (vertex_id, subtask), state in event.states.items():
            self.subtask(vertex_id, subtask).execution.restore = state
        return self._deploy_when_ready(now)

    def _deploy_when_ready(self, now: int) -> list[Effect]:
        ready = self._regions.take_ready() if self._restore is not None else ()
        if self._restore is None or not ready:
            return []
        moved: list[Effect] = []
        deployed: list[Effect] = []
        for subtask in ready:
            execution = subtask.execution
            assert execution.slot is not None, f"{execution.attempt} is deployed without a slot"
            descriptor = deployment_descriptor(self.job_graph, self._vertices, subtask, self._restore.checkpoint_id)
            moved += self._perform(execution.deploy(now), now)
            deployed.append(Deploy(descriptor=descriptor, task_manager=execution.slot.task_manager))
        return [*self._coordinate_tasks(), *moved, *deployed]

    def _coordinate_tasks(self) -> list[Effect]:
        """No checkpoint begins before every task is there, so of fewer of them the coordinator does not hear."""
        if not self._regions.all_taken:
            return []
        return [CoordinateTasks(tasks=tuple(coordinated_task(subtask) for subtask in self._subtasks()))]

    # What becomes of attempts

    def _on_task_state(self, event: TaskStateUpdated, now: int) -> list[Effect]:
        execution = self.execution(event.update.attempt)
        if execution is None:
            return [self._ignore(f"a report of {event.update.attempt}, which is no current attempt")]
        return self._perform(execution.update(event.update, now), now)

    def _on_end_of_data(self, attempt: ExecutionAttemptId) -> list[Effect]:
        execution = self.execution(attempt)
        if execution is None or execution.is_terminal or execution.has_reached_end_of_data:
            return [self._ignore(f"the end of data of {attempt}")]
        self._attempts.reach_end_of_data(execution)
        return [AllTasksReachedEndOfData()] if self._attempts.have_reached_end_of_data else []

    def _on_slots_lost(self, event: SlotsLost, now: int) -> list[Effect]:
        # All of them have failed before the job hears of the first: nobody is told to cancel what is gone.
        failed: list[AttemptEffect] = []
        for request_id in event.request_ids:
            for attempt in self._slots.occupants(request_id):
                failed += self._attempts[attempt].execution.fail(event.cause, now)
        return self._perform(failed, now) or [self._ignore("the loss of slots it no longer uses")]

    def _on_producer_state_requested(self, event: PartitionProducerStateRequested) -> list[Effect]:
        asking = self.execution(event.attempt)
        if asking is None or asking.is_terminal or asking.slot is None:
            return [self._ignore(f"a question of {event.attempt}, which runs no more,")]
        answer = producer_state(self.job_graph.job_id, self._vertices, event.attempt, event.partition_id)
        return [AnswerProducerState(answer=answer, task_manager=asking.slot.task_manager)]

    # What becomes of the job

    def _on_global_failure(self, event: GlobalFailureReported, now: int) -> list[Effect]:
        if event.attempt is not None:
            execution = self.execution(event.attempt)
            if execution is None or execution.is_terminal:
                return [self._ignore(f"the failure of {event.attempt}, which is over,")]
        return self._fail(event.cause, now)

    def _fail(self, cause: SerializedThrowable, now: int) -> list[Effect]:
        """Stop every attempt because of `cause`; whether the job starts again is seen when all have ended."""
        if not job_may_move(self.status, JobStatus.FAILING):
            return [self._ignore("a failure")]
        self.failure_cause = cause
        return [self._move(JobStatus.FAILING), *self._end_attempts(Execution.cancel, now)]

    def _on_cancel(self, now: int) -> list[Effect]:
        if self.status is JobStatus.RESTARTING:
            return [self._move(JobStatus.CANCELED)]
        if not job_may_move(self.status, JobStatus.CANCELLING):
            return [self._ignore("cancelling")]
        is_ending = self.status is JobStatus.FAILING
        moved = self._move(JobStatus.CANCELLING)
        return [moved] if is_ending else [moved, *self._end_attempts(Execution.cancel, now)]

    def _on_suspend(self, cause: SerializedThrowable, now: int) -> list[Effect]:
        if not job_may_move(self.status, JobStatus.SUSPENDED):
            return [self._ignore("suspending")]
        self.failure_cause = cause
        return [self._move(JobStatus.SUSPENDED), *self._end_attempts(Execution.suspend, now)]

    def _on_restart_due(self, version: int, now: int) -> list[Effect]:
        if version != self.version or self.status is not JobStatus.RESTARTING:
            return [self._ignore(f"the restart of version {version}")]
        created = self._move(JobStatus.CREATED)
        for subtask in self._subtasks():
            subtask.reset(now)
        self._attempts = CurrentAttempts(self._subtasks())
        return [created, *self._on_schedule(now)]

    def _finalize(self) -> list[Effect]:
        if self._finalizing:
            return []
        self._finalizing = True
        has_read_all = self._attempts.have_reached_end_of_data
        return [FinalizeVertices(version=self.version, vertices=self.job_graph.vertices, has_read_all=has_read_all)]

    def _on_finalized(self, event: VerticesFinalized, now: int) -> list[Effect]:
        if event.version != self.version or self.status is not JobStatus.RUNNING or not self._finalizing:
            return [self._ignore(f"the finalization of version {event.version}")]
        return [self._move(JobStatus.FINISHED)] if event.cause is None else self._fail(event.cause, now)

    def _end_attempts(self, end: Callable[[Execution, int], list[AttemptEffect]], now: int) -> list[Effect]:
        self.version += 1
        self._restore = None
        self._finalizing = False
        effects: list[Effect] = []
        for subtask in self._subtasks():
            effects += self._perform(end(subtask.execution, now), now)
        return effects

    def _settle(self, now: int) -> list[Effect]:
        """What follows for the job when the last attempt has come to an end."""
        if self.live_attempts > 0:
            return []
        match self.status:
            case JobStatus.RUNNING if self._attempts.have_finished:
                return self._finalize()
            case JobStatus.RUNNING:
                return [*self._fail(_ended_by_themselves(), now), *self._settle(now)]
            case JobStatus.CANCELLING:
                return [self._move(JobStatus.CANCELED)]
            case JobStatus.FAILING:
                return self._restart_or_fail()
            case _:
                return []

    def _restart_or_fail(self) -> list[Effect]:
        assert self.failure_cause is not None
        match decide(self._strategy, self.failure_cause):
            case Restart(delay_ms=delay_ms):
                timer = StartRestartTimer(delay_ms=delay_ms, version=self.version)
                return [self._move(JobStatus.RESTARTING), timer]
            case GiveUp():
                return [self._move(JobStatus.FAILED)]
            case decision:
                assert_never(decision)

    def _perform(self, effects: Iterable[AttemptEffect], now: int) -> list[Effect]:
        """Draw the consequences of what an attempt did."""
        performed: list[Effect] = []
        for effect in effects:
            match effect:
                case LeaveSlot(attempt=attempt):
                    left = self._slots.leave(attempt)
                    performed += [left] if left else []
                case ProtocolViolated(cause=cause):
                    performed += self._fail(cause, now)
                case ExecutionMoved(state=state):
                    self._attempts.moved(effect.previous, state)
                    performed.append(effect)
                    if state is ExecutionState.FAILED:
                        assert effect.failure is not None
                        performed += self._fail(effect.failure, now)
                case _:
                    performed.append(effect)
        return performed

    def _move(self, status: JobStatus) -> Effect:
        if not job_may_move(self.status, status):
            raise IllegalTransitionError(f"the job is {self.status} and cannot become {status}")
        self.status = status
        return JobStatusMoved(status=status, cause=self.failure_cause if status in _OF_A_FAILURE else None)

    def _subtasks(self) -> Iterator[ExecutionVertex]:
        return (subtask for vertex in self._vertices.values() for subtask in vertex.subtasks)

    def _ignore(self, what: str) -> Ignore:
        return Ignore(reason=f"the job is {self.status}: {what} changes nothing")


def _ended_by_themselves() -> SerializedThrowable:
    return SerializedThrowable(type_name="IllegalStateError", message="all tasks ended, and not all were finished")
