"""The job at run time: its status, its reaction to failed attempts, and its end.

Mirrors Flink's ExecutionGraph with its DefaultScheduler. The scheduling strategy decides which tasks begin when; groups
of tasks are deployed when they have their slots and their restored state (`task_scheduling`). When tasks fail, the
failover strategy decides which tasks restart. If all restart, the job is FAILING and then RESTARTING; if only some
restart, the job stays RUNNING and the other tasks continue (`pending_failovers`).

Each failover, the cancellation and the suspension start a new version. A restart or a restored state for an earlier
version is ignored.

Not here: the source of slots (SlotPool), how checkpoints work (CheckpointCoordinator), whether a failure is followed by
a restart (`restart.failure_handler`), and how a single attempt handles a report (`execution`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

from flykka.actors.errors import IllegalTransitionError
from flykka.actors.machines.effects import Ignore, Role, StartTimer, Tell
from flykka.actors.machines.exchange.effects import PRODUCER_DISPOSED_ERROR
from flykka.actors.machines.graph import events
from flykka.actors.machines.graph.accumulators import merged
from flykka.actors.machines.graph.events import Effect, ExecutionMoved, FinalizeVertices, JobStatusMoved
from flykka.actors.machines.graph.execution import AttemptEffect, Execution, LeaveSlot, ProtocolViolated
from flykka.actors.machines.graph.execution_job_vertex import ExecutionJobVertex, ExecutionVertex
from flykka.actors.machines.graph.execution_topology import Subtask
from flykka.actors.machines.graph.pending_failovers import Failovers, PendingRestart, schedule_restart
from flykka.actors.machines.graph.task_scheduling import TaskScheduling, task_of
from flykka.actors.machines.restart.failure_handler import ExecutionFailureHandler, GiveUp, RestartTasks
from flykka.actors.machines.restart.restart_strategy import RestartStrategy
from flykka.actors.machines.slots.slot_requests import ReturnSlot, SlotAllocated, SlotAllocationFailed, SlotsLost
from flykka.actors.machines.states import EXECUTION_TERMINAL, JOB_HAS_CAUSE, JOB_TERMINAL, job_may_move
from flykka.messages.control.checkpoint_coordination import AbortPendingCheckpoints, FinalCheckpointRequest
from flykka.messages.control.job import CancelJob, CheckpointCompleted, JobStatus
from flykka.messages.control.job_control import DeploymentTimedOut, JobRestartDue, JobVerticesFinalized
from flykka.messages.graph.job_graph import FailoverStrategyKind, JobGraph
from flykka.messages.tasks.accumulator import AccumulatorResults
from flykka.messages.tasks.task import (
    AcknowledgeDeployments,
    ExecutionState,
    NotifyEndOfData,
    PartitionProducerState,
    RequestPartitionProducerState,
    TaskExecutionState,
    UpdateTaskExecutionState,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, JobVertexId, ResultPartitionId, producer_of


class ExecutionGraph:
    """A job in execution. Its job graph must be valid (`validation`)."""

    def __init__(self, job_graph: JobGraph, restart_strategy: RestartStrategy, now: int) -> None:
        self.job_graph = job_graph
        self.status = JobStatus.CREATED
        self.version = 1
        self.failure_cause: SerializedThrowable | None = None
        self.number_of_restarts = 0
        """The number of failures with a restart, including the last one even if it was refused (as in Flink 1.9)."""
        self._tasks = TaskScheduling(job_graph, now)
        self._attempts = self._tasks.attempts
        self._handler = ExecutionFailureHandler(restart_strategy, self._tasks.failover_strategy())
        self._failovers = Failovers()
        self._failed: dict[Subtask, SerializedThrowable] = {}
        self._failing_vertex: JobVertexId | None = None
        self._given_up: GiveUp | None = None
        self._is_stopping = self._finalizing = False

    def handle(self, event: events.Event, now: int) -> list[Effect]:
        return [*self._on_event(event, now), *self._act_on_failures(now), *self._act_on_ends(now)]

    def _on_event(self, event: events.Event, now: int) -> list[Effect]:
        match event:
            case events.SchedulingRequested():
                return self._on_schedule(now)
            case SlotAllocated():
                return self._tasks.slot_allocated(event, now)
            case SlotAllocationFailed():
                return self._on_slot_allocation_failed(event, now)
            case events.RestoreStateReady():
                return self._tasks.restored(event, now)
            case UpdateTaskExecutionState(state=reached):
                return self._on_task_state(reached, now)
            case NotifyEndOfData(attempt=attempt):
                return self._on_end_of_data(attempt)
            case AcknowledgeDeployments(attempts=attempts):
                return self._tasks.answered(attempts, now)
            case DeploymentTimedOut(deployment=deployment):
                return self._perform(self._tasks.deployment_timed_out(deployment, now), now)
            case SlotsLost():
                return self._on_slots_lost(event, now)
            case events.GlobalFailureReported():
                return self._on_global_failure(event, now)
            case CheckpointCompleted():
                self._handler.checkpoint_completed()
                return []
            case events.StoppingChanged(is_stopping=is_stopping):
                self._is_stopping = is_stopping
                return []
            case CancelJob(cause=cause):
                return self._on_cancel(cause, now)
            case JobRestartDue(version=version):
                return self._on_restart_due(version, now)
            case events.RestartDelayDrawn(version=version, chance=chance):
                return self._on_delay_drawn(version, chance)
            case RequestPartitionProducerState():
                return self._on_producer_state_requested(event)
            case JobVerticesFinalized():
                return self._on_finalized(event, now)
            case _:
                assert_never(event)

    # Queries

    @property
    def live_attempts(self) -> int:
        return self._attempts.live

    @property
    def executions(self) -> Iterator[Execution]:
        return (subtask.execution for subtask in self._tasks.subtasks())

    def accumulators(self) -> AccumulatorResults:
        finished = (execution for execution in self.executions if execution.state is ExecutionState.FINISHED)
        return merged(snapshot for execution in finished for snapshot in execution.accumulators)

    def subtask(self, vertex_id: JobVertexId, subtask: int) -> ExecutionVertex:
        return self._tasks.subtask((vertex_id, subtask))

    def execution(self, attempt: ExecutionAttemptId) -> Execution | None:
        return self._attempts.get(attempt)

    def restoring(self, version: int) -> tuple[Subtask, ...] | None:
        return self._tasks.restoring(version)

    def restores_all(self, version: int) -> bool:
        return self._tasks.is_whole(version)

    def check(self) -> None:
        self._tasks.check()
        self._failovers.check()
        if self.status in JOB_TERMINAL or self.status is JobStatus.RESTARTING:
            assert self.live_attempts == 0, f"the job is {self.status} with live attempts"
        if self.status not in (JobStatus.RUNNING, JobStatus.RESTARTING):
            assert not self._failovers, f"the job is {self.status}, but some of its tasks are about to restart"
        if self.status is JobStatus.FINISHED:
            assert self._attempts.have_finished

    # Scheduling

    def _on_schedule(self, now: int) -> list[Effect]:
        if self.status is not JobStatus.CREATED:
            return [self._ignore("scheduling")]
        return [self._move(JobStatus.RUNNING), *self._tasks.start(self.version, now)]

    def _on_slot_allocation_failed(self, event: SlotAllocationFailed, now: int) -> list[Effect]:
        if not any(map(self._tasks.waits_for_slot, event.attempts)):
            return [self._ignore(f"the lack of a slot for {', '.join(event.attempts)}")]
        return self._fail(event.cause, now)

    # Reports about attempts

    def _on_task_state(self, reached: TaskExecutionState, now: int) -> list[Effect]:
        execution = self.execution(reached.attempt)
        if execution is None:
            return [self._ignore(f"a report of {reached.attempt}, which is not a current attempt")]
        return self._perform(execution.update(reached, now), now)

    def _on_end_of_data(self, attempt: ExecutionAttemptId) -> list[Effect]:
        execution = self.execution(attempt)
        if execution is None or execution.is_terminal or execution.has_reached_end_of_data:
            return [self._ignore(f"the end of data of {attempt}")]
        self._attempts.reach_end_of_data(execution)
        final = FinalCheckpointRequest(job_id=self.job_graph.job_id)
        is_last = self._attempts.have_reached_end_of_data
        return [Tell(to=Role.CHECKPOINT_COORDINATOR, message=final)] if is_last else []

    def _on_slots_lost(self, event: SlotsLost, now: int) -> list[Effect]:
        # All attempts fail before the job reacts to the first failure, so that no lost attempt is sent a
        # cancellation.
        failures: list[AttemptEffect] = []
        for attempt in event.attempts:
            execution = self.execution(attempt)
            failures += execution.fail(event.cause, now) if execution is not None else []
        effects = self._perform(failures, now)
        where = event.task_manager_id
        unread = self._tasks.results.lose_task_manager(where) if where is not None else ()
        # A job that ends or restarts all of its tasks does not read these results again, so their loss is no failure.
        for task in unread if self.status is JobStatus.RUNNING else ():
            self._failed.setdefault(task, event.cause)
        return effects or [self._ignore("the loss of slots it no longer uses")]

    def _on_producer_state_requested(self, event: RequestPartitionProducerState) -> list[Effect]:
        consumer = self.execution(event.attempt)
        if consumer is None or consumer.is_terminal or consumer.slot is None:
            return [self._ignore(f"the partition request of {event.attempt}, which has ended,")]
        answer = producer_state(self.job_graph.job_id, self._tasks.vertices, event.attempt, event.partition_id)
        return [Tell(to=consumer.slot.task_manager, message=answer)]

    # Restarts

    def _act_on_failures(self, now: int) -> list[Effect]:
        """React to failed tasks. All tasks that have failed together count as one failure."""
        failures, self._failed = self._failed, {}
        if not failures:
            return []
        (vertex, _), cause = next(iter(failures.items()))
        for partition_id in (each.lost_partition for each in failures.values() if each.lost_partition is not None):
            self._tasks.results.lose(partition_id)
        is_region = self.job_graph.failover_strategy is FailoverStrategyKind.REGION
        # After the last checkpoint of a stop no task may continue while others end, because the stop has failed for
        # all tasks.
        if self.status is not JobStatus.RUNNING or not is_region or self._is_stopping:
            return self._fail(cause, now, vertex)
        match self._handler.handle(failures, cause, now, vertex):
            case RestartTasks() as restart:
                return self._restart_tasks(restart, cause, now)
            case GiveUp() as given_up:
                self._given_up = given_up
                return self._fail(cause, now, vertex)
            case unreachable:
                assert_never(unreachable)

    def _restart_tasks(self, decision: RestartTasks[Subtask], cause: SerializedThrowable, now: int) -> list[Effect]:
        self.version += 1
        self.number_of_restarts += 1
        aborted = AbortPendingCheckpoints(job_id=self.job_graph.job_id)
        effects: list[Effect] = [Tell(to=Role.CHECKPOINT_COORDINATOR, message=aborted)]
        tasks = self._tasks.to_restart(decision.tasks)
        self._tasks.reset(tasks)
        for task in tasks:
            effects += self._perform(self._tasks.execution_of(task).cancel(now), now)
            self._tasks.give_up(task)
        living = (task for task in tasks if not self._tasks.execution_of(task).is_terminal)
        names = tuple(self._tasks.subtask(task).name for task in tasks)
        restart = PendingRestart(version=self.version, names=names, backoff=decision.backoff, cause=cause)
        return [*effects, *self._failovers.start_delay(restart, tasks, living)]

    def _on_delay_drawn(self, version: int, chance: float) -> list[Effect]:
        restart = self._failovers.get(version)
        if restart is None:
            return [self._ignore(f"the pause of version {version}")]
        return [*schedule_restart(restart, chance)]

    def _on_restart_due(self, version: int, now: int) -> list[Effect]:
        if self._failovers.get(version) is None:
            return [self._ignore(f"the restart of version {version}")]
        self._failovers.due(version)
        if self.status is not JobStatus.RESTARTING:
            return []
        self._failovers.end_all(())
        created = self._move(JobStatus.CREATED)
        running = self._move(JobStatus.RUNNING)
        return [created, running, *self._tasks.restart(version, self._tasks.topology.tasks, now, is_whole=True)]

    # The status of the job

    def _on_global_failure(self, event: events.GlobalFailureReported, now: int) -> list[Effect]:
        if event.attempt is not None:
            execution = self.execution(event.attempt)
            if execution is None or execution.is_terminal:
                return [self._ignore(f"the failure of {event.attempt}, which has ended,")]
        return self._fail(event.cause, now)

    def _fail(self, cause: SerializedThrowable, now: int, vertex: JobVertexId | None = None) -> list[Effect]:
        """Cancel every attempt because of `cause`. Whether the job restarts is decided when all attempts have ended."""
        if not job_may_move(self.status, JobStatus.FAILING):
            return [self._ignore("a failure")]
        self.failure_cause, self._failing_vertex = cause, vertex
        self.number_of_restarts += 1
        return [self._move(JobStatus.FAILING), *self._cancel_attempts(now)]

    def _on_cancel(self, cause: SerializedThrowable | None, now: int) -> list[Effect]:
        if self.status is not JobStatus.RESTARTING and not job_may_move(self.status, JobStatus.CANCELLING):
            return [self._ignore("cancelling")]
        self.failure_cause = cause
        if self.status is JobStatus.RESTARTING:
            self._failovers.end_all(self._tasks.topology.tasks)
            return [self._move(JobStatus.CANCELED)]
        is_ending = self.status is JobStatus.FAILING
        change = self._move(JobStatus.CANCELLING)
        return [change] if is_ending else [change, *self._cancel_attempts(now)]

    def _cancel_attempts(self, now: int) -> list[Effect]:
        self.version += 1
        self._is_stopping = self._finalizing = False
        self._failovers.end_all(self._tasks.topology.tasks)
        self._tasks.give_up_all()
        return [effect for execution in self.executions for effect in self._perform(execution.cancel(now), now)]

    def _finalize(self) -> list[Effect]:
        if self._finalizing:
            return []
        self._finalizing = True
        has_read_all = self._attempts.have_reached_end_of_data
        return [FinalizeVertices(version=self.version, vertices=self.job_graph.vertices, has_read_all=has_read_all)]

    def _on_finalized(self, event: JobVerticesFinalized, now: int) -> list[Effect]:
        if event.version != self.version or self.status is not JobStatus.RUNNING or not self._finalizing:
            return [self._ignore(f"the finalization of version {event.version}")]
        return [self._move(JobStatus.FINISHED)] if event.cause is None else self._fail(event.cause, now)

    def _act_on_ends(self, now: int) -> list[Effect]:
        effects: list[Effect] = []
        if self.status is JobStatus.RUNNING:
            for restart, tasks in self._failovers.take_ready():
                effects += self._tasks.restart(restart.version, tasks, now, is_whole=False)
        return effects if self.live_attempts > 0 else effects + self._restart_or_end(now)

    def _restart_or_end(self, now: int) -> list[Effect]:
        match self.status:
            case JobStatus.RUNNING if self._attempts.have_finished:
                return self._finalize()
            case JobStatus.RUNNING if not self._failovers:
                text = "all tasks ended, and not all were finished"
                cause = SerializedThrowable(type_name="IllegalStateError", message=text)
                return [*self._fail(cause, now), *self._act_on_ends(now)]
            case JobStatus.CANCELLING:
                return [self._move(JobStatus.CANCELED)]
            case JobStatus.FAILING:
                return self._restart_or_fail(now)
            case _:
                return []

    def _restart_or_fail(self, now: int) -> list[Effect]:
        assert self.failure_cause is not None
        decision = self._given_up or self._handler.handle_global(self.failure_cause, now, self._failing_vertex)
        match decision:
            case RestartTasks(backoff=backoff):
                restart = PendingRestart(version=self.version, backoff=backoff, cause=self.failure_cause)
                waiting = self._failovers.start_delay(restart, self._tasks.topology.tasks, ())
                return [self._move(JobStatus.RESTARTING), *waiting]
            case GiveUp(cause=cause, why=why):
                self.failure_cause = cause
                return [self._move(JobStatus.FAILED, why)]
            case unreachable:
                assert_never(unreachable)

    def _perform(self, effects: Iterable[AttemptEffect | StartTimer], now: int) -> list[Effect]:
        performed: list[Effect] = []
        for effect in effects:
            match effect:
                case LeaveSlot(attempt=attempt, has_finished=has_finished):
                    performed.append(ReturnSlot(attempt=attempt, will_return=not has_finished))
                case ProtocolViolated(cause=cause):
                    performed += self._fail(cause, now)
                case ExecutionMoved():
                    performed += self._on_moved(effect, now)
                case _:
                    performed.append(effect)
        return performed

    def _on_moved(self, change: ExecutionMoved, now: int) -> list[Effect]:
        task = task_of(self._attempts[change.attempt].execution)
        self._attempts.moved(change.attempt, change.previous, change.state)
        if change.state in EXECUTION_TERMINAL:
            self._tasks.give_up(task)
            self._failovers.ended(task)
        # A cancellation may get lost together with the deployment, so the acknowledgement is still awaited.
        answered = [] if change.state is ExecutionState.CANCELING else self._tasks.answered((change.attempt,), now)
        match change.state:
            case ExecutionState.RUNNING:
                return [change, *answered, *self._tasks.running(task, now)]
            case ExecutionState.FINISHED:
                return [change, *answered, *self._tasks.finished(task, now)]
            case ExecutionState.FAILED:
                assert change.failure is not None
                self._failed[task] = change.failure
        return [change, *answered]

    def _move(self, status: JobStatus, why: str | None = None) -> Effect:
        if not job_may_move(self.status, status):
            raise IllegalTransitionError(f"the job is {self.status} and cannot become {status}")
        self.status = status
        return JobStatusMoved(status=status, cause=self.failure_cause if status in JOB_HAS_CAUSE else None, why=why)

    def _ignore(self, what: str) -> Ignore:
        return Ignore(reason=f"the job is {self.status}: {what} changes nothing")


def producer_state(
    job_id: JobId,
    vertices: Mapping[JobVertexId, ExecutionJobVertex],
    consumer: ExecutionAttemptId,
    partition_id: ResultPartitionId,
) -> PartitionProducerState:
    """Return the state of the attempt that produces a partition, if it is the current attempt of its subtask."""
    producer = producer_of(partition_id)
    subtask = _subtask(job_id, vertices, producer)
    if subtask is None:
        text = f"the job has no attempt {producer}: no task produces the partition {partition_id}"
        return _failed(consumer, partition_id, "PartitionProducerUnknownError", text)
    if subtask.execution.attempt != producer:
        text = f"{subtask.execution.attempt} has replaced {producer}, which produced {partition_id}"
        return _failed(consumer, partition_id, PRODUCER_DISPOSED_ERROR, text)
    return PartitionProducerState(attempt=consumer, partition_id=partition_id, state=subtask.execution.state)


def _subtask(
    job_id: JobId, vertices: Mapping[JobVertexId, ExecutionJobVertex], attempt: ExecutionAttemptId
) -> ExecutionVertex | None:
    prefix, *numbers = attempt.rsplit("_", 2)
    vertex = vertices.get(JobVertexId(prefix.removeprefix(f"{job_id}_")))
    if vertex is None or len(numbers) < 2 or not all(number.isdecimal() for number in numbers):
        return None
    index, attempt_number = map(int, numbers)
    if index >= len(vertex.subtasks) or attempt_number > vertex.subtasks[index].execution.number:
        return None
    return vertex.subtasks[index]


def _failed(
    consumer: ExecutionAttemptId, partition_id: ResultPartitionId, type_name: str, text: str
) -> PartitionProducerState:
    failure = SerializedThrowable(type_name=type_name, message=text)
    return PartitionProducerState(attempt=consumer, partition_id=partition_id, failure=failure)
