"""Plans checkpoints: the tasks that one triggers, waits for and commits to.

Mirrors Flink's DefaultCheckpointPlanCalculator: a task that has FINISHED counts as acknowledged, every other one has
to be RUNNING. States come one by one, and whether a checkpoint can begin is known without looking at all tasks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, CheckpointFailure
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTask:
    """An attempt and its part: sources are triggered, `acknowledges` and `commits` say what else is expected."""

    attempt: ExecutionAttemptId
    vertex_id: JobVertexId
    subtask: int
    parallelism: int
    max_parallelism: int
    state: ExecutionState
    is_source: bool
    acknowledges: bool = True
    commits: bool = True
    name: str | None = None
    task_manager: str | None = None

    @property
    def where(self) -> str:
        """The name of the task and its TaskManager, as far as they are known."""
        return f"{self.name or self.attempt}{f' on {self.task_manager}' if self.task_manager else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPlan:
    """The tasks of one checkpoint, in the order in which the job names them. `finished` need not acknowledge."""

    to_trigger: tuple[ExecutionAttemptId, ...]
    to_wait_for: tuple[PlannedTask, ...]
    to_commit_to: tuple[ExecutionAttemptId, ...]
    finished: tuple[PlannedTask, ...]


class CheckpointPlanCalculator:
    def __init__(self) -> None:
        self._tasks: dict[ExecutionAttemptId, PlannedTask] = {}
        self._not_ready: set[ExecutionAttemptId] = set()
        self._finished = 0

    def __contains__(self, attempt: ExecutionAttemptId) -> bool:
        return attempt in self._tasks

    @property
    def blocking(self) -> tuple[PlannedTask, ...]:
        """The tasks that are not ready for a checkpoint, in the order in which the job names them."""
        return tuple(task for attempt, task in self._tasks.items() if attempt in self._not_ready)

    @property
    def can_trigger(self) -> bool:
        """True if there are tasks, each one runs or has finished, and at least one runs."""
        return not self._not_ready and self._finished < len(self._tasks)

    def task(self, attempt: ExecutionAttemptId) -> PlannedTask | None:
        return self._tasks.get(attempt)

    def failure_of(
        self, attempt: ExecutionAttemptId, reason: CheckpointDeclineReason, cause: SerializedThrowable | None
    ) -> CheckpointFailure:
        task = self._tasks.get(attempt)
        if task is None:
            return CheckpointFailure(reason=reason, cause=cause)
        return CheckpointFailure(reason=reason, cause=cause, task_name=task.name, task_manager=task.task_manager)

    def replace_tasks(self, tasks: Iterable[PlannedTask]) -> None:
        self._tasks = {}
        self._not_ready = set()
        self._finished = 0
        for task in tasks:
            self._enter(task)

    def set_state(self, attempt: ExecutionAttemptId, state: ExecutionState) -> None:
        former = self._tasks[attempt]
        self._not_ready.discard(attempt)
        self._finished -= former.state is ExecutionState.FINISHED
        self._enter(replace(former, state=state))

    def alive(self, attempts: Iterable[ExecutionAttemptId]) -> tuple[ExecutionAttemptId, ...]:
        """The tasks that still run: the others are over or belong to former attempts of the job."""
        return tuple(
            attempt
            for attempt in attempts
            if attempt in self._tasks and self._tasks[attempt].state is ExecutionState.RUNNING
        )

    def calculate(self) -> CheckpointPlan:
        """The plan of a checkpoint that begins now; `can_trigger` must hold."""
        assert self.can_trigger, "a checkpoint is planned only when its tasks run"
        tasks = self._tasks.values()
        running = [task for task in tasks if task.state is ExecutionState.RUNNING]
        return CheckpointPlan(
            to_trigger=tuple(task.attempt for task in running if task.is_source),
            to_wait_for=tuple(task for task in running if task.acknowledges),
            to_commit_to=tuple(task.attempt for task in running if task.commits),
            finished=tuple(task for task in tasks if task.acknowledges and task.state is ExecutionState.FINISHED),
        )

    def _enter(self, task: PlannedTask) -> None:
        self._tasks[task.attempt] = task
        is_required = task.is_source or task.acknowledges
        match task.state:
            case ExecutionState.RUNNING:
                pass
            case ExecutionState.FINISHED:
                self._finished += 1
            case _ if is_required:
                self._not_ready.add(task.attempt)
            case _:
                pass
