"""Effects of the ExecutionGraph, beside the messages that it has told."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.effects import CancelTimer, Ignore, StartTimer
from flykka.actors.machines.slots.slot_requests import ForgetPriorSlots, RequestSlots, ReturnSlot
from flykka.messages.control.checkpoint_coordination import (
    AbortPendingCheckpoints,
    CoordinatedTask,
    FinalCheckpointRequest,
)
from flykka.messages.control.job import JobStatus
from flykka.messages.graph.job_graph import JobVertex
from flykka.messages.tasks.task import (
    CancelTask,
    ExecutionState,
    PartitionProducerState,
    ReleasePartitions,
    TaskDeploymentDescriptor,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, TaskManagerId
from flykka.messages.wire.ref import Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatusMoved:
    """Tell the listeners that the job has a new status; `cause` is the failure behind it, where there is one.

    `why` says in words why a job that has FAILED is not restarted.
    """

    status: JobStatus
    cause: SerializedThrowable | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionMoved:
    """Tell the listeners and the checkpoint coordinator that an attempt has a new state."""

    attempt: ExecutionAttemptId
    task_name: str
    previous: ExecutionState
    state: ExecutionState
    task_manager_id: TaskManagerId | None = None
    failure: SerializedThrowable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TellTaskManager:
    """Tell the TaskManager of an attempt, or the one that keeps its results."""

    task_manager: Ref
    message: CancelTask | ReleasePartitions | PartitionProducerState


@dataclass(frozen=True, slots=True, kw_only=True)
class TellCheckpointCoordinator:
    """Tell the CheckpointCoordinator of the job."""

    message: AbortPendingCheckpoints | FinalCheckpointRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinateTasks:
    """Tell the checkpoint coordinator which attempts there are now, before they are deployed."""

    tasks: tuple[CoordinatedTask, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRescaled:
    """From now on the job graph is another one, at another parallelism, and no attempt of the former one lives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleNotBegun:
    """The job goes on as it is, for this reason."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deploy:
    """Submit an attempt to the TaskManager that holds its slot."""

    descriptor: TaskDeploymentDescriptor
    task_manager: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class AskForRestoreState:
    """Ask what the new attempts start from; the answer comes back with the same `version`."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawRestartDelay:
    """Draw a chance from 0 to below 1, and report `RestartDelayDrawn` with it and this `version`."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRestartTimer:
    """Report `JobRestartDue` with this `version` in so many ms; these tasks restart, or all.

    The failure behind it is `cause`.
    """

    delay_ms: int
    version: int
    tasks: tuple[str, ...] = ()
    cause: SerializedThrowable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizeVertices:
    """Every task has finished: do what is to be done once for each vertex (Flink's finalizeOnMaster), then report it.

    The answer comes back with the same `version`. A job that has not read its input to the end was stopped, and is to
    be continued: nothing of it is final.
    """

    version: int
    vertices: tuple[JobVertex, ...]
    has_read_all: bool


Effect = (
    Ignore
    | StartTimer
    | CancelTimer
    | JobStatusMoved
    | ExecutionMoved
    | TellTaskManager
    | TellCheckpointCoordinator
    | CoordinateTasks
    | GraphRescaled
    | RescaleNotBegun
    | Deploy
    | RequestSlots
    | ReturnSlot
    | ForgetPriorSlots
    | AskForRestoreState
    | DrawRestartDelay
    | StartRestartTimer
    | FinalizeVertices
)
