"""What the CheckpointCoordinator asks its shell to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from flykka.actors.machines.ignore import Ignore
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, CheckpointOptions
from flykka.messages.checkpointing.metadata import CompletedCheckpoint
from flykka.messages.checkpointing.statistics import CheckpointTriggered, SubtasksAcknowledged
from flykka.messages.state.handles import ExclusiveStateHandle, SharedStateHandle
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId


class TimerKind(StrEnum):
    """The timers of a coordinator; there is one TIMEOUT per pending checkpoint, of the others one."""

    PERIODIC = "periodic"
    FINAL_RETRY = "final-retry"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawCheckpointId:
    """Get an id that nobody else has and come back with `CheckpointIdDrawn` or `CheckpointIdsNotDrawn`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotCoordinators:
    """Have the JobMaster snapshot its operator coordinators."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerTask:
    """Tell a source to take its snapshot and to send the barrier."""

    attempt: ExecutionAttemptId
    checkpoint_id: int
    timestamp_ms: int
    options: CheckpointOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMetadata:
    """Make the checkpoint durable and come back with `MetadataWritten` or `MetadataWriteFailed`.

    One that `is_retained` is added to the store with that: whoever takes the job over begins with it.
    """

    checkpoint: CompletedCheckpoint
    target_location: str | None = None
    is_retained: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMetadata:
    """Read the checkpoint of an earlier job, and come back with `CheckpointAdopted`."""

    version: int
    path: str
    allow_unmatched: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTimer:
    """Come back with the timer's event after `delay_ms`; it replaces a running one of the same kind and checkpoint."""

    kind: TimerKind
    delay_ms: int
    checkpoint_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTimer:
    """Forget a timer."""

    kind: TimerKind
    checkpoint_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyComplete:
    """Tell an attempt that the checkpoint is complete and durable."""

    attempt: ExecutionAttemptId
    checkpoint_id: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyAborted:
    """Tell an attempt that the checkpoint will not complete."""

    attempt: ExecutionAttemptId
    checkpoint_id: int
    latest_completed_id: int | None
    timestamp_ms: int


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
class FailJob:
    """Too many checkpoints failed: fail the job."""

    cause: SerializedThrowable


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFailure:
    """Why a checkpoint was given up, and what was behind that where it is known."""

    reason: CheckpointDeclineReason
    cause: SerializedThrowable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportStopFailed:
    """Tell whoever stops the job that its last checkpoint was given up, and that the job goes on.

    Without a `checkpoint_id` it had not begun.
    """

    checkpoint_id: int | None
    failure: CheckpointFailure
    request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSavepointCompleted:
    """Tell whoever asked for the savepoint where it is."""

    request_id: str
    checkpoint_id: int
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSavepointFailed:
    """Tell whoever asked for the savepoint that there will be none."""

    request_id: str
    failure: CheckpointFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportCompleted:
    """Tell those who listen that the checkpoint is complete; one that `is_retained` may be what attempts start from."""

    checkpoint: CompletedCheckpoint
    duration_ms: int
    size_bytes: int
    incremental_bytes: int
    is_retained: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportAborted:
    """Tell those who listen that a pending checkpoint was given up."""

    checkpoint_id: int
    reason: CheckpointDeclineReason


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerDeclined:
    """A request was declined: the answer to whoever asked, with the cause where something has gone wrong."""

    reason: CheckpointDeclineReason
    cause: SerializedThrowable | None = None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """Answer `RestoreRequested`."""

    version: int
    checkpoint: CompletedCheckpoint | None
    allow_unmatched: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFailed:
    """Answer `RestoreRequested`: the job cannot start from its checkpoint."""

    version: int
    cause: SerializedThrowable


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportStopped:
    """Everything is over: nothing is pending, nothing is being written or deleted."""

    retained: tuple[str, ...]


CheckpointReport = CheckpointTriggered | SubtasksAcknowledged
"""Messages to the statistics. An acknowledgement is a report of its own here; the shell puts several into one."""

CoordinatorEffect = (
    DrawCheckpointId
    | SnapshotCoordinators
    | TriggerTask
    | WriteMetadata
    | ReadMetadata
    | StartTimer
    | CancelTimer
    | NotifyComplete
    | NotifyAborted
    | Dispose
    | DeleteJob
    | FailJob
    | ReportStopFailed
    | ReportSavepointCompleted
    | ReportSavepointFailed
    | CheckpointReport
    | ReportCompleted
    | ReportAborted
    | TriggerDeclined
    | TriggerMasterHooks
    | RestoreMasterHooks
    | CloseMasterHooks
    | Restore
    | RestoreFailed
    | ReportStopped
    | Ignore
)
