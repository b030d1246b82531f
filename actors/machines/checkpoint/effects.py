"""Effects that the CheckpointCoordinator asks its shell to perform."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.checkpoint.plan import PlannedTask
from flykka.actors.machines.effects import CancelTimer, Ignore, StartTimer
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, ForTask, SnapshotOperatorCoordinators
from flykka.messages.checkpointing.metadata import CompletedCheckpoint
from flykka.messages.checkpointing.statistics import CheckpointTriggered, SubtasksAcknowledged
from flykka.messages.control.checkpoint_coordination import (
    CheckpointFailuresExceeded,
    CheckpointingStopped,
    RestoreState,
    RestoreStateFailed,
    SavepointCompleted,
    SavepointFailed,
    StopCheckpointFailed,
)
from flykka.messages.control.job import CheckpointAborted
from flykka.messages.state.handles import ExclusiveStateHandle, SharedStateHandle
from flykka.messages.wire.failure import SerializedThrowable


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawCheckpointId:
    """Get an id that nobody else has and come back with `CheckpointIdDrawn` or `CheckpointIdsNotDrawn`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMetadata:
    """Make the checkpoint durable and come back with `MetadataWritten` or `MetadataWriteFailed`.

    One that `is_retained` is added to the store with that: the next coordinator begins with it.
    """

    checkpoint: CompletedCheckpoint
    target_location: str | None = None
    is_retained: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMetadata:
    """Read the checkpoint of an earlier job, and come back with `MetadataRead`."""

    version: int
    path: str
    allow_non_restored_state: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispose:
    """Delete written checkpoints and state that nothing refers to any more; come back with `DisposalEnded`.

    In the order of the fields: at no moment is there a checkpoint whose state is gone, or one in the store
    (`retained`, by ids) that is not there.
    """

    retained: tuple[int, ...] = ()
    checkpoints: tuple[str, ...] = ()
    state: tuple[ExclusiveStateHandle | SharedStateHandle, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob:
    """Nothing of the job is retained: empty its store, delete its folder, and come back with `DisposalEnded`.

    `continued` is the checkpoint of an earlier job that it began with, where it has had one of its own since: what it
    has published goes beyond that one, and only a note beside that one can still tell.
    """

    continued: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportCompleted:
    """Tell those who listen that the checkpoint is complete; one that `is_retained` may be what attempts start from."""

    checkpoint: CompletedCheckpoint
    duration_ms: int
    size_bytes: int
    incremental_bytes: int
    is_retained: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerDeclined:
    """A request was declined: the answer to its requester, with the cause where something has gone wrong."""

    reason: CheckpointDeclineReason
    cause: SerializedThrowable | None = None
    blocking: tuple[PlannedTask, ...] = ()
    """The tasks that do not run, for NOT_ALL_REQUIRED_TASKS_RUNNING."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFailed:
    """Log that an event has raised: `cost` says in words what was given up for it."""

    event: str
    error: Exception
    cost: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LateAcknowledgement(Ignore):
    """Log that a task has acknowledged a checkpoint that has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerMasterHooks:
    """Run the master hooks for a checkpoint and come back with `MasterHooksTriggered` or `MasterHookFailed`."""

    checkpoint_id: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreMasterHooks:
    """Tell the master hooks what the job starts from; come back with `MasterHooksRestored` or the failure.

    Without a `checkpoint_id` it starts from the beginning, and they are reset.
    """

    version: int
    checkpoint_id: int | None
    states: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseMasterHooks:
    """The job has ended: close the master hooks."""


CheckpointReport = CheckpointTriggered | SubtasksAcknowledged
"""Messages to the statistics. An acknowledgement is a report of its own here; the shell puts several into one."""

ToJobMaster = (
    SnapshotOperatorCoordinators
    | CheckpointFailuresExceeded
    | StopCheckpointFailed
    | SavepointCompleted
    | SavepointFailed
    | CheckpointAborted
    | RestoreState
    | RestoreStateFailed
    | CheckpointingStopped
)
"""Messages to the JobMaster."""

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
    | ReportCompleted
    | TriggerDeclined
    | EventFailed
    | TriggerMasterHooks
    | RestoreMasterHooks
    | CloseMasterHooks
    | Ignore
)
