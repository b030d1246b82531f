"""Events and effects of operator coordinators and global aggregates, beside messages that they are told and tell."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.effects import Ignore, Tell
from flykka.actors.machines.sources.source_events import SubtaskReset
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    OperatorCoordinatorState,
    SnapshotOperatorCoordinators,
)
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted
from flykka.messages.tasks.accumulator import AccumulatorSnapshot
from flykka.messages.tasks.operator_event import (
    AggregateUpdate,
    CoordinatorCall,
    OperatorCoordinatorAnswered,
    OperatorCoordinatorFailed,
    OperatorCoordinatorWoken,
    SendOperatorEvents,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, OperatorId

# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorReset:
    """All subtasks of the operator begin, from the state that a checkpoint holds, or without one from the beginning."""

    checkpoint_id: int | None
    state: OperatorCoordinatorState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptReady:
    """An attempt of the operator runs."""

    attempt: ExecutionAttemptId


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptOver:
    """An attempt has ended: finished, or `is_failed`, which one that was cancelled is too, without a reason."""

    attempt: ExecutionAttemptId
    is_failed: bool
    reason: SerializedThrowable | None = None


CoordinatorEvent = (
    CoordinatorReset
    | AttemptReady
    | AttemptOver
    | SubtaskReset
    | SendOperatorEvents
    | SnapshotOperatorCoordinators
    | AcknowledgeCheckpoint
    | DeclineCheckpoint
    | CheckpointAborted
    | CheckpointCompleted
    | OperatorCoordinatorAnswered
    | OperatorCoordinatorFailed
    | OperatorCoordinatorWoken
)

# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCoordinator:
    """Call the coordinator on its thread, one call after the other; it is answered under number `call`."""

    operator_id: OperatorId
    call: int
    calls: tuple[CoordinatorCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSnapshotted:
    """The coordinator has given its state for a checkpoint: from now on its events wait for the subtasks' barriers."""

    operator_id: OperatorId
    checkpoint_id: int
    state: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorMeasured:
    """The metrics of the coordinator have changed."""

    operator_id: OperatorId
    metrics: tuple[AccumulatorSnapshot, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailJob:
    """The coordinator has failed, or wants the job to fail."""

    cause: SerializedThrowable


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateAggregates:
    """Add values to aggregates, on their thread, in this order."""

    updates: tuple[AggregateUpdate, ...]


CoordinatorEffect = (
    CallCoordinator | Tell[ExecutionAttemptId] | CoordinatorSnapshotted | CoordinatorMeasured | FailJob | Ignore
)
AggregateEffect = UpdateAggregates | Tell[ExecutionAttemptId] | Ignore
