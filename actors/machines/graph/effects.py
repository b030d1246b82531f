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
class RestartScheduled:
    """Report that these tasks, or all if there are none, restart in `delay_ms` because of `cause`; the timer runs."""

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
