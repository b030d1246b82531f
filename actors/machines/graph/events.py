"""Events of an ExecutionGraph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flykka.actors.machines.slots.slot_requests import SlotAllocated, SlotAllocationFailed, SlotsLost
from flykka.messages.state.handles import TaskStateSnapshot
from flykka.messages.tasks.task import TaskExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId, ResultPartitionId


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingRequested:
    """The job may begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreStateReady:
    """The states that attempts of this `version` start from, by vertex and subtask; others start empty.

    `max_parallelism` are the vertices that take over the number of key groups from the checkpoint.
    """

    version: int
    checkpoint_id: int | None
    states: Mapping[tuple[JobVertexId, int], TaskStateSnapshot]
    max_parallelism: Mapping[JobVertexId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStateUpdated:
    """A task has reported a state."""

    update: TaskExecutionState


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOfDataReported:
    """A task has processed its last row and waits for the final checkpoint."""

    attempt: ExecutionAttemptId


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalFailureReported:
    """Something that concerns the whole job has failed; with an `attempt`, only if that attempt is alive."""

    cause: SerializedThrowable
    attempt: ExecutionAttemptId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppingChanged:
    """The last checkpoint of a stop was asked for, or was given up, and the job goes on."""

    is_stopping: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CancellationRequested:
    """The job is to be cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartDue:
    """The pause before the restart of this `version` is over."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartDelayDrawn:
    """The random number for the delay before the restart of this `version`: from 0 to below 1."""

    version: int
    chance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProducerStateRequested:
    """The attempt did not find a partition that it reads, and asks what has become of its producer."""

    attempt: ExecutionAttemptId
    partition_id: ResultPartitionId


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCompleted:
    """A checkpoint of the job was completed: what is restarted from now on begins there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerticesFinalized:
    """The work done once for the vertices of this `version` is done, or has failed."""

    version: int
    cause: SerializedThrowable | None = None


Event = (
    SchedulingRequested
    | SlotAllocated
    | SlotAllocationFailed
    | RestoreStateReady
    | TaskStateUpdated
    | EndOfDataReported
    | SlotsLost
    | GlobalFailureReported
    | StoppingChanged
    | CancellationRequested
    | RestartDue
    | RestartDelayDrawn
    | PartitionProducerStateRequested
    | CheckpointCompleted
    | VerticesFinalized
)
