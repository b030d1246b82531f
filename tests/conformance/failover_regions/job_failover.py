"""Words of area 04 for the failover of a running job, translated to events of the ExecutionGraph.

The adapter simulates the slots (as many as are requested), the coordinator (which never has a checkpoint) and the
restart timer, which fires at once unless the case delays it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flykka.actors.machines.graph.events import (
    AskForRestoreState,
    Effect,
    Event,
    FinalizeVertices,
    GlobalFailureReported,
    JobStatusMoved,
    RestartScheduled,
    RestoreStateReady,
    SchedulingRequested,
)
from flykka.actors.machines.graph.execution import Execution
from flykka.actors.machines.graph.execution_graph import ExecutionGraph
from flykka.actors.machines.restart.restart_strategy import FixedDelayRestartStrategy
from flykka.actors.machines.slots.slot_requests import RequestSlots, SlotAllocated
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import JobRestartDue, JobVerticesFinalized
from flykka.messages.graph.job_graph import FailoverStrategyKind, JobGraph, ScheduleMode
from flykka.messages.tasks.task import ExecutionState, TaskExecutionState, UpdateTaskExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobVertexId, partition_id
from tests.actors.machines.graph.graphs import CANCEL, JOB, failure, slot
from tests.conformance.case_files import UnknownWordError, only_known_words
from tests.conformance.failover_regions.topologies import job_graph_of

_SCHEDULES = {
    "lazy": ScheduleMode.LAZY_FROM_SOURCES,
    "eager": ScheduleMode.EAGER,
    "by region": ScheduleMode.PIPELINED_REGION,
}
_RESTARTS = {"fixed-delay", "none", "held back", "raises once"}


class JobFailover:
    def __init__(self, given: Mapping[str, Any]) -> None:
        only_known_words("given", given, {"tasks", "edges", "schedule", "restart"})
        restart = given.get("restart", "fixed-delay")
        if restart not in _RESTARTS or given["schedule"] not in _SCHEDULES:
            raise UnknownWordError(f"restart {restart!r}, schedule {given['schedule']!r}")
        graph, self._places = _job(given["tasks"], given["edges"])
        graph = replace(
            graph, failover_strategy=FailoverStrategyKind.REGION, schedule_mode=_SCHEDULES[given["schedule"]]
        )
        strategy = FixedDelayRestartStrategy(attempts=0 if restart == "none" else 10, delay_ms=0)
        self.graph = ExecutionGraph(graph, strategy, now=0)
        self._now = 0
        self._holds_timers = restart == "held back"
        self._raises = restart == "raises once"
        self._timers: list[int] = []
        self._effects: list[Effect] = []
        self._before: dict[str, int] = {}
        self._awaited: set[str] = set()

    def do(self, step: Mapping[str, Any]) -> None:
        only_known_words("step", step, {"do", "task", "cause", "want"})
        self._before = {name: self._execution(name).number for name in self._places}
        self._awaited.clear()
        match step["do"]:
            case "start" | "deploy_all":
                self._tell(SchedulingRequested())
            case "fail" | "late_failure_report":
                self._report(step["task"], ExecutionState.FAILED, self._cause(step.get("cause", "task error")))
            case "finish":
                self._report(step["task"], ExecutionState.FINISHED)
            case "cancel_done":
                names = list(self._places) if step["task"] == "*" else [step["task"]]
                for name in names:
                    if self._execution(name).state is ExecutionState.CANCELING:
                        self._report(name, ExecutionState.CANCELED)
            case "fail_global":
                self._tell(GlobalFailureReported(cause=failure("global")))
            case "cancel_job":
                self._tell(CANCEL)
            case "hold_cancellation":
                self._holds_timers = True
            case "release_cancellation":
                self._holds_timers = False
                self._fire()
            case unknown:
                raise UnknownWordError(unknown)

    # The environment

    def _tell(self, event: Event) -> None:
        self._now += 1
        effects = self.graph.handle(event, self._now)
        self.graph.check()
        self._effects += effects
        for effect in effects:
            match effect:
                case RequestSlots(requests=requests):
                    for request in requests:
                        self._tell(SlotAllocated(attempts=(request.attempt,), slot=slot(request.attempt)))
                case AskForRestoreState(version=version) if self._raises and version > 1:
                    self._raises = False
                    self._tell(GlobalFailureReported(cause=failure("the restart raises")))
                case AskForRestoreState(version=version):
                    self._tell(RestoreStateReady(version=version, checkpoint_id=None, states={}))
                case FinalizeVertices(version=version):
                    self._tell(JobVerticesFinalized(job_id=JOB, version=version))
                case RestartScheduled(version=version, tasks=tasks):
                    self._awaited |= set(tasks)
                    self._timers.append(version)
                    # Only the failover of a region is delayed, not that of the whole job.
                    if not self._holds_timers or self.graph.status is JobStatus.RESTARTING:
                        self._fire(version)

    def _fire(self, only: int | None = None) -> None:
        due = [version for version in self._timers if only in (None, version)]
        self._timers = [version for version in self._timers if version not in due]
        for version in due:
            self._tell(JobRestartDue(version=version))

    def _cause(self, words: Any) -> SerializedThrowable:
        match words:
            case "task error":
                return failure()
            case {"cannot_read_partition": [str(producer), str(consumer)]}:
                [edge] = [
                    edge
                    for edge in self.graph.subtask(*self._places[consumer]).job_vertex.inputs
                    if edge.source == self._places[producer][0]
                ]
                lost = partition_id(self._execution(producer).attempt, edge.source_output)
                return replace(failure(), lost_partition=lost)
            case unknown:
                raise UnknownWordError(f"cause {unknown}")

    def _report(self, name: str, state: ExecutionState, cause: SerializedThrowable | None = None) -> None:
        update = TaskExecutionState(attempt=self._execution(name).attempt, state=state, failure=cause)
        self._tell(UpdateTaskExecutionState(state=update))

    def _restarts(self, name: str, number: int) -> bool:
        return self._execution(name).number > number or self.graph.subtask(*self._places[name]).name in self._awaited

    def _execution(self, name: str) -> Execution:
        return self.graph.subtask(*self._places[name]).execution

    # Observations

    def holds(self, word: str, wanted: Any) -> bool:
        match word:
            case "states":
                return {name: self._execution(name).state for name in wanted} == wanted
            case "attempts":
                return {name: self._execution(name).number for name in wanted} == wanted
            case "job_state":
                return self.graph.status == wanted
            case "number_of_restarts":
                return self.graph.number_of_restarts == int(wanted)
            case "restarted":
                again = [name for name, number in self._before.items() if self._restarts(name, number)]
                return sorted(again) == sorted(wanted)
            case "queued_restarts":
                return len(self._timers) == int(wanted)
            case "live_executions":
                return self.graph.live_attempts == int(wanted)
            case "global_failover_started":
                moves = [effect.status for effect in self._effects if isinstance(effect, JobStatusMoved)]
                return (JobStatus.FAILING in moves) is wanted
            case unknown:
                raise UnknownWordError(unknown)


def _job(tasks: list[str], edges: list[list[str]]) -> tuple[JobGraph, dict[str, tuple[JobVertexId, int]]]:
    """Return the job of these tasks, and the vertex and subtask of each task: `v21` is the first subtask of `v2`, if
    the edges allow that.
    """
    subtasks: dict[str, list[str]] = {}
    for task in tasks:
        subtasks.setdefault(task[:-1], []).append(task)
    kinds: dict[tuple[str, str], set[str]] = {}
    pairs: dict[tuple[str, str], set[tuple[int, int]]] = {}
    for producer, consumer, kind in edges:
        ends = producer[:-1], consumer[:-1]
        pair = subtasks[ends[0]].index(producer), subtasks[ends[1]].index(consumer)
        kinds.setdefault(ends, set()).add(kind)
        pairs.setdefault(ends, set()).add(pair)
    connections = []
    for ends, found in pairs.items():
        sizes = tuple(len(subtasks[end]) for end in ends)
        every = {(one, other) for one in range(sizes[0]) for other in range(sizes[1])}
        if len(kinds[ends]) == 1 and (found == every or found == {(each, each) for each in range(sizes[0])}):
            connections.append([*ends, "all" if found == every else "pointwise", *kinds[ends]])
        else:
            raise UnknownWordError(f"edges {edges}: they are neither all-to-all nor point-wise")
    places = {task: (JobVertexId(name), at) for name, group in subtasks.items() for at, task in enumerate(group)}
    return job_graph_of({name: len(group) for name, group in subtasks.items()}, connections), places
