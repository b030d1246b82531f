"""Effects of the ExecutionGraph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flykka.actors.machines.effects import CancelTimer, Ignore, Role, StartTimer, Tell
from flykka.actors.machines.slots.slot_requests import ForgetPriorSlots, RequestSlots, ReturnSlot
from flykka.messages.control.checkpoint_coordination import CoordinatedTask
from flykka.messages.control.job import JobStatus
from flykka.messages.graph.job_graph import JobVertex
from flykka.messages.tasks.task import ExecutionState, TaskDeploymentDescriptor
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, TaskManagerId
from flykka.messages.wire.ref import Ref


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
    """Report the new state of an attempt to the listeners and to the CheckpointCoordinator."""

    attempt: ExecutionAttemptId
    task_name: str
    previous: ExecutionState
    state: ExecutionState
    task_manager_id: TaskManagerId | None = None
    failure: SerializedThrowable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinateTasks:
    """Report the current attempts to the CheckpointCoordinator, before they are deployed."""

    tasks: tuple[CoordinatedTask, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRescaled:
    """Report that the job graph has another parallelism; no attempt of the former one lives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleNotBegun:
    """Report that the job is not rescaled, for this reason."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deploy:
    """Submit an attempt to the TaskManager that holds its slot."""

    descriptor: TaskDeploymentDescriptor
    task_manager: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class AskForRestoreState:
    """Request the state from which new attempts start; the answer has the same `version`."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawRestartDelay:
    """Draw a number from 0 to below 1 and answer with `RestartDelayDrawn` of this `version`."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartScheduled:
    """Report that these tasks, or all if there are none, restart in `delay_ms` because of `cause`; the timer runs."""

    delay_ms: int
    version: int
    tasks: tuple[str, ...] = ()
    cause: SerializedThrowable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizeVertices:
    """Finalize each vertex once, as every task has finished (Flink's finalizeOnMaster); the answer has this `version`.

    A job that was stopped has not read all of its input and can be continued, so that nothing of it is finalized.
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
    | RequestSlots
    | ReturnSlot
    | ForgetPriorSlots
    | AskForRestoreState
    | DrawRestartDelay
    | RestartScheduled
    | FinalizeVertices
)
