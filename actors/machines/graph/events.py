"""Events of an ExecutionGraph, beside the messages that it handles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flykka.actors.machines.slots.slot_requests import SlotAllocated, SlotAllocationFailed, SlotsLost
from flykka.messages.control.job import CancelJob, CheckpointCompleted
from flykka.messages.control.job_control import DeploymentTimedOut, JobRestartDue, JobVerticesFinalized
from flykka.messages.state.handles import TaskStateSnapshot
from flykka.messages.tasks.task import (
    AcknowledgeDeployments,
    NotifyEndOfData,
    RequestPartitionProducerState,
    UpdateTaskExecutionState,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId


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
class GlobalFailureReported:
    """Something that concerns the whole job has failed; with an `attempt`, only if that attempt is alive."""

    cause: SerializedThrowable
    attempt: ExecutionAttemptId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppingChanged:
    """The last checkpoint of a stop was asked for, or was given up, and the job goes on."""

    is_stopping: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleRequested:
    """The job is to run with this parallelism, by vertex: all of its tasks end, and others begin in their place."""

    parallelism: Mapping[JobVertexId, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartDelayDrawn:
    """The random number for the delay before the restart of this `version`: from 0 to below 1."""

    version: int
    chance: float


Event = (
    SchedulingRequested
    | SlotAllocated
    | SlotAllocationFailed
    | RestoreStateReady
    | UpdateTaskExecutionState
    | NotifyEndOfData
    | AcknowledgeDeployments
    | DeploymentTimedOut
    | SlotsLost
    | GlobalFailureReported
    | StoppingChanged
    | CancelJob
    | JobRestartDue
    | RestartDelayDrawn
    | RequestPartitionProducerState
    | CheckpointCompleted
    | JobVerticesFinalized
)

RescalableEvent = Event | RescaleRequested
"""Events of a graph whose parallelism may change."""
