"""The Tasks of a TaskManager: where each attempt is found, and whether it has told how it ended."""

from __future__ import annotations

import re
from dataclasses import dataclass

from flykka.actors.graph.states import EXECUTION_TERMINAL
from flykka.messages.ids import ExecutionAttemptId, JobId
from flykka.messages.ref import Ref
from flykka.messages.task import TaskDeploymentDescriptor, TaskExecutionState

_NAME_LENGTH = 40


@dataclass(slots=True)
class RunningTask:
    """The Task of one attempt."""

    attempt: ExecutionAttemptId
    job_id: JobId
    reported_its_end: bool = False


class RunningTasks:
    """The Tasks by attempt and by ref."""

    def __init__(self) -> None:
        self._refs: dict[ExecutionAttemptId, Ref] = {}
        self._tasks: dict[Ref, RunningTask] = {}
        self._named = 0

    def __contains__(self, key: ExecutionAttemptId | Ref) -> bool:
        return key in self._tasks if isinstance(key, Ref) else key in self._refs

    def find(self, attempt: ExecutionAttemptId) -> Ref | None:
        """The Task of this attempt, if it runs here."""
        return self._refs.get(attempt)

    def new_name(self, descriptor: TaskDeploymentDescriptor) -> str:
        """A name that says what the task does and is used once: `map-sink-0.1-7` is attempt 1 of subtask 0."""
        self._named += 1
        words = re.sub(r"[^a-z0-9]+", "-", descriptor.vertex.name.lower()).strip("-")[:_NAME_LENGTH] or "task"
        return f"{words}-{descriptor.subtask}.{descriptor.attempt_number}-{self._named}"

    def add(self, descriptor: TaskDeploymentDescriptor, task: Ref) -> None:
        """The attempt runs in this Task."""
        self._refs[descriptor.attempt] = task
        self._tasks[task] = RunningTask(descriptor.attempt, descriptor.job_id)

    def note(self, reached: TaskExecutionState) -> None:
        """The attempt has told its JobMaster of a new state."""
        task = self._refs.get(reached.attempt)
        if task is not None and reached.state in EXECUTION_TERMINAL:
            self._tasks[task].reported_its_end = True

    def remove(self, task: Ref) -> RunningTask:
        """The Task has ended."""
        ended = self._tasks.pop(task)
        del self._refs[ended.attempt]
        return ended
