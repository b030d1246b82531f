"""Schedules the subtasks of a job: decides which begin, gets their slots and restored state, and deploys them.

Carries out the decisions of the ExecutionGraph (Flink's DefaultScheduler.allocateSlotsAndDeploy). An attempt waits for
a slot and for its restored state. A group is deployed when none of its tasks waits any longer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import assert_never

from flykka.actors.machines.effects import Ignore, StartTimer
from flykka.actors.machines.graph.deployment_descriptors import coordinated_task, deployment_descriptor, slot_request
from flykka.actors.machines.graph.events import (
    AskForRestoreState,
    CoordinateTasks,
    Deploy,
    Effect,
    ExecutionMoved,
    RestoreStateReady,
)
from flykka.actors.machines.graph.execution import AttemptEffect, Execution
from flykka.actors.machines.graph.execution_job_vertex import (
    ExecutionVertex,
    VertexAttemptNumberStore,
    execution_job_vertices,
)
from flykka.actors.machines.graph.execution_topology import Subtask, execution_topology
from flykka.actors.machines.graph.pending_deployments import Deployments, UnacknowledgedDeployments
from flykka.actors.machines.graph.result_partitions import ResultPartitions
from flykka.actors.machines.job_graph.validation import recovers_approximately
from flykka.actors.machines.job_graph.wiring import channels
from flykka.actors.machines.restart.failure_handler import (
    ApproximateLocalRecoveryFailoverStrategy,
    FailoverStrategy,
    failover_strategy,
)
from flykka.actors.machines.scheduling.scheduling_strategy import (
    EagerSchedulingStrategy,
    Groups,
    LazyFromSourcesSchedulingStrategy,
    PipelinedRegionSchedulingStrategy,
    SchedulingStrategy,
    in_order,
)
from flykka.actors.machines.scheduling.topology import SchedulingTopology
from flykka.actors.machines.slots.slot_requests import RequestSlots, SlotAllocated
from flykka.actors.machines.states import EXECUTION_TERMINAL
from flykka.messages.graph.job_graph import JobGraph, ResultPartitionType, ScheduleMode
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId


class CurrentAttempts:
    """The current attempts of a job, one of each subtask: by id, and counted by state.

    An event concerns one attempt. The counts show its effect on the job without iterating over the other attempts.
    """

    def __init__(self, subtasks: Iterable[ExecutionVertex]) -> None:
        self._by_id = {subtask.execution.attempt: subtask for subtask in subtasks}
        self._in_state = Counter({ExecutionState.CREATED: len(self._by_id)})
        self._at_end_of_data = 0

    def __getitem__(self, attempt: ExecutionAttemptId) -> ExecutionVertex:
        return self._by_id[attempt]

    def get(self, attempt: ExecutionAttemptId) -> Execution | None:
        subtask = self._by_id.get(attempt)
        return subtask.execution if subtask else None

    @property
    def live(self) -> int:
        return len(self._by_id) - sum(self._in_state[state] for state in EXECUTION_TERMINAL)

    @property
    def are_deployed(self) -> bool:
        states = (ExecutionState.DEPLOYING, ExecutionState.RUNNING, ExecutionState.FINISHED)
        return sum(self._in_state[state] for state in states) == len(self._by_id)

    @property
    def have_finished(self) -> bool:
        return self._in_state[ExecutionState.FINISHED] == len(self._by_id)

    @property
    def have_reached_end_of_data(self) -> bool:
        return self._at_end_of_data == len(self._by_id)

    def moved(self, attempt: ExecutionAttemptId, previous: ExecutionState, state: ExecutionState) -> None:
        self._in_state[previous] -= 1
        self._in_state[state] += 1

    def replace_attempt(self, former: Execution, subtask: ExecutionVertex) -> None:
        del self._by_id[former.attempt]
        self._in_state[former.state] -= 1
        self._at_end_of_data -= former.has_reached_end_of_data
        self._by_id[subtask.execution.attempt] = subtask
        self._in_state[ExecutionState.CREATED] += 1

    def reach_end_of_data(self, execution: Execution) -> None:
        assert not execution.has_reached_end_of_data, f"{execution.attempt} has already reported the end of its data"
        execution.has_reached_end_of_data = True
        self._at_end_of_data += 1

    def check(self) -> None:
        executions = [subtask.execution for subtask in self._by_id.values()]
        assert {state: count for state, count in self._in_state.items() if count} == Counter(
            execution.state for execution in executions
        )
        assert [*self._by_id] == [execution.attempt for execution in executions]
        assert self._at_end_of_data == sum(execution.has_reached_end_of_data for execution in executions)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Restore:
    tasks: dict[Subtask, None]
    is_whole: bool


class TaskScheduling:
    def __init__(self, job_graph: JobGraph, now: int, numbers: VertexAttemptNumberStore | None = None) -> None:
        self.vertices = execution_job_vertices(job_graph, now, numbers)
        self.topology = execution_topology(job_graph)
        self.attempts = CurrentAttempts(self.subtasks())
        self.results = ResultPartitions(job_graph.job_id, self.topology, self.vertices)
        self._job_graph = job_graph
        self._strategy = scheduling_strategy(job_graph, self.topology)
        self._is_approximate = recovers_approximately(job_graph)
        self._is_lazy = job_graph.schedule_mode is ScheduleMode.LAZY_FROM_SOURCES
        self._deployments = Deployments(self._unreadable)
        self._unacknowledged = UnacknowledgedDeployments(job_graph.rpc_timeout_ms)
        self._restores: dict[int, _Restore] = {}
        self._number = {task: number for number, task in enumerate(self.topology.tasks)}

    def subtask(self, task: Subtask) -> ExecutionVertex:
        vertex_id, subtask = task
        return self.vertices[vertex_id].subtasks[subtask]

    def subtasks(self) -> Iterator[ExecutionVertex]:
        return (subtask for vertex in self.vertices.values() for subtask in vertex.subtasks)

    def to_restart(self, tasks: Collection[Subtask]) -> tuple[Subtask, ...]:
        """Return the tasks of these regions that need a new attempt, in the order of the job.

        A task that never began needs no new attempt (FLINK-19712), because it still waits for its input. In the mode
        "lazy from sources" it gets a new attempt, as in the Flink versions that had that mode.
        """
        ordered = in_order(self.topology, tasks)
        if self._is_lazy:
            return ordered
        return tuple(task for task in ordered if self.execution_of(task).state is not ExecutionState.CREATED)

    def reset(self, tasks: Collection[Subtask]) -> None:
        """Mark the results of these tasks as unavailable, so that consumers wait until they are produced again."""
        self._strategy.reset(tasks)

    def failover_strategy(self) -> FailoverStrategy[Subtask]:
        strategy = failover_strategy(self._job_graph.failover_strategy, self.topology, self.results.availability)
        if not self._is_approximate:
            return strategy
        return ApproximateLocalRecoveryFailoverStrategy(
            self.topology, strategy, lambda task: self.execution_of(task).state is ExecutionState.FINISHED
        )

    # Starting tasks

    def start(self, version: int, now: int) -> list[Effect]:
        return self._begin(version, self.topology.tasks, self._strategy.start(), now, is_whole=True)

    def restart(self, version: int, tasks: tuple[Subtask, ...], now: int, *, is_whole: bool) -> list[Effect]:
        """Restart these tasks, whose attempts have ended. `is_whole` is True if the whole job restarts."""
        effects: list[Effect] = []
        for task in tasks:
            subtask = self.subtask(task)
            effects += self.results.release_produced(task)
            former = subtask.execution
            subtask.reset(now)
            self.attempts.replace_attempt(former, subtask)
        return effects + self._begin(version, tasks, self._strategy.restart(tasks), now, is_whole=is_whole)

    def _begin(
        self, version: int, tasks: tuple[Subtask, ...], groups: Groups[Subtask], now: int, *, is_whole: bool
    ) -> list[Effect]:
        self._restores[version] = _Restore(tasks=dict.fromkeys(tasks), is_whole=is_whole)
        changes, requested = self._schedule(groups, now)
        return [*changes, AskForRestoreState(version=version), *requested]

    def _schedule(self, groups: Groups[Subtask], now: int) -> tuple[list[Effect], list[Effect]]:
        scheduled = sorted((task for group in groups for task in group), key=self._number.__getitem__)
        changes = [effect for task in scheduled for effect in self.record(self.execution_of(task).schedule(now))]
        for group in groups:
            stateless = [task for task in group if self.execution_of(task).waits_for_state]
            self._deployments.wait_for(group, stateless)
        requests = tuple(slot_request(self.vertices, self.subtask(task)) for task in scheduled)
        return changes, [RequestSlots(requests=requests)] if requests else []

    def running(self, task: Subtask, now: int) -> list[Effect]:
        changes, requested = self._schedule(self._not_begun(self._strategy.data_produced(task)), now)
        return changes + requested

    def finished(self, task: Subtask, now: int) -> list[Effect]:
        self._deployments.readable(task)
        # The report that the task runs may have been lost, so its output counts as readable too.
        ready = self._strategy.data_produced(task) + self._strategy.finished(task)
        changes, requested = self._schedule(self._not_begun(ready), now)
        return [*changes, *requested, *self.results.finished(task), *self.deploy_when_ready(now)]

    def _not_begun(self, groups: Groups[Subtask]) -> Groups[Subtask]:
        """Return the groups that may begin. Other groups have lost an input, and begin when the input is produced
        again.
        """
        created = ExecutionState.CREATED
        return [group for group in groups if all(self.execution_of(task).state is created for task in group)]

    # Slots and restored state

    def waits_for_slot(self, attempt: ExecutionAttemptId) -> bool:
        execution = self.attempts.get(attempt)
        return execution is not None and execution.state is ExecutionState.SCHEDULED and execution.slot is None

    def slot_allocated(self, event: SlotAllocated, now: int) -> list[Effect]:
        """Assign the slot to the attempts that still wait. Other attempts were cancelled and have returned the slot."""
        for attempt in filter(self.waits_for_slot, event.attempts):
            execution = self.attempts[attempt].execution
            execution.assign(event.slot)
            self._deployments.supplied(task_of(execution))
            self._deployments.readable(task_of(execution))
        return self.deploy_when_ready(now)

    def restoring(self, version: int) -> tuple[Subtask, ...] | None:
        restore = self._restores.get(version)
        return tuple(restore.tasks) if restore is not None else None

    def is_whole(self, version: int) -> bool:
        return self._restores[version].is_whole

    def restored(self, event: RestoreStateReady, now: int) -> list[Effect]:
        restore = self._restores.pop(event.version, None)
        if restore is None:
            return [Ignore(reason=f"no task waits for the state of version {event.version}")]
        for vertex_id, max_parallelism in event.max_parallelism.items():
            self.vertices[vertex_id].set_max_parallelism(max_parallelism)
        for task in restore.tasks:
            self.execution_of(task).start_from(event.checkpoint_id, event.states.get(task))
            if task in self._deployments:
                self._deployments.supplied(task)
        return self.deploy_when_ready(now)

    def give_up(self, task: Subtask) -> None:
        self._deployments.leave(task)
        for version, restore in tuple(self._restores.items()):
            restore.tasks.pop(task, None)
            # A restore of the whole job includes the state of the source coordinators, which need it even if no task
            # does.
            if not restore.tasks and not restore.is_whole:
                del self._restores[version]

    def give_up_all(self) -> None:
        self._deployments.clear()
        self._restores.clear()

    # Deployment

    def deploy_when_ready(self, now: int) -> list[Effect]:
        looks_at_producers = self._is_lazy or self._is_approximate
        ready = self._deployments.take_ready(looks_at_producers=looks_at_producers)
        if not ready:
            return []
        changes: list[Effect] = []
        deployed: list[Effect] = []
        for task in ready:
            subtask = self.subtask(task)
            execution = subtask.execution
            assert execution.slot is not None, f"{execution.attempt} is deployed without a slot"
            descriptor = deployment_descriptor(self._job_graph, self.vertices, subtask)
            if self._is_approximate:
                self._record_reader(task)
            changes += self.record(execution.deploy(now))
            deployed.append(Deploy(descriptor=descriptor, task_manager=execution.slot.task_manager))
        timer = self._unacknowledged.submit((self.execution_of(task).attempt for task in ready), now)
        return [*self._coordinate_tasks(), *changes, *deployed, timer]

    def answered(self, attempts: Iterable[ExecutionAttemptId], now: int) -> list[Effect]:
        return [effect for attempt in attempts for effect in self._unacknowledged.answer(attempt, now)]

    def deployment_timed_out(self, deployment: int, now: int) -> list[AttemptEffect | StartTimer]:
        unanswered = self._unacknowledged.time_out(deployment, now)
        if unanswered is None:
            return [Ignore(reason=f"deployment {deployment} is acknowledged")]
        if isinstance(unanswered, StartTimer):
            return [unanswered]
        timeout_ms = self._unacknowledged.timeout_ms
        executions = [self.attempts[attempt].execution for attempt in unanswered]
        return [effect for each in executions for effect in each.deployment_timed_out(timeout_ms, now)]

    def _record_reader(self, reader: Subtask) -> None:
        """Record the reader at its producers, because the reader's next attempt reconnects."""
        for exchange in self.topology.consumed(reader):
            for producer in exchange.producers:
                self.execution_of(producer).readers.add(reader)

    def _coordinate_tasks(self) -> list[Effect]:
        """Report the tasks to the coordinator when all are deployed, because no checkpoint can begin before."""
        if not self.attempts.are_deployed:
            return []
        tasks = (coordinated_task(subtask) for subtask in self.subtasks())
        return [CoordinateTasks(tasks=tuple(tasks))]

    def _unreadable(self, task: Subtask) -> Iterator[Subtask]:
        """Yield the producers of a task that have no slot yet or, if the result is blocking, have not finished."""
        subtask = self.subtask(task)
        for edge in subtask.job_vertex.inputs:
            producers = self.vertices[edge.source].subtasks
            read = channels(edge.ship_strategy, len(producers), subtask.job_vertex.parallelism, subtask.subtask)
            for channel in read:
                producer = producers[channel.producer]
                while not _is_readable(producer.execution, edge.result_partition_type):
                    yield edge.source, channel.producer

    def execution_of(self, task: Subtask) -> Execution:
        return self.subtask(task).execution

    def record(self, effects: Iterable[AttemptEffect]) -> list[Effect]:
        changes: list[Effect] = []
        for effect in effects:
            assert isinstance(effect, ExecutionMoved), f"{effect} has consequences"
            self.attempts.moved(effect.attempt, effect.previous, effect.state)
            changes.append(effect)
        return changes

    def check(self) -> None:
        self.attempts.check()
        self.results.check()
        self._deployments.check()
        self._unacknowledged.check()
        for execution in (subtask.execution for subtask in self.subtasks()):
            if execution.attempt in self._unacknowledged:
                waits = execution.state in (ExecutionState.DEPLOYING, ExecutionState.CANCELING)
                assert waits, f"{execution.attempt} is {execution.state} although its deployment is not acknowledged"
            if execution.state in (ExecutionState.DEPLOYING, ExecutionState.RUNNING, ExecutionState.CANCELING):
                assert execution.slot is not None, f"{execution.attempt} is {execution.state} without a slot"
            if execution.is_terminal:
                assert task_of(execution) not in self._deployments, (
                    f"{execution.attempt} has ended but is to be deployed"
                )


def task_of(execution: Execution) -> Subtask:
    return execution.vertex_id, execution.subtask


def scheduling_strategy(job_graph: JobGraph, topology: SchedulingTopology[Subtask]) -> SchedulingStrategy[Subtask]:
    match job_graph.schedule_mode:
        case ScheduleMode.EAGER:
            return EagerSchedulingStrategy(topology)
        case ScheduleMode.PIPELINED_REGION:
            return PipelinedRegionSchedulingStrategy(topology)
        case ScheduleMode.LAZY_FROM_SOURCES:
            return LazyFromSourcesSchedulingStrategy(topology, job_graph.input_dependency_constraint)
        case unreachable:
            assert_never(unreachable)


def _is_readable(producer: Execution, kind: ResultPartitionType) -> bool:
    if kind is ResultPartitionType.BLOCKING:
        return producer.state is ExecutionState.FINISHED
    return producer.slot is not None
