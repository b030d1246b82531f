"""Pending checkpoints, which have begun and are not complete, and a record of recently ended checkpoints.

Mirrors Flink's PendingCheckpoint. The ids of recent checkpoints and the attempts that acknowledged them distinguish
late acknowledgements from duplicates (Flink's recentPendingCheckpoints).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from flykka.actors.machines.checkpoint.properties import CheckpointProperties
from flykka.actors.machines.state.handles import exclusive_state
from flykka.actors.machines.states import next_phase
from flykka.messages.checkpointing.checkpoint import (
    CheckpointDeclineReason,
    CheckpointFailure,
    CheckpointMetrics,
    CompletedCheckpoint,
    MasterState,
    OperatorCoordinatorState,
    OperatorEventInFlight,
    OperatorMetadata,
    TaskStateEntry,
)
from flykka.messages.graph.job_graph import SessionSetting
from flykka.messages.monitoring.explanation import CheckpointsExplained, PendingExplained
from flykka.messages.state.handles import ExclusiveStateHandle, TaskStateSnapshot
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, JobVertexId, OperatorId


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTask:
    """An attempt and its part in checkpoints: only sources are triggered, and some do not acknowledge or commit."""

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
        return f"{self.name or self.attempt}{f' on {self.task_manager}' if self.task_manager else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPlan:
    """The tasks of one checkpoint, in the order of the job. `finished` tasks need not acknowledge."""

    to_trigger: tuple[ExecutionAttemptId, ...]
    to_wait_for: tuple[PlannedTask, ...]
    to_commit_to: tuple[ExecutionAttemptId, ...]
    finished: tuple[PlannedTask, ...]


class CheckpointPlanCalculator:
    """Plans checkpoints: the tasks to trigger, to wait for and to commit to.

    Mirrors Flink's DefaultCheckpointPlanCalculator: a task that has FINISHED counts as acknowledged, and every other
    task has to be RUNNING. States arrive one by one and are counted, so that `can_trigger` need not iterate over all
    tasks.
    """

    def __init__(self) -> None:
        self._tasks: dict[ExecutionAttemptId, PlannedTask] = {}
        self._not_ready: set[ExecutionAttemptId] = set()
        self._finished = 0

    def __contains__(self, attempt: ExecutionAttemptId) -> bool:
        return attempt in self._tasks

    @property
    def blocking(self) -> tuple[PlannedTask, ...]:
        return tuple(task for attempt, task in self._tasks.items() if attempt in self._not_ready)

    @property
    def can_trigger(self) -> bool:
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
        return tuple(
            attempt
            for attempt in attempts
            if attempt in self._tasks and self._tasks[attempt].state is ExecutionState.RUNNING
        )

    def calculate(self) -> CheckpointPlan:
        """Return the plan of a checkpoint that begins now. `can_trigger` must hold."""
        assert self.can_trigger, "a checkpoint is planned although it cannot be triggered"
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


RECENT_CHECKPOINTS = 16


class TaskAcknowledgeResult(Enum):
    """The result of an acknowledgement: accepted, a duplicate, for an unknown checkpoint, or too late."""

    SUCCESS = auto()
    DUPLICATE = auto()
    UNKNOWN = auto()
    DISCARDED = auto()


class PendingPhase(Enum):
    COORDINATORS = auto()
    MASTER_HOOKS = auto()
    TASKS = auto()
    METADATA = auto()


PENDING_MOVES: dict[PendingPhase, tuple[PendingPhase, ...]] = {
    PendingPhase.COORDINATORS: (PendingPhase.MASTER_HOOKS,),
    PendingPhase.MASTER_HOOKS: (PendingPhase.TASKS,),
    PendingPhase.TASKS: (PendingPhase.METADATA,),
    PendingPhase.METADATA: (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatedJob:
    """The description of a job in its checkpoints, from which another program can identify the job."""

    job_id: JobId
    name: str = ""
    operators: tuple[OperatorMetadata, ...] = ()
    session_settings: tuple[SessionSetting, ...] = ()


class PendingCheckpoint:
    """A pending checkpoint: the tasks that have acknowledged, and their states.

    `built_on` is the latest completed checkpoint when this one began, or 0. The tasks may refer to the state of that
    checkpoint.
    """

    def __init__(
        self,
        *,
        job: CoordinatedJob,
        checkpoint_id: int,
        timestamp_ms: int,
        properties: CheckpointProperties,
        plan: CheckpointPlan,
        built_on: int,
        request_id: str | None = None,
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self.built_on = built_on
        self.timestamp_ms = timestamp_ms
        self.properties = properties
        self.plan = plan
        self.request_id = request_id
        self.phase = PendingPhase.COORDINATORS
        self._job = job
        self._coordinators: tuple[OperatorCoordinatorState, ...] = ()
        self._events: tuple[OperatorEventInFlight, ...] = ()
        self._master_states: tuple[MasterState, ...] = ()
        self._awaited = {task.attempt: task for task in plan.to_wait_for}
        self._states: dict[ExecutionAttemptId, TaskStateEntry] = {}
        self.size_bytes = self.incremental_bytes = 0
        """The size of all acknowledged state, and the size of the part that was written for this checkpoint, in bytes.
        """

    @property
    def timer(self) -> str:
        return f"timeout-{self.checkpoint_id}"

    @property
    def acknowledged(self) -> frozenset[ExecutionAttemptId]:
        return frozenset(self._states)

    @property
    def awaited(self) -> frozenset[ExecutionAttemptId]:
        return frozenset(self._awaited)

    @property
    def has_reached_tasks(self) -> bool:
        """True if tasks may have received the checkpoint's trigger or barrier."""
        return self.phase in (PendingPhase.TASKS, PendingPhase.METADATA)

    @property
    def is_fully_acknowledged(self) -> bool:
        return self.phase is PendingPhase.TASKS and not self._awaited

    def set_coordinators(self, states: tuple[OperatorCoordinatorState, ...]) -> None:
        self.phase = next_phase(PENDING_MOVES, self.phase, PendingPhase.MASTER_HOOKS)
        self._coordinators = states

    def set_master_states(self, states: tuple[MasterState, ...]) -> None:
        self.phase = next_phase(PENDING_MOVES, self.phase, PendingPhase.TASKS)
        self._master_states = states

    def expects(self, attempt: ExecutionAttemptId) -> TaskAcknowledgeResult:
        if attempt in self._awaited:
            return TaskAcknowledgeResult.SUCCESS
        return TaskAcknowledgeResult.DUPLICATE if attempt in self._states else TaskAcknowledgeResult.UNKNOWN

    def measure(self, metrics: CheckpointMetrics) -> None:
        self.size_bytes += metrics.size_bytes
        self.incremental_bytes += metrics.incremental_bytes

    def record_in_flight(self, events: tuple[OperatorEventInFlight, ...]) -> None:
        self._events += events

    def acknowledge(self, attempt: ExecutionAttemptId, state: TaskStateSnapshot | None) -> PlannedTask:
        task = self._awaited.pop(attempt)
        self._states[attempt] = _entry(task, state)
        return task

    def finalize(self, now: int) -> CompletedCheckpoint:
        assert self.is_fully_acknowledged, f"{self.checkpoint_id} waits for {sorted(self._awaited)}"
        self.phase = next_phase(PENDING_MOVES, self.phase, PendingPhase.METADATA)
        finished = (_entry(task, None) for task in self.plan.finished)
        return CompletedCheckpoint(
            job_id=self._job.job_id,
            checkpoint_id=self.checkpoint_id,
            timestamp_ms=self.timestamp_ms,
            duration_ms=now - self.timestamp_ms,
            task_states=(*(self._states[task.attempt] for task in self.plan.to_wait_for), *finished),
            coordinator_states=tuple(
                replace(each, events=events) if (events := self._events_for(each.operator_id)) else each
                for each in self._coordinators
            ),
            snapshot_type=self.properties.options.snapshot_type,
            job_name=self._job.name,
            operators=self._job.operators,
            master_states=self._master_states,
            session_settings=self._job.session_settings,
        )

    def _events_for(self, operator_id: OperatorId) -> tuple[OperatorEventInFlight, ...]:
        return tuple(event for event in self._events if event.operator_id == operator_id)

    def exclusive_state(self) -> tuple[ExclusiveStateHandle, ...]:
        return tuple(handle for entry in self._states.values() for handle in exclusive_state(entry.state))

    def expired(self, timeout_ms: int) -> CheckpointFailure:
        """Return the failure of a checkpoint that took too long. It names the first task that has not acknowledged."""
        missing = tuple(self._awaited.values()) if self.phase is PendingPhase.TASKS else ()
        if not missing:
            phase = self.phase.name.lower().replace("_", " ")
            text = f"its {phase} did not end within {timeout_ms} ms"
            cause = SerializedThrowable(type_name="TimeoutError", message=text)
            return CheckpointFailure(reason=CheckpointDeclineReason.EXPIRED, cause=cause)
        others = f", nor of {len(missing) - 1} other tasks" if len(missing) > 1 else ""
        text = f"no acknowledgement within {timeout_ms} ms{others}"
        return CheckpointFailure(
            reason=CheckpointDeclineReason.EXPIRED,
            cause=SerializedThrowable(type_name="TimeoutError", message=text),
            task_name=missing[0].name,
            task_manager=missing[0].task_manager,
        )

    def check(self) -> None:
        assert not self._awaited.keys() & self._states.keys()
        assert len(self._awaited) + len(self._states) == len(self.plan.to_wait_for)
        assert self.phase is not PendingPhase.METADATA or not self._awaited


@dataclass(slots=True)
class _Recent:
    """An ended checkpoint: the attempts that acknowledged it, and the late state that was discarded."""

    acknowledged: frozenset[ExecutionAttemptId]
    discarded: set[str] = field(default_factory=set)


class PendingCheckpoints:
    def __init__(self) -> None:
        self._pending: dict[int, PendingCheckpoint] = {}
        self._recent: dict[int, _Recent] = {}
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._pending)

    def __iter__(self) -> Iterator[PendingCheckpoint]:
        """Iterate over a copy of the pending checkpoints, because some may end during the iteration."""
        return iter(tuple(self._pending.values()))

    def needed_from(self, completed_id: int) -> int:
        """Return the first checkpoint whose state is still needed when `completed_id` is complete.

        Another pending checkpoint may have begun earlier. It may refer to state that the latest checkpoint had at that
        time and `completed_id` does not have, because an attempt was writing that state again when it was notified of
        the completion of `completed_id`.
        """
        staying = (
            each.built_on
            for each in self._pending.values()
            if each.checkpoint_id > completed_id
            or not each.properties.can_be_subsumed
            or each.phase is PendingPhase.METADATA
        )
        return min((completed_id, *staying))

    def get(self, checkpoint_id: int) -> PendingCheckpoint | None:
        return self._pending.get(checkpoint_id)

    def use_id(self, checkpoint_id: int) -> None:
        assert checkpoint_id > self._last_id, f"the checkpoint id {checkpoint_id} is not above {self._last_id}"
        self._last_id = checkpoint_id

    def skip_to(self, checkpoint_id: int) -> None:
        """Skip the ids up to this one, which an earlier job has used."""
        self._last_id = max(self._last_id, checkpoint_id)

    def add(self, pending: PendingCheckpoint) -> None:
        assert pending.checkpoint_id == self._last_id, "the id of a new checkpoint is not the id drawn last"
        self._pending[pending.checkpoint_id] = pending

    def remove(self, pending: PendingCheckpoint) -> None:
        del self._pending[pending.checkpoint_id]
        self._recent[pending.checkpoint_id] = _Recent(pending.acknowledged)
        if len(self._recent) > RECENT_CHECKPOINTS:
            # The entry that is removed is the checkpoint that ended first, whatever its id: a savepoint may outlive
            # many checkpoints.
            del self._recent[next(iter(self._recent))]

    def forget_all(self) -> None:
        self._pending.clear()

    def expects(self, checkpoint_id: int, attempt: ExecutionAttemptId) -> TaskAcknowledgeResult:
        pending = self._pending.get(checkpoint_id)
        if pending is not None:
            return pending.expects(attempt)
        recent = self._recent.get(checkpoint_id)
        if recent is None:
            return TaskAcknowledgeResult.UNKNOWN
        is_known = attempt in recent.acknowledged
        return TaskAcknowledgeResult.DUPLICATE if is_known else TaskAcknowledgeResult.DISCARDED

    def discard(self, checkpoint_id: int, handles: Iterable[ExclusiveStateHandle]) -> tuple[ExclusiveStateHandle, ...]:
        """Return the handles that were not discarded before. They may arrive in several parts, and each part twice."""
        recent = self._recent.get(checkpoint_id)
        if recent is None:
            return tuple(handles)
        new_handles = tuple(handle for handle in handles if handle.path not in recent.discarded)
        recent.discarded.update(handle.path for handle in new_handles)
        return new_handles

    def check(self) -> None:
        for checkpoint_id, pending in self._pending.items():
            pending.check()
            assert checkpoint_id == pending.checkpoint_id <= self._last_id


def _entry(task: PlannedTask, state: TaskStateSnapshot | None) -> TaskStateEntry:
    return TaskStateEntry(
        vertex_id=task.vertex_id,
        subtask=task.subtask,
        parallelism=task.parallelism,
        max_parallelism=task.max_parallelism,
        state=state,
    )


_PHASES = {
    PendingPhase.COORDINATORS: "operator coordinators",
    PendingPhase.MASTER_HOOKS: "master hooks",
    PendingPhase.TASKS: "tasks",
    PendingPhase.METADATA: "metadata",
}


def explain_checkpoints(job_id: JobId, pending: Iterable[PendingCheckpoint], now: int) -> CheckpointsExplained:
    return CheckpointsExplained(job_id=job_id, now_ms=now, pending=tuple(_pending(each) for each in pending))


def _pending(pending: PendingCheckpoint) -> PendingExplained:
    return PendingExplained(
        checkpoint_id=pending.checkpoint_id,
        since_ms=pending.timestamp_ms,
        phase=_PHASES[pending.phase],
        awaited=tuple(sorted(pending.awaited)),
        acknowledged=len(pending.acknowledged),
        is_savepoint=pending.properties.is_savepoint,
    )
