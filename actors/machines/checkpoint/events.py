"""Events and effects of the CheckpointCoordinator: messages, and values that its actor derives or performs."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.checkpoint.pending import PlannedTask
from flykka.actors.machines.checkpoint.properties import CheckpointProperties
from flykka.actors.machines.effects import CancelTimer, Ignore, StartTimer
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    CheckpointDeclineReason,
    CompletedCheckpoint,
    DeclineCheckpoint,
    ForTask,
    OperatorCoordinatorsSnapshotted,
    OperatorMetadata,
    SnapshotOperatorCoordinators,
)
from flykka.messages.checkpointing.statistics import CheckpointTriggered, SubtasksAcknowledged
from flykka.messages.control import checkpoint_coordination
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted
from flykka.messages.state.handles import ExclusiveStateHandle, SharedStateHandle
from flykka.messages.wire.failure import SerializedThrowable


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksChanged:
    """The job has these attempts, which replace all former attempts. `operators` describe the rescaled job."""

    tasks: tuple[PlannedTask, ...]
    operators: tuple[OperatorMetadata, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerRequested:
    properties: CheckpointProperties
    is_periodic: bool = False
    request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointIdDrawn:
    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectFailed:
    checkpoint_id: int
    cause: SerializedThrowable


CoordinatorEvent = (
    TasksChanged
    | checkpoint_coordination.CoordinatedTaskStateChanged
    | checkpoint_coordination.StartCheckpointScheduler
    | checkpoint_coordination.StopCheckpointScheduler
    | checkpoint_coordination.PeriodicTriggerDue
    | TriggerRequested
    | CheckpointIdDrawn
    | EffectFailed
    | checkpoint_coordination.CheckpointIdsNotDrawn
    | OperatorCoordinatorsSnapshotted
    | AcknowledgeCheckpoint
    | DeclineCheckpoint
    | checkpoint_coordination.CheckpointTimedOut
    | checkpoint_coordination.MetadataWritten
    | checkpoint_coordination.MetadataWriteFailed
    | checkpoint_coordination.MasterHooksTriggered
    | checkpoint_coordination.MasterHookFailed
    | checkpoint_coordination.MasterHooksRestored
    | checkpoint_coordination.MasterHookRestoreFailed
    | checkpoint_coordination.FinalCheckpointRequest
    | checkpoint_coordination.StopCheckpointRequest
    | checkpoint_coordination.FinalCheckpointRetryDue
    | checkpoint_coordination.AbortPendingCheckpoints
    | checkpoint_coordination.CheckpointsRecovered
    | checkpoint_coordination.CheckpointsNotRecovered
    | checkpoint_coordination.CheckpointLeadershipLost
    | checkpoint_coordination.RequestRestoreState
    | checkpoint_coordination.MetadataRead
    | checkpoint_coordination.StopCheckpointing
    | checkpoint_coordination.Disposed
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawCheckpointId:
    """Draw a unique id and reply with `CheckpointIdDrawn` or `CheckpointIdsNotDrawn`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMetadata:
    """Write the metadata of the checkpoint and reply with `MetadataWritten` or `MetadataWriteFailed`.

    If `is_retained`, the checkpoint is also added to the store, so that the next coordinator finds it.
    """

    checkpoint: CompletedCheckpoint
    target_location: str | None = None
    is_retained: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMetadata:
    version: int
    path: str
    allow_non_restored_state: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispose:
    retained: tuple[int, ...] = ()
    checkpoints: tuple[str, ...] = ()
    state: tuple[ExclusiveStateHandle | SharedStateHandle, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob:
    """Remove the job's entries from the store, delete its folder, and reply with `Disposed`. Nothing of the job is
    retained.

    `continued` is the checkpoint of an earlier job from which this job started, if this job has completed a checkpoint
    since. A note next to that checkpoint then states that output beyond it has been published.
    """

    continued: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerDeclined:
    """Log that a request was declined, with the cause if an error occurred."""

    reason: CheckpointDeclineReason
    cause: SerializedThrowable | None = None
    blocking: tuple[PlannedTask, ...] = ()
    """The tasks that do not run, for the reason NOT_ALL_REQUIRED_TASKS_RUNNING."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFailed:
    """Log that handling an event has raised an error. `cost` states the consequence."""

    event: str
    error: Exception
    cost: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LateAcknowledgement(Ignore):
    """Log that a task has acknowledged a checkpoint that has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerMasterHooks:
    """Run the master hooks for a checkpoint and reply with `MasterHooksTriggered` or `MasterHookFailed`."""

    checkpoint_id: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreMasterHooks:
    """Restore the master hooks and reply with `MasterHooksRestored` or `MasterHookRestoreFailed`.

    Without a `checkpoint_id` the job starts from the beginning, and the hooks are reset.
    """

    version: int
    checkpoint_id: int | None
    states: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseMasterHooks:
    pass


CheckpointReport = CheckpointTriggered | SubtasksAcknowledged
"""Messages to the checkpoint statistics. The actor merges several acknowledgements into one message."""

ToJobMaster = (
    SnapshotOperatorCoordinators
    | checkpoint_coordination.CheckpointFailuresExceeded
    | checkpoint_coordination.StopCheckpointFailed
    | checkpoint_coordination.SavepointCompleted
    | checkpoint_coordination.SavepointFailed
    | CheckpointAborted
    | CheckpointCompleted
    | checkpoint_coordination.RestoreState
    | checkpoint_coordination.RestoreStateFailed
    | checkpoint_coordination.CheckpointingStopped
)

CoordinatorEffect = (
    DrawCheckpointId
    | WriteMetadata
    | ReadMetadata
    | StartTimer
    | CancelTimer
    | Dispose
    | DeleteJob
    | ForTask
    | ToJobMaster
    | CheckpointReport
    | TriggerDeclined
    | EventFailed
    | TriggerMasterHooks
    | RestoreMasterHooks
    | CloseMasterHooks
    | Ignore
)
