"""A checkpoint that has begun and is not complete. Mirrors Flink's PendingCheckpoint."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

from flykka.actors.machines.checkpoint.plan import CheckpointPlan, PlannedTask
from flykka.actors.machines.checkpoint.properties import CheckpointProperties
from flykka.actors.machines.phases import next_phase
from flykka.actors.machines.state.handles import exclusive_state
from flykka.messages.checkpointing.checkpoint import (
    CheckpointDeclineReason,
    CheckpointFailure,
    CheckpointMetrics,
    MasterState,
    OperatorCoordinatorState,
    OperatorEventInFlight,
)
from flykka.messages.checkpointing.metadata import CompletedCheckpoint, OperatorMetadata, TaskStateEntry
from flykka.messages.state.handles import ExclusiveStateHandle, TaskStateSnapshot
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, OperatorId


class TaskAcknowledgeResult(Enum):
    """The result of an acknowledgement: awaited, a duplicate, for another checkpoint, or too late."""

    SUCCESS = auto()
    DUPLICATE = auto()
    UNKNOWN = auto()
    DISCARDED = auto()


class PendingPhase(Enum):
    """The phases of a pending checkpoint, in this order."""

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
    """The description of a job in its checkpoints: another program may know the job from it alone."""

    job_id: JobId
    name: str = ""
    operators: tuple[OperatorMetadata, ...] = ()


class PendingCheckpoint:
    """A pending checkpoint: the tasks that have acknowledged, and their states.

    `built_on` is the latest checkpoint that was complete when this one began, 0 where none was: its tasks may refer to
    what that one holds.
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
        """Of the state of those that have acknowledged, and of what was written for it."""

    @property
    def timer(self) -> str:
        """The name of the timer of its timeout."""
        return f"timeout-{self.checkpoint_id}"

    @property
    def acknowledged(self) -> frozenset[ExecutionAttemptId]:
        """The attempts that have acknowledged."""
        return frozenset(self._states)

    @property
    def awaited(self) -> frozenset[ExecutionAttemptId]:
        """The attempts that have not acknowledged."""
        return frozenset(self._awaited)

    @property
    def has_reached_tasks(self) -> bool:
        """True if tasks may have heard of it."""
        return self.phase in (PendingPhase.TASKS, PendingPhase.METADATA)

    @property
    def is_fully_acknowledged(self) -> bool:
        """True if nothing is missing but the metadata."""
        return self.phase is PendingPhase.TASKS and not self._awaited

    def set_coordinators(self, states: tuple[OperatorCoordinatorState, ...]) -> None:
        """The operator coordinators are snapshotted: it is the master hooks' turn."""
        self.phase = next_phase(PENDING_MOVES, self.phase, PendingPhase.MASTER_HOOKS)
        self._coordinators = states

    def set_master_states(self, states: tuple[MasterState, ...]) -> None:
        """The master hooks have run: it is the tasks' turn."""
        self.phase = next_phase(PENDING_MOVES, self.phase, PendingPhase.TASKS)
        self._master_states = states

    def expects(self, attempt: ExecutionAttemptId) -> TaskAcknowledgeResult:
        """The result that an acknowledgement of this attempt would have."""
        if attempt in self._awaited:
            return TaskAcknowledgeResult.SUCCESS
        return TaskAcknowledgeResult.DUPLICATE if attempt in self._states else TaskAcknowledgeResult.UNKNOWN

    def measure(self, metrics: CheckpointMetrics) -> None:
        """Add the sizes that an attempt has measured."""
        self.size_bytes += metrics.size_bytes
        self.incremental_bytes += metrics.incremental_bytes

    def note_in_flight(self, events: tuple[OperatorEventInFlight, ...]) -> None:
        """Take note of events on their way from an attempt to operator coordinators."""
        self._events += events

    def acknowledge(self, attempt: ExecutionAttemptId, state: TaskStateSnapshot | None) -> PlannedTask:
        """Take note of the acknowledgement of an attempt that is awaited."""
        task = self._awaited.pop(attempt)
        self._states[attempt] = _entry(task, state)
        return task

    def finalize(self, now: int) -> CompletedCheckpoint:
        """The checkpoint as it is to be written, its subtasks in the order of the plan."""
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
        )

    def _events_for(self, operator_id: OperatorId) -> tuple[OperatorEventInFlight, ...]:
        return tuple(event for event in self._events if event.operator_id == operator_id)

    def exclusive_state(self) -> tuple[ExclusiveStateHandle, ...]:
        """The state that is deleted when the checkpoint is given up."""
        return tuple(handle for entry in self._states.values() for handle in exclusive_state(entry.state))

    def expired(self, timeout_ms: int) -> CheckpointFailure:
        """Return the failure of a checkpoint that took too long: it names the first task that has not acknowledged."""
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
        """Raise `AssertionError` where tasks are lost or counted twice, or the metadata came too early."""
        assert not self._awaited.keys() & self._states.keys()
        assert len(self._awaited) + len(self._states) == len(self.plan.to_wait_for)
        assert self.phase is not PendingPhase.METADATA or not self._awaited


def _entry(task: PlannedTask, state: TaskStateSnapshot | None) -> TaskStateEntry:
    return TaskStateEntry(
        vertex_id=task.vertex_id,
        subtask=task.subtask,
        parallelism=task.parallelism,
        max_parallelism=task.max_parallelism,
        state=state,
    )
