"""Events and effects of a SourceCoordinator and its SplitEnumerators that are not messages."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.effects import Ignore, LogWarning, StartTimer, Tell
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    OperatorCoordinatorState,
    SnapshotOperatorCoordinators,
)
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted
from flykka.messages.control.job_control import SplitDiscoveryDue, SplitDiscoveryFailed
from flykka.messages.tasks.source import RequestSplits, SplitsDiscovered
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId, OperatorId

# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesReset:
    """All readers restart, from the states of a checkpoint or, without a checkpoint, from the beginning."""

    states: tuple[OperatorCoordinatorState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded:
    attempt: ExecutionAttemptId


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskReset:
    """The next attempt of one subtask begins from this checkpoint or, with `None`, from the beginning.

    Sent if only the region of a failed task restarts. If the whole job restarts, `SourcesReset` is sent.
    """

    vertex_id: JobVertexId
    subtask: int
    checkpoint_id: int | None


SplitEnumeratorEvent = (
    SplitsDiscovered
    | RequestSplits
    | AttemptEnded
    | SubtaskReset
    | AcknowledgeCheckpoint
    | DeclineCheckpoint
    | CheckpointAborted
    | CheckpointCompleted
)
SourceEvent = (
    SplitEnumeratorEvent | SourcesReset | SplitDiscoveryFailed | SplitDiscoveryDue | SnapshotOperatorCoordinators
)


# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesSnapshotted:
    """Report these states of the sources to the CheckpointCoordinator, with those of the functions' coordinators."""

    checkpoint_id: int
    states: tuple[OperatorCoordinatorState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverSplits:
    operator_id: OperatorId
    position: bytes


SplitEnumeratorEffect = Tell[ExecutionAttemptId] | Ignore
SourceEffect = SplitEnumeratorEffect | SourcesSnapshotted | DiscoverSplits | LogWarning | StartTimer
