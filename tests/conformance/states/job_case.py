"""Words of area 05 for a job, translated to events of the ExecutionGraph.

The adapter simulates the slot pool (as many slots as the case has, unlimited by default), the coordinator (which never
has a checkpoint) and the restart timer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flykka.actors.machines.effects import Tell
from flykka.actors.machines.graph.events import (
    AskForRestoreState,
    Deploy,
    Effect,
    Event,
    FinalizeVertices,
    GlobalFailureReported,
    RestartScheduled,
    RestoreStateReady,
    SchedulingRequested,
)
from flykka.actors.machines.graph.execution import Execution
from flykka.actors.machines.graph.execution_graph import ExecutionGraph
from flykka.actors.machines.graph.execution_job_vertex import ExecutionVertex
from flykka.actors.machines.restart.restart_strategy import FixedDelayRestartStrategy
from flykka.actors.machines.slots.slot_requests import (
    RequestSlots,
    ReturnSlot,
    SlotAllocated,
    SlotAllocationFailed,
    SlotRequest,
    SlotsLost,
)
from flykka.messages.control.job_control import JobRestartDue, JobVerticesFinalized
from flykka.messages.graph.job_graph import JobEdge, JobVertex, ScheduleMode, ShipStrategy
from flykka.messages.tasks.task import (
    CancelTask,
    ExecutionState,
    PartitionProducerState,
    RequestPartitionProducerState,
    TaskExecutionState,
    UpdateTaskExecutionState,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId, partition_id
from tests.actors.machines.graph.graphs import CANCEL, JOB, failure, graph_of, slot, vertex
from tests.conformance.case_files import UnknownWordError, only_known_words

_GIVEN = {"component", "vertices", "restart", "connections", "slots", "slot_sharing"}
_STEP = {"do", "want", "task", "attempt", "cause", "producer_attempt", "slots"}
_NO_SLOTS = {"pending", "never arrive", "never come"}
_RESTARTS = re.compile(
    r"allows(?: (?P<times>once|twice|(?P<number>\d+) times?))?"
    r"(?:, (?:restarts at once|(?:the )?restart fires by hand|delay never ends))?"
)
_PATTERNS = {"pointwise": ShipStrategy.RESCALE, "all-to-all": ShipStrategy.REBALANCE}


_Place = tuple[str, int]
"""The key of a shared slot: a sharing group, and the index of the subtasks that share the slot."""


class JobCase:
    def __init__(self, given: Mapping[str, Any], *, is_since_1_11: bool) -> None:
        """Since Flink 1.11 regions are deployed one by one, and slot requests wait. Before, a request without a slot
        was refused.
        """
        only_known_words("given", given, _GIVEN)
        restart = given.get("restart", {"type": "none"})
        only_known_words("restart", restart, {"type", "attempts", "delay_ms", "restarts at once"})
        self._at_once = restart.get("restarts at once", "at once" in restart["type"]) or restart.get("delay_ms") == 0
        self._strategy = FixedDelayRestartStrategy(_attempts(restart), restart.get("delay_ms", 1))
        job_graph = graph_of(*_vertices(given))
        if is_since_1_11:
            job_graph = replace(job_graph, schedule_mode=ScheduleMode.PIPELINED_REGION)
        self.graph = ExecutionGraph(job_graph, self._strategy, now=1)
        self._now = 1
        self._unserved_requests_wait = is_since_1_11
        self._have_slots(given.get("slots", 1_000_000))
        self._held: dict[_Place, list[ExecutionAttemptId]] = {}
        self._pending: dict[_Place, list[ExecutionAttemptId]] = {}
        self._released: set[_Place] = set()
        self._restarts: list[int] = []
        self._finalized: Counter[str] = Counter()
        self._error = False
        self._effects: list[Effect] = []
        self._before = (0, 0)
        self._addressed: dict[str, Execution] = {}

    def do(self, step: Mapping[str, Any]) -> None:
        only_known_words("step", step, _STEP)
        self._now += 1
        self._before = (self.graph.version, self._rpcs())
        self._error = False
        match step["do"]:
            case "schedule":
                if "slots" in step:
                    self._have_slots(step["slots"])
                self._tell(SchedulingRequested())
            case "cancel":
                self._tell(CANCEL)
            case "fail_global":
                self._tell(GlobalFailureReported(cause=_cause(step)))
            case "fail_global_if_running":
                self._tell(GlobalFailureReported(cause=_cause(step), attempt=self._earlier(step).attempt))
            case "lose_task_manager":
                lost = tuple(attempt for attempts in self._held.values() for attempt in attempts)
                self._tell(SlotsLost(attempts=lost, cause=failure("lost")))
            case "restart_fires":
                self._fire_restarts()
            case "all_running":
                # From now on the case refers to these attempts, whatever became of earlier attempts.
                self._addressed.clear()
                self._report_all(ExecutionState.DEPLOYING, ExecutionState.RUNNING)
            case "all_cancelled":
                self._report_all(ExecutionState.CANCELING, ExecutionState.CANCELED)
            case "finish_all":
                # A task may finish before it is reported as running.
                self._report_all(ExecutionState.DEPLOYING, ExecutionState.FINISHED)
                self._report_all(ExecutionState.RUNNING, ExecutionState.FINISHED)
            case "report_running" | "switch_to_running":
                self._report(self._reporting(step["task"]), ExecutionState.RUNNING)
            case "finish_task" | "report_finished":
                self._report(self._task(step["task"]).execution, ExecutionState.FINISHED)
            case "fail_task":
                self._addressed[step["task"]] = self._task(step["task"]).execution
                self._report(self._addressed[step["task"]], ExecutionState.FAILED, _cause(step))
            case "cancel_task":
                self._cancel_task(step["task"])
            case "report_canceled":
                self._report(self._reporting(step["task"]), ExecutionState.CANCELED)
            case "report_failed":
                self._report(self._reporting(step["task"]), ExecutionState.FAILED, _cause(step))
            case "fail_attempt":
                self._report(self._earlier(step), ExecutionState.FAILED, _cause(step))
            case "data_available_report":
                self._report_data(step["producer_attempt"])
            case unknown:
                raise UnknownWordError(unknown)

    # The environment

    def _have_slots(self, slots: Any) -> None:
        if not isinstance(slots, int) and slots not in _NO_SLOTS:
            raise UnknownWordError(f"slots {slots!r}")
        self._slots_left = 0 if slots in _NO_SLOTS else slots
        self._unserved_requests_wait |= slots in _NO_SLOTS

    def _tell(self, event: Event) -> None:
        self._surround(self.graph.handle(event, self._now))
        self.graph.check()

    def _surround(self, effects: list[Effect]) -> None:
        self._effects += effects
        for effect in effects:
            match effect:
                case RequestSlots(requests=requests):
                    self._serve(requests)
                case ReturnSlot(attempt=attempt):
                    self._take_back(attempt)
                case AskForRestoreState(version=version):
                    self._tell(RestoreStateReady(version=version, checkpoint_id=None, states={}))
                case FinalizeVertices(version=version, vertices=vertices):
                    self._finalized.update(vertex.name for vertex in vertices)
                    self._tell(JobVerticesFinalized(job_id=JOB, version=version))
                case Tell(message=PartitionProducerState() as answer):
                    self._error = answer.failure is not None
                case RestartScheduled(version=version):
                    self._restarts.append(version)
                    if self._at_once:
                        self._fire_restarts()

    def _serve(self, requests: tuple[SlotRequest, ...]) -> None:
        for place in dict.fromkeys(map(_place, requests)):
            attempts = tuple(request.attempt for request in requests if _place(request) == place)
            if self._slots_left > 0:
                self._slots_left -= 1
                self._held[place] = [*attempts]
                self._tell(SlotAllocated(attempts=attempts, slot=slot(f"{place}")))
            elif self._unserved_requests_wait:
                self._pending[place] = [*attempts]
            else:
                self._tell(SlotAllocationFailed(attempts=attempts, cause=failure("no resource available")))

    def _take_back(self, attempt: ExecutionAttemptId) -> None:
        for places in (self._held, self._pending):
            for place, attempts in [*places.items()]:
                if attempt in attempts:
                    attempts.remove(attempt)
                if not attempts:
                    del places[place]
                    self._slots_left += places is self._held
                    self._released.add(place)

    def _fire_restarts(self) -> None:
        due, self._restarts = self._restarts, []
        for version in due:
            self._tell(JobRestartDue(version=version))

    # The tasks

    def _tasks(self) -> list[ExecutionVertex]:
        return [
            self.graph.subtask(each.vertex_id, subtask)
            for each in self.graph.job_graph.vertices
            for subtask in range(each.parallelism)
        ]

    def _task(self, name: str) -> ExecutionVertex:
        vertex_id, _, subtask = name.rpartition("_")
        return self.graph.subtask(JobVertexId(vertex_id), int(subtask))

    def _reporting(self, name: str) -> Execution:
        return self._addressed.get(name, self._task(name).execution)

    def _earlier(self, step: Mapping[str, Any]) -> Execution:
        return self._attempt(step["task"], step["attempt"])

    def _attempt(self, name: str, number: int) -> Execution:
        task = self._task(name)
        return next(execution for execution in (*task.prior, task.execution) if execution.number == number)

    def _cancel_task(self, name: str) -> None:
        # Only this task is cancelled, so the graph must handle the consequences.
        execution = self._task(name).execution
        self._addressed[name] = execution
        self._surround(self.graph._perform(execution.cancel(self._now), self._now))

    def _report_all(self, standing: ExecutionState, reported: ExecutionState) -> None:
        for task in self._tasks():
            if task.execution.state is standing:
                self._report(task.execution, reported)

    def _report(self, execution: Execution, state: ExecutionState, cause: SerializedThrowable | None = None) -> None:
        update = TaskExecutionState(attempt=execution.attempt, state=state, failure=cause)
        self._tell(UpdateTaskExecutionState(state=update))

    def _report_data(self, producer: str) -> None:
        """Report data of a task. Its consumers are running, so the reply to the report is the producer's state."""
        tasks = self._tasks()
        names = {f"{task.job_vertex.vertex_id}_{task.subtask}": task.execution.attempt for task in tasks}
        attempt = names.get(producer, ExecutionAttemptId(f"{JOB}_{producer}_0_0"))
        asking = next(task.execution.attempt for task in tasks if not task.execution.is_terminal)
        self._tell(RequestPartitionProducerState(attempt=asking, partition_id=partition_id(attempt, 0)))

    # Observations

    def _rpcs(self) -> int:
        return self._cancelled() + sum(isinstance(effect, Deploy) for effect in self._effects)

    def _cancelled(self) -> int:
        messages = (effect.message for effect in self._effects if isinstance(effect, Tell))
        return sum(isinstance(message, CancelTask) for message in messages)

    def see(self, word: str) -> Any:
        version, rpcs = self._before
        match word:
            case "job":
                return self.graph.status
            case "version":
                return self.graph.version
            case "version_changed":
                return self.graph.version != version
            case "new_rpcs":
                return self._rpcs() - rpcs
            case "cancel_rpcs":
                return self._cancelled()
            case "failure_cause":
                return self.graph.failure_cause.message if self.graph.failure_cause else None
            case "registered_executions":
                return self.graph.live_attempts
            case "queued_restarts":
                return len(self._restarts)
            case "pending_slot_requests":
                return len(self._pending)
            case "number_of_restarts":
                return self.graph.number_of_restarts
            case "restart_attempts_used":
                return self._strategy.attempts_used
            case "local_failovers":
                # Restart-all has no local failover, because every failure is a failure of the job.
                return 0
            case unknown:
                raise UnknownWordError(unknown)

    def holds(self, word: str, wanted: Any) -> bool:
        match word:
            case "all_wants_hold":
                return True
            case "all_tasks":
                return {task.execution.state for task in self._tasks()} == {ExecutionState(wanted)}
            case "states":
                return all(self._task(name).execution.state == state for name, state in wanted.items())
            case "finalize_calls" if isinstance(wanted, int):
                return self._finalized.total() == wanted
            case "finalize_calls":
                return {name: self._finalized[name] for name in wanted} == wanted
            case "error":
                return self._error is bool(wanted)
            case "number_of_restarts_at_most":
                return self.graph.number_of_restarts <= int(wanted)
            case "state_of_attempt":
                return all(self._state_of(attempt) == state for attempt, state in wanted.items())
            case "slot_released":
                requests = {(task.job_vertex.slot_sharing_group, task.subtask) for task in map(self._task, wanted)}
                return requests <= self._released
            case _ if word.startswith("state_of_") and word.endswith("_one_of"):
                task = self._task(word.removeprefix("state_of_").removesuffix("_one_of"))
                return str(task.execution.state) in list(wanted)
            case _:
                return bool(self.see(word) == wanted)

    def _state_of(self, attempt: str) -> ExecutionState:
        name, _, number = attempt.partition("/")
        return self._attempt(name, int(number)).state


def _vertices(given: Mapping[str, Any]) -> list[JobVertex]:
    if given.get("slot_sharing", "one group") != "one group":
        raise UnknownWordError(f"slot_sharing {given['slot_sharing']!r}")
    connections = given.get("connections", ())
    if unknown := {pattern for _, _, pattern in connections} - _PATTERNS.keys():
        raise UnknownWordError(f"connections {sorted(unknown)}")
    read = {source for source, _, _ in connections}
    vertices = [
        vertex(name, parallelism, outputs=int(name in read), group="default" if "slot_sharing" in given else name)
        for name, parallelism in given["vertices"].items()
    ]
    return [replace(each, inputs=_inputs(each.name, connections)) for each in vertices]


def _inputs(name: str, connections: Sequence[Sequence[str]]) -> tuple[JobEdge, ...]:
    return tuple(
        JobEdge(source=JobVertexId(source), source_output=0, ship_strategy=_PATTERNS[pattern])
        for source, target, pattern in connections
        if target == name
    )


def _attempts(restart: Mapping[str, Any]) -> int | None:
    """Return the number of restarts of a strategy that is described in words; None is unlimited."""
    words = restart["type"]
    if words == "fixed-delay":
        return int(restart["attempts"])
    if words == "none":
        return 0
    found = _RESTARTS.fullmatch(words)
    if found is None:
        raise UnknownWordError(f"restart {words!r}")
    if found["number"]:
        return int(found["number"])
    return {"once": 1, "twice": 2}.get(found["times"] or "")


def _place(request: SlotRequest) -> _Place:
    return request.slot_sharing_group, request.subtask


def _cause(step: Mapping[str, Any]) -> SerializedThrowable:
    message = step.get("cause", step["do"])
    return failure(message, suppress_restarts=message == "unrecoverable")
