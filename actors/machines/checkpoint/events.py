"""Events of the CheckpointCoordinator, beside the messages of the checkpoint conversation themselves."""

from __future__ import annotations

from dataclasses import dataclass, field

from flykka.actors.machines.checkpoint.final_checkpoint import Stop
from flykka.actors.machines.checkpoint.plan import PlannedTask
from flykka.actors.machines.checkpoint.properties import CheckpointProperties
from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    CheckpointDeclineReason,
    DeclineCheckpoint,
    OperatorCoordinatorsSnapshotted,
)
from flykka.messages.checkpointing.metadata import CompletedCheckpoint
from flykka.messages.control.checkpoint_coordination import (
    CheckpointIdsNotDrawn,
    CheckpointLeadershipLost,
    CheckpointsNotRecovered,
    CheckpointsRecovered,
    CheckpointTimedOut,
    FinalCheckpointRetryDue,
    MasterHookFailed,
    MasterHookRestoreFailed,
    MasterHooksRestored,
    MasterHooksTriggered,
    MetadataWriteFailed,
    MetadataWritten,
    PeriodicTriggerDue,
)
from flykka.messages.control.job import JobStatus
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.ids import ExecutionAttemptId


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksChanged:
    """The job has these attempts now, and no other."""

    tasks: tuple[PlannedTask, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStateChanged:
    """An attempt has a new state."""

    attempt: ExecutionAttemptId
    state: ExecutionState


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerStarted:
    """The job runs: trigger periodically, the first time one interval from now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerStopped:
    """The job does not run: trigger no more and give up what is pending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerRequested:
    """Somebody wants a checkpoint. With a `request_id` the end of it is told under that, however it ends."""

    properties: CheckpointProperties
    is_periodic: bool = False
    request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointIdDrawn:
    """The counter has answered `DrawCheckpointId`."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalCheckpointRequested:
    """Every attempt has reported the end of its data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested:
    """The job is to end with a last checkpoint, or with a savepoint, which is kept."""

    stop: Stop = field(default_factory=Stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingAborted:
    """The tasks are being restarted: every pending checkpoint is to be given up, and a stop with them."""

    reason: CheckpointDeclineReason


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequested:
    """New attempts are about to be made: from what? `version` comes back with the answer.

    A job that has no checkpoint of its own starts from that at `path`, if it was given one.
    """

    version: int
    path: str | None = None
    allow_unmatched: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAdopted:
    """The job starts from this checkpoint of an earlier one, whose files stay that one's.

    It is answered as `RestoreRequested` is; a job that has a checkpoint of its own meanwhile starts from that.
    """

    version: int
    checkpoint: CompletedCheckpoint
    allow_unmatched: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shutdown:
    """The job has ended in this status."""

    job_status: JobStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class DisposalEnded:
    """A `Dispose` or `DeleteJob` has run its course."""


CoordinatorEvent = (
    TasksChanged
    | TaskStateChanged
    | SchedulerStarted
    | SchedulerStopped
    | PeriodicTriggerDue
    | TriggerRequested
    | CheckpointIdDrawn
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
    | FinalCheckpointRequested
    | StopRequested
    | FinalCheckpointRetryDue
    | PendingAborted
    | CheckpointsRecovered
    | CheckpointsNotRecovered
    | CheckpointLeadershipLost
    | RestoreRequested
    | CheckpointAdopted
    | Shutdown
    | DisposalEnded
)
