"""Events of the CheckpointCoordinator: messages, and values that its actor derives from them."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.checkpoint.plan import PlannedTask
from flykka.actors.machines.checkpoint.properties import CheckpointProperties
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    OperatorCoordinatorsSnapshotted,
)
from flykka.messages.checkpointing.metadata import OperatorMetadata
from flykka.messages.control.checkpoint_coordination import (
    AbortPendingCheckpoints,
    CheckpointIdsNotDrawn,
    CheckpointLeadershipLost,
    CheckpointsNotRecovered,
    CheckpointsRecovered,
    CheckpointTimedOut,
    CoordinatedTaskStateChanged,
    Disposed,
    FinalCheckpointRequest,
    FinalCheckpointRetryDue,
    MasterHookFailed,
    MasterHookRestoreFailed,
    MasterHooksRestored,
    MasterHooksTriggered,
    MetadataRead,
    MetadataWriteFailed,
    MetadataWritten,
    PeriodicTriggerDue,
    RequestRestoreState,
    StartCheckpointScheduler,
    StopCheckpointing,
    StopCheckpointRequest,
    StopCheckpointScheduler,
)
from flykka.messages.wire.failure import SerializedThrowable


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksChanged:
    """The job has these attempts, which replace all former ones; `operators` describe the rescaled job."""

    tasks: tuple[PlannedTask, ...]
    operators: tuple[OperatorMetadata, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerRequested:
    """A checkpoint is requested; its result is reported under the `request_id`, if there is one."""

    properties: CheckpointProperties
    is_periodic: bool = False
    request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointIdDrawn:
    """The counter has answered `DrawCheckpointId`."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectFailed:
    """An effect for a pending checkpoint could not be performed."""

    checkpoint_id: int
    cause: SerializedThrowable


CoordinatorEvent = (
    TasksChanged
    | CoordinatedTaskStateChanged
    | StartCheckpointScheduler
    | StopCheckpointScheduler
    | PeriodicTriggerDue
    | TriggerRequested
    | CheckpointIdDrawn
    | EffectFailed
    | CheckpointIdsNotDrawn
    | OperatorCoordinatorsSnapshotted
    | AcknowledgeCheckpoint
    | DeclineCheckpoint
    | CheckpointTimedOut
    | MetadataWritten
    | MetadataWriteFailed
    | MasterHooksTriggered
    | MasterHookFailed
    | MasterHooksRestored
    | MasterHookRestoreFailed
    | FinalCheckpointRequest
    | StopCheckpointRequest
    | FinalCheckpointRetryDue
    | AbortPendingCheckpoints
    | CheckpointsRecovered
    | CheckpointsNotRecovered
    | CheckpointLeadershipLost
    | RequestRestoreState
    | MetadataRead
    | StopCheckpointing
    | Disposed
)
