"""Events of the ExecutionGraph that are not messages, and its effects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from flykka.actors.machines.effects import CancelTimer, Ignore, Role, StartTimer, Tell
from flykka.actors.machines.slots import slot_requests
from flykka.messages.control.checkpoint_coordination import CoordinatedTask
from flykka.messages.control.job import CancelJob, CheckpointCompleted, JobStatus
from flykka.messages.control.job_control import DeploymentTimedOut, JobRestartDue, JobVerticesFinalized
from flykka.messages.graph.job_graph import JobVertex
from flykka.messages.state.handles import TaskStateSnapshot
from flykka.messages.tasks import task
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId, TaskManagerId
from flykka.messages.wire.ref import Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingRequested:
    """Start the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreStateReady:
    """The states from which attempts of this `version` start, by vertex and subtask. Other attempts start empty.

    `max_parallelism` is that of the checkpoint, for the vertices that adopt the checkpoint's number of key groups.
    """

    version: int
    checkpoint_id: int | None
    states: Mapping[tuple[JobVertexId, int], TaskStateSnapshot]
    max_parallelism: Mapping[JobVertexId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalFailureReported:
    """A failure of the whole job. If `attempt` is set, the failure counts only while that attempt is running."""

    cause: SerializedThrowable
    attempt: ExecutionAttemptId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppingChanged:
    """A stop of the job has begun (its last checkpoint was requested), or has failed (the job continues)."""

    is_stopping: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleRequested:
    """Run the job with this parallelism, by vertex: all of its tasks end, and new tasks replace them."""

    parallelism: Mapping[JobVertexId, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartDelayDrawn:
    """The random number for the delay before the restart of this `version`, from 0 (inclusive) to 1 (exclusive)."""

    version: int
    chance: float


Event = (
    SchedulingRequested
    | slot_requests.SlotAllocated
    | slot_requests.SlotAllocationFailed
    | RestoreStateReady
    | task.UpdateTaskExecutionState
    | task.NotifyEndOfData
    | task.AcknowledgeDeployments
    | DeploymentTimedOut
    | slot_requests.SlotsLost
    | GlobalFailureReported
    | StoppingChanged
    | CancelJob
    | JobRestartDue
    | RestartDelayDrawn
    | task.RequestPartitionProducerState
    | CheckpointCompleted
    | JobVerticesFinalized
)

RescalableEvent = Event | RescaleRequested


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatusMoved:
    """Report the new status of the job to its listeners, with the failure that led to it.

    `why` states why a job that has FAILED is not restarted.
    """

    status: JobStatus
    cause: SerializedThrowable | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionMoved:
    attempt: ExecutionAttemptId
    task_name: str
    previous: task.ExecutionState
    state: task.ExecutionState
    task_manager_id: TaskManagerId | None = None
    failure: SerializedThrowable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinateTasks:
    """Report the current attempts to the CheckpointCoordinator, before they are deployed."""

    tasks: tuple[CoordinatedTask, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRescaled:
    """Report that the parallelism of the job graph has changed. All earlier attempts have ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleNotBegun:
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deploy:
    descriptor: task.TaskDeploymentDescriptor
    task_manager: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class AskForRestoreState:
    """Request the state from which new attempts start. The reply has the same `version`."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawRestartDelay:
    """Draw a random number from 0 (inclusive) to 1 (exclusive) and reply with `RestartDelayDrawn` of this `version`."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartScheduled:
    """Report that these tasks (if empty: all) restart in `delay_ms` because of `cause`. The timer is running."""

    delay_ms: int
    version: int
    tasks: tuple[str, ...] = ()
    cause: SerializedThrowable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizeVertices:
    """Finalize each vertex once, because every task has finished (Flink's finalizeOnMaster). The reply has this
    `version`.

    A job that was stopped has not read all of its input and can be continued, so its vertices are not finalized.
    """

    version: int
    vertices: tuple[JobVertex, ...]
    has_read_all: bool


Effect = (
    Ignore
    | StartTimer
    | CancelTimer
    | Tell[Ref | Literal[Role.CHECKPOINT_COORDINATOR]]
    | JobStatusMoved
    | ExecutionMoved
    | CoordinateTasks
    | GraphRescaled
    | RescaleNotBegun
    | Deploy
    | slot_requests.RequestSlots
    | slot_requests.ReturnSlot
    | slot_requests.ForgetPriorSlots
    | AskForRestoreState
    | DrawRestartDelay
    | RestartScheduled
    | FinalizeVertices
)
