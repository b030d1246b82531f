"""Sends all actors of a job a request for their state at once, each with a time limit.

This runs on the caller's thread, never in an actor: if an actor or all threads of the dispatcher hang, the reports of
the other actors must still arrive. The list of actors is read directly from the living cells.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from flykka.actors.checkpoint_coordinator.actor import CheckpointCoordinator
from flykka.actors.execution_graph_info_store.actor import ExecutionGraphInfoStoreActor
from flykka.actors.job_manager.actor import JobManager
from flykka.actors.job_master.actor import JobMaster
from flykka.actors.resource_manager.actor import ResourceManager
from flykka.actors.task.actor import Task
from flykka.diagnosis.reports import ActorReports, UnresponsiveActor
from flykka.messages.monitoring.explanation import (
    CheckpointsExplained,
    ExplainCheckpoints,
    ExplainJob,
    ExplainLeadership,
    ExplainSlots,
    ExplainStages,
    ExplainTask,
    JobExplained,
    LeadershipExplained,
    SlotsExplained,
    StageProgress,
    StagesExplained,
    TaskExplained,
)
from flykka.messages.monitoring.job_details import JobDetails, RequestJobDetails
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.ids import ExecutionAttemptId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.cell.cell import Cell
from flykka.runtime.errors import ActorDeadError, AskFailedError, AskTimeoutError
from flykka.runtime.system import ActorSystem

TIME_LIMIT = 2.0
"""Seconds within which each actor has to reply."""

ASKED_TASKS = 2_000
"""The maximum number of Tasks that receive a request. More are not needed to find the cause of a delay."""

A = TypeVar("A", bound=Message)


@dataclass(frozen=True, slots=True)
class _Asked:
    cell: Cell
    name: str
    future: Any
    attempt: ExecutionAttemptId | None = None


def collect_reports(system: ActorSystem, details: JobDetails, time_limit: float = TIME_LIMIT) -> ActorReports:
    """Request reports from a job's actors, each within `time_limit` seconds. Takes at most twice that time.

    `details` are the last ones known to the client. They are used if no actor replies.
    """
    return _Collection(system, details, time_limit).reports()


class _Collection:
    def __init__(self, system: ActorSystem, details: JobDetails, time_limit: float) -> None:
        self._system = system
        self._details = details
        self._time_limit = time_limit
        self._unresponsive: list[UnresponsiveActor] = []

    def reports(self) -> ActorReports:
        cells = list(self._system.cells.living())
        job_id = self._details.job_id
        job_master = _first(cell for cell in cells if _is(cell, JobMaster) and cell.name == f"job-{job_id}")
        coordinator = _first(cell for cell in cells if _is(cell, CheckpointCoordinator) and cell.parent is job_master)
        tasks = [cell for cell in cells if _is(cell, Task) and _descriptor(cell).job_id == job_id][:ASKED_TASKS]
        requests = {
            "leadership": self._ask_one(
                cells, JobManager, "the JobManager", lambda me: ExplainLeadership(reply_to=me, job_id=job_id)
            ),
            "slots": self._ask_one(cells, ResourceManager, "the ResourceManager", lambda me: ExplainSlots(reply_to=me)),
            "details": self._ask_one(
                cells,
                ExecutionGraphInfoStoreActor,
                "the ExecutionGraphInfoStore",
                lambda me: RequestJobDetails(job_id=job_id, reply_to=me, checkpoints=0),
            ),
            "job": self._ask(job_master, "the JobMaster", lambda me: ExplainJob(reply_to=me)),
            "checkpoints": self._ask(
                coordinator, "the CheckpointCoordinator", lambda me: ExplainCheckpoints(reply_to=me)
            ),
        }
        asked_tasks = [
            self._ask(task, _task_name(task), lambda me: ExplainTask(reply_to=me), _descriptor(task).attempt)
            for task in tasks
        ]
        deadline = time.monotonic() + self._time_limit
        parts = {part: self._answer(question, deadline) for part, question in requests.items()}
        answers = [self._answer(question, deadline) for question in asked_tasks]
        explained = {answer.attempt: answer for answer in answers if isinstance(answer, TaskExplained)}
        return ActorReports(
            details=_of(JobDetails, parts["details"]) or self._details,
            now_ms=self._system.clock.now_ms(),
            leadership=_of(LeadershipExplained, parts["leadership"]),
            job=_of(JobExplained, parts["job"]),
            checkpoints=_of(CheckpointsExplained, parts["checkpoints"]),
            slots=_of(SlotsExplained, parts["slots"]),
            tasks=explained,
            stages=self._stages(tasks, explained),
            unresponsive=tuple(self._unresponsive),
            time_limit_ms=round(self._time_limit * 1000),
        )

    def _stages(
        self, tasks: list[Cell], explained: dict[ExecutionAttemptId, TaskExplained]
    ) -> dict[ExecutionAttemptId, tuple[StageProgress, ...]]:
        """Collect the stages that bridges report. A bridge that does not reply is ignored."""
        by_parent = {cell.parent: cell for cell in self._system.cells.living() if cell.parent in set(tasks)}
        requests: list[_Asked | None] = []
        for task in tasks:
            explanation = explained.get(_descriptor(task).attempt)
            if task in by_parent and (explanation is None or _may_be_at_work(explanation)):
                requests.append(self._ask(by_parent[task], "its bridge", lambda me: ExplainStages(reply_to=me)))
        deadline = time.monotonic() + self._time_limit
        replies = [_reply(question, deadline) for question in requests if question is not None]
        return {each.attempt: each.stages for each in replies if isinstance(each, StagesExplained)}

    def _ask_one(self, cells: list[Cell], actor: type, name: str, question: Callable[[Ref], Message]) -> _Asked | None:
        return self._ask(_first(cell for cell in cells if _is(cell, actor)), name, question)

    def _ask(
        self,
        cell: Cell | None,
        name: str,
        question: Callable[[Ref], Message],
        attempt: ExecutionAttemptId | None = None,
    ) -> _Asked | None:
        if cell is None:
            return None
        future = cell.ref.ask(question, block=False, timeout=self._time_limit)
        return _Asked(cell, name, future, attempt)

    def _answer(self, request: _Asked | None, deadline: float) -> Message | None:
        """Return the reply, or None if the actor has ended or has not replied. A missing reply is recorded."""
        if request is None:
            return None
        reply = _reply(request, deadline)
        if isinstance(reply, AskTimeoutError):
            cell = request.cell
            waiting = max(0, len(cell.mailbox.messages) - 1)  # This excludes the request itself.
            self._unresponsive.append(
                UnresponsiveActor(name=request.name, handles=cell.handles, waiting=waiting, attempt=request.attempt)
            )
            return None
        return reply if isinstance(reply, Message) else None


def _reply(request: _Asked, deadline: float) -> object:
    try:
        return request.future.get(timeout=max(0.0, deadline - time.monotonic()))
    except AskTimeoutError as late:
        return late
    except (ActorDeadError, AskFailedError):
        return None


def _may_be_at_work(task: TaskExplained) -> bool:
    return bool(task.stages or task.snapshotting or task.ending) or task.activity == "not running"


def _is(cell: Cell, actor: type) -> bool:
    return cell.props.actor_class is actor


def _descriptor(task: Cell) -> TaskDeploymentDescriptor:
    descriptor: TaskDeploymentDescriptor = task.props.args[0]
    return descriptor


def _task_name(task: Cell) -> str:
    descriptor = _descriptor(task)
    return f"{descriptor.vertex.name} ({descriptor.subtask + 1}/{descriptor.vertex.parallelism})"


def _first(cells: Iterator[Cell]) -> Cell | None:
    return next(cells, None)


def _of(kind: type[A], answer: Message | None) -> A | None:
    return answer if isinstance(answer, kind) else None
