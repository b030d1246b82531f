"""Invariants of a job with many regions, with random topologies and random failures."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.machines.graph.events import (
    AskForRestoreState,
    Deploy,
    DrawRestartDelay,
    Effect,
    Event,
    GlobalFailureReported,
    JobStatusMoved,
    RestartDelayDrawn,
    RestartScheduled,
    RestoreStateReady,
    SchedulingRequested,
)
from flykka.actors.machines.graph.execution import Execution
from flykka.actors.machines.graph.execution_graph import ExecutionGraph
from flykka.actors.machines.restart.restart_strategy import restart_strategy
from flykka.actors.machines.slots.slot_requests import RequestSlots, SlotAllocated, SlotsLost
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import JobRestartDue
from flykka.messages.graph.job_graph import (
    ExponentialDelayRestartStrategyConfiguration,
    FailoverStrategyKind,
    JobEdge,
    JobGraph,
    ResultPartitionType,
    ScheduleMode,
    ShipStrategy,
)
from flykka.messages.tasks.task import ExecutionState, NotifyEndOfData, TaskExecutionState, UpdateTaskExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId, OperatorId, TaskManagerId
from tests.actors.machines.graph.graphs import CANCEL, failure, graph_of, slot, vertex

GROWING = ExponentialDelayRestartStrategyConfiguration(
    initial_backoff_ms=1, max_backoff_ms=10, backoff_multiplier=2.0, reset_backoff_threshold_ms=5, jitter_factor=0.5
)
BLOCKING = ResultPartitionType.BLOCKING
APPROXIMATE = ResultPartitionType.PIPELINED_APPROXIMATE


@st.composite
def job_graphs(draw: st.DrawFn) -> JobGraph:
    """Draw up to four vertices; each reads some earlier vertices by any partitioner."""
    mode = draw(st.sampled_from(ScheduleMode))
    kinds = [ResultPartitionType.PIPELINED_BOUNDED, BLOCKING]
    if mode is ScheduleMode.EAGER:
        # Either all exchanges are blocking or none is.
        kinds = [draw(st.sampled_from([ResultPartitionType.PIPELINED_BOUNDED, APPROXIMATE]))]
    names = "abcd"[: draw(st.integers(1, 4))]
    outputs = dict.fromkeys(names, 0)
    made = []
    for index, name in enumerate(names):
        edges = []
        for source in draw(st.lists(st.sampled_from(names[:index]), max_size=2)) if index else []:
            edges.append(
                JobEdge(
                    source=JobVertexId(source),
                    source_output=outputs[source],
                    ship_strategy=draw(st.sampled_from([ShipStrategy.RESCALE, ShipStrategy.REBALANCE])),
                    result_partition_type=draw(st.sampled_from(kinds)),
                )
            )
            outputs[source] += 1
        reads = tuple(edge.source for edge in edges)
        made.append(replace(vertex(name, draw(st.integers(1, 3)), reads=reads), inputs=tuple(edges)))
    vertices = [replace(each, outputs=(OperatorId(each.name),) * outputs[each.name]) for each in made]
    return replace(graph_of(*vertices, restart=GROWING, failover=FailoverStrategyKind.REGION), schedule_mode=mode)


class Job:
    """A graph, and an environment that fulfils its requests when the test says so."""

    def __init__(self, job_graph: JobGraph) -> None:
        self.graph = ExecutionGraph(job_graph, restart_strategy(job_graph.restart_strategy), now=0)
        self.now = 0
        self.owed: list[Event] = []
        self.deployed: list[ExecutionAttemptId] = []
        self.failures = 0
        self.tell(SchedulingRequested())

    def tell(self, event: Event) -> None:
        self.now += 1
        before, status = self.graph.number_of_restarts, self.graph.status
        versions = {execution.attempt for execution in self.graph.executions}
        effects = self.graph.handle(event, self.now)
        self.graph.check()
        assert self.graph.number_of_restarts <= before + 1 or status is not JobStatus.RUNNING
        assert len(versions) == sum(1 for _ in self.graph.executions)
        for effect in effects:
            self._note(effect)

    def _note(self, effect: Effect) -> None:
        match effect:
            case RequestSlots(requests=requests):
                for request in requests:
                    at = f"tm-{request.subtask}"
                    self.owed.append(SlotAllocated(attempts=(request.attempt,), slot=slot(request.attempt, at)))
            case AskForRestoreState(version=version):
                self.owed.append(RestoreStateReady(version=version, checkpoint_id=None, states={}))
            case RestartScheduled(version=version):
                self.owed.append(JobRestartDue(version=version))
            case DrawRestartDelay(version=version):
                self.owed.append(RestartDelayDrawn(version=version, chance=0.5))
            case Deploy(descriptor=descriptor):
                assert descriptor.attempt not in self.deployed, "an attempt is deployed once"
                self.deployed.append(descriptor.attempt)
            case JobStatusMoved():
                pass

    def pay(self, chosen: int) -> None:
        if self.owed:
            self.tell(self.owed.pop(chosen % len(self.owed)))

    def report(self, chosen: int, state: ExecutionState) -> None:
        executions = list(self.graph.executions)
        execution = executions[chosen % len(executions)]
        if execution.is_terminal or execution.slot is None or execution.state is ExecutionState.SCHEDULED:
            return
        if state is ExecutionState.FINISHED:
            self.tell(NotifyEndOfData(attempt=execution.attempt))
        cause = failure() if state is ExecutionState.FAILED else None
        self.tell(
            UpdateTaskExecutionState(state=TaskExecutionState(attempt=execution.attempt, state=state, failure=cause))
        )

    def lose(self, number: int) -> None:
        here = TaskManagerId(f"tm-{number}")
        attempts = tuple(each.attempt for each in self.graph.executions if is_at(each, here))
        self.tell(SlotsLost(attempts=attempts, cause=failure("lost"), task_manager_id=here))

    def settle(self) -> None:
        """Let everything succeed from now on: requests are fulfilled, running tasks finish, cancelled tasks end."""
        for _ in range(1_000):
            while self.owed:
                self.pay(0)
            busy = [execution for execution in self.graph.executions if not execution.is_terminal]
            ready = [execution for execution in busy if execution.attempt in self.deployed]
            if not ready:
                return
            ending = ready[0].state is ExecutionState.CANCELING
            self.report(
                list(self.graph.executions).index(ready[0]),
                ExecutionState.CANCELED if ending else ExecutionState.FINISHED,
            )
        raise AssertionError("the job does not come to its end")


def is_at(execution: Execution, task_manager: TaskManagerId) -> bool:
    is_there = execution.slot is not None and execution.slot.task_manager_id == task_manager
    return is_there and not execution.is_terminal


happenings = st.one_of(
    st.tuples(st.just("pay"), st.integers(0, 20)),
    st.tuples(st.just("pay"), st.integers(0, 20)),
    st.tuples(st.just("run"), st.integers(0, 12)),
    st.tuples(st.just("finish"), st.integers(0, 12)),
    st.tuples(st.just("fail"), st.integers(0, 12)),
    st.tuples(st.just("cancelled"), st.integers(0, 12)),
    st.tuples(st.just("lose"), st.integers(0, 2)),
    st.tuples(st.just("fail job"), st.just(0)),
)


@pytest.mark.slow
@given(job_graph=job_graphs(), happened=st.lists(happenings, max_size=40))
def test_a_job_terminates_once_failures_stop(job_graph: JobGraph, happened: list[tuple[str, int]]) -> None:
    job = Job(job_graph)

    happen(job, happened)
    job.settle()

    assert {execution.state for execution in job.graph.executions} == {ExecutionState.FINISHED}
    assert job.graph.status is JobStatus.RUNNING, "what is left is done once for each vertex"


@pytest.mark.slow
@given(job_graph=job_graphs(), happened=st.lists(happenings, max_size=40))
def test_a_job_can_be_cancelled_at_any_time(job_graph: JobGraph, happened: list[tuple[str, int]]) -> None:
    job = Job(job_graph)

    happen(job, happened)
    job.tell(CANCEL)
    job.settle()

    assert job.graph.status in (JobStatus.CANCELED, JobStatus.RUNNING)
    assert all(execution.is_terminal for execution in job.graph.executions)


def happen(job: Job, happened: list[tuple[str, int]]) -> None:
    """Apply the events in order; events that do not fit the state of their attempt are skipped."""
    for what, chosen in happened:
        match what:
            case "pay":
                job.pay(chosen)
            case "run":
                job.report(chosen, ExecutionState.RUNNING)
            case "finish":
                job.report(chosen, ExecutionState.FINISHED)
            case "fail":
                job.report(chosen, ExecutionState.FAILED)
            case "cancelled":
                executions = list(job.graph.executions)
                if executions[chosen % len(executions)].state is ExecutionState.CANCELING:
                    job.report(chosen, ExecutionState.CANCELED)
            case "lose":
                job.lose(chosen)
            case "fail job":
                job.tell(GlobalFailureReported(cause=failure("global")))
