"""Events and effects of operator coordinators and global aggregates, beside the messages that they handle and send."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flykka.actors.machines.effects import FailJob, Ignore, Role, Tell
from flykka.actors.machines.sources.source_events import SubtaskReset
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    OperatorCoordinatorState,
    SnapshotOperatorCoordinators,
)
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted
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
    """All subtasks of the operator restart, from the state of a checkpoint or, without one, from the beginning."""

    checkpoint_id: int | None
    state: OperatorCoordinatorState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptReady:
    """An attempt of the operator runs."""

    attempt: ExecutionAttemptId


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptOver:
    """An attempt has ended; `is_failed` if it has failed or, without a reason, was cancelled."""

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
    """Make these calls in order on the thread of the coordinator; the answer has the number `call`."""

    operator_id: OperatorId
    call: int
    calls: tuple[CoordinatorCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSnapshotted:
    """Record the state of the coordinator for a checkpoint; its events now wait for the subtasks' barriers."""

    operator_id: OperatorId
    checkpoint_id: int
    state: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateAggregates:
    """Add values to aggregates in this order, on their thread."""

    updates: tuple[AggregateUpdate, ...]


CoordinatorAddress = ExecutionAttemptId | Literal[Role.JOB_LISTENERS]
CoordinatorEffect = CallCoordinator | Tell[CoordinatorAddress] | CoordinatorSnapshotted | FailJob | Ignore
AggregateEffect = UpdateAggregates | Tell[ExecutionAttemptId] | Ignore
