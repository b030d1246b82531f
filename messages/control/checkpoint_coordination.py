"""Messages between the JobMaster, its CheckpointCoordinator and the CheckpointCoordinatorDeActivator."""

from __future__ import annotations

from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, CompletedCheckpoint, MasterState
from flykka.messages.control.job import JobStatus
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, JobVertexId, LeaderSessionId
from flykka.messages.wire.message import Message, Value, message, value
from flykka.messages.wire.ref import Ref


@value("coordination.task")
class CoordinatedTask(Value):
    """An execution attempt that takes part in checkpoints. The coordinator triggers sources; other tasks receive
    barriers.

    A task without pipelined inputs counts as a source.
    """

    attempt: ExecutionAttemptId
    vertex_id: JobVertexId
    subtask: int
    parallelism: int
    max_parallelism: int
    task_manager: Ref
    state: ExecutionState
    is_source: bool


@message("coordination.tasks_changed")
class CoordinatedTasks(Message):
    """JobMaster -> CheckpointCoordinator: these are the current attempts of the job; earlier attempts have ended.

    Sent once per deployment, followed by single state changes. Messages to the tasks carry the leader session.
    """

    job_id: JobId
    tasks: tuple[CoordinatedTask, ...]
    leader_session_id: LeaderSessionId


@message("coordination.task_state_changed")
class CoordinatedTaskStateChanged(Message):
    """JobMaster -> CheckpointCoordinator: an attempt of the job has a new state."""

    job_id: JobId
    attempt: ExecutionAttemptId
    state: ExecutionState


@message("coordination.start_scheduler")
class StartCheckpointScheduler(Message):
    """CheckpointCoordinatorDeActivator -> CheckpointCoordinator: the job is running, so trigger periodically."""

    job_id: JobId


@message("coordination.stop_scheduler")
class StopCheckpointScheduler(Message):
    """CheckpointCoordinatorDeActivator -> CheckpointCoordinator: the job does not run, so abort pending checkpoints."""

    job_id: JobId


@message("coordination.final_checkpoint_request")
class FinalCheckpointRequest(Message):
    """JobMaster -> CheckpointCoordinator: every attempt has reached the end of its data; take the final checkpoint."""

    job_id: JobId


@message("coordination.stop_request")
class StopCheckpointRequest(Message):
    """JobMaster -> CheckpointCoordinator: stop the job by taking its last checkpoint, and retain it.

    With a `target_location` it is a savepoint, whose path `SavepointCompleted` reports. With `drain` the sources first
    send the end of their data: windows fire, and the job is not meant to be continued. `StopCheckpointFailed` reports
    that the stop was abandoned, `SavepointFailed` that the job failed or ended without a savepoint.
    """

    job_id: JobId
    target_location: str | None = None
    drain: bool = False
    request_id: str | None = None


@message("coordination.stop_failed")
class StopCheckpointFailed(Message):
    """CheckpointCoordinator -> JobMaster: the last checkpoint of a stop was aborted, and the job continues.

    Without a `checkpoint_id` the checkpoint was never triggered.
    """

    job_id: JobId
    checkpoint_id: int | None
    reason: CheckpointDeclineReason
    cause: SerializedThrowable | None = None
    request_id: str | None = None


@message("coordination.savepoint_request")
class SavepointRequest(Message):
    """JobMaster -> CheckpointCoordinator: take a savepoint at `target_location` while the job continues.

    The reply is one `SavepointCompleted` or `SavepointFailed` with the same `request_id`.
    """

    job_id: JobId
    request_id: str
    target_location: str


@message("coordination.checkpoint_request")
class CheckpointRequest(Message):
    """JobMaster -> CheckpointCoordinator: take a checkpoint now. The replies are those of `SavepointRequest`."""

    job_id: JobId
    request_id: str
    is_full: bool = False


@message("coordination.savepoint_completed")
class SavepointCompleted(Message):
    """CheckpointCoordinator -> JobMaster: the savepoint, or the requested checkpoint, is complete at `path`."""

    job_id: JobId
    request_id: str
    checkpoint_id: int
    path: str


@message("coordination.savepoint_failed")
class SavepointFailed(Message):
    """CheckpointCoordinator -> JobMaster: the savepoint or the requested checkpoint was declined or aborted."""

    job_id: JobId
    request_id: str
    reason: CheckpointDeclineReason
    cause: SerializedThrowable | None = None


@message("coordination.abort_pending")
class AbortPendingCheckpoints(Message):
    """JobMaster -> CheckpointCoordinator: abort all pending checkpoints, because tasks restart."""

    job_id: JobId
    reason: CheckpointDeclineReason = CheckpointDeclineReason.JOB_FAILOVER_REGION


@message("coordination.request_restore_state")
class RequestRestoreState(Message):
    """JobMaster -> CheckpointCoordinator: send the state from which new attempts start.

    This is the latest completed checkpoint, or else the checkpoint at `path`, which becomes the job's first. The reply
    repeats `version`. Pending checkpoints are aborted, because their attempts have ended. With
    `allow_non_restored_state`, state of master hooks that the job does not have is dropped.
    """

    job_id: JobId
    version: int = 0
    path: str | None = None
    allow_non_restored_state: bool = False


@message("coordination.restore_state")
class RestoreState(Message):
    """CheckpointCoordinator -> JobMaster: start from this checkpoint (None: from the beginning)."""

    job_id: JobId
    checkpoint: CompletedCheckpoint | None
    version: int = 0


@message("coordination.restore_failed")
class RestoreStateFailed(Message):
    """CheckpointCoordinator -> JobMaster: the checkpoint that was requested by its path cannot be read."""

    job_id: JobId
    cause: SerializedThrowable
    version: int = 0


@message("coordination.too_many_failures")
class CheckpointFailuresExceeded(Message):
    """CheckpointCoordinator -> JobMaster: more checkpoints in a row failed than are tolerated, so fail the job."""

    job_id: JobId
    cause: SerializedThrowable


@message("coordination.stop_checkpointing")
class StopCheckpointing(Message):
    """JobMaster -> CheckpointCoordinator: the job has ended with this status. Retain or delete its checkpoints, then
    reply.

    With `delete_checkpoints` all are deleted, whatever the retention.
    """

    job_id: JobId
    job_status: JobStatus
    delete_checkpoints: bool = False


@message("coordination.checkpointing_stopped")
class CheckpointingStopped(Message):
    """CheckpointCoordinator -> JobMaster: no checkpoint is pending, and checkpoints that are not retained are deleted.

    `retained` are the addresses of the retained checkpoints, oldest first.
    """

    job_id: JobId
    retained: tuple[str, ...] = ()


@message("coordination.periodic_trigger_due")
class PeriodicTriggerDue(Message):
    """CheckpointCoordinator's timer -> itself: the next periodic checkpoint is due."""


@message("coordination.final_retry_due")
class FinalCheckpointRetryDue(Message):
    """CheckpointCoordinator's timer -> itself: retry the final checkpoint, which has failed."""


@message("coordination.checkpoint_timed_out")
class CheckpointTimedOut(Message):
    """CheckpointCoordinator's timer -> itself: the checkpoint has exceeded its timeout."""

    checkpoint_id: int


@message("coordination.master_hooks_triggered")
class MasterHooksTriggered(Message):
    """master hooks -> CheckpointCoordinator: all hooks have run for the checkpoint. Contains their states."""

    checkpoint_id: int
    states: tuple[MasterState, ...] = ()


@message("coordination.master_hook_failed")
class MasterHookFailed(Message):
    """master hooks -> CheckpointCoordinator: a hook failed for the checkpoint."""

    checkpoint_id: int
    cause: SerializedThrowable
    reason: CheckpointDeclineReason = CheckpointDeclineReason.TRIGGER_CHECKPOINT_FAILURE


@message("coordination.master_hooks_restored")
class MasterHooksRestored(Message):
    """master hooks -> CheckpointCoordinator: all hooks are restored."""

    version: int


@message("coordination.master_hook_restore_failed")
class MasterHookRestoreFailed(Message):
    """master hooks -> CheckpointCoordinator: a hook could not be restored."""

    version: int
    cause: SerializedThrowable


@message("coordination.master_hooks_closed")
class MasterHooksClosed(Message):
    """master hooks -> CheckpointCoordinator: the hooks are closed. `cause` is set if closing one of them failed."""

    cause: SerializedThrowable | None = None


@value("coordination.checkpoint_ids")
class CheckpointIds(Value):
    """Consecutive checkpoint ids that no other caller gets."""

    first: int
    count: int


@message("coordination.checkpoints_recovered")
class CheckpointsRecovered(Message):
    """checkpoint store -> CheckpointCoordinator: the receiver is now the owner of the job's checkpoints.

    `completed` are the completed checkpoints, oldest first. `adopted` is the checkpoint of an earlier job from which
    the job started.
    """

    ids: CheckpointIds
    completed: tuple[CompletedCheckpoint, ...] = ()
    adopted: CompletedCheckpoint | None = None


@message("coordination.checkpoints_not_recovered")
class CheckpointsNotRecovered(Message):
    """checkpoint store -> CheckpointCoordinator: the checkpoints to continue from cannot be read."""

    cause: SerializedThrowable


@message("coordination.checkpoint_ids_drawn")
class CheckpointIdsDrawn(Message):
    """checkpoint store -> CheckpointCoordinator: these ids are reserved for the job."""

    ids: CheckpointIds


@message("coordination.checkpoint_ids_not_drawn")
class CheckpointIdsNotDrawn(Message):
    """checkpoint store -> CheckpointCoordinator: no id could be drawn for the next checkpoint."""

    cause: SerializedThrowable


@message("coordination.checkpoint_store_unavailable")
class CheckpointStoreUnavailable(Message):
    """checkpoint store -> CheckpointCoordinator: recovery is impossible now; retry later."""

    cause: SerializedThrowable


@message("coordination.checkpoint_store_retry_due")
class CheckpointStoreRetryDue(Message):
    """CheckpointCoordinator's timer -> itself: retry the recovery, because the store was unavailable."""


@message("coordination.checkpoint_leadership_lost")
class CheckpointLeadershipLost(Message):
    """checkpoint store -> CheckpointCoordinator: another process leads, or coordinates the job; changes are refused."""

    cause: SerializedThrowable


@message("coordination.metadata_written")
class MetadataWritten(Message):
    """checkpoint storage -> CheckpointCoordinator: the metadata is durable at `path`, and the checkpoint complete.

    A savepoint is not added to the store unless the job ends with it. `ids` are reserved for later checkpoints.
    """

    checkpoint_id: int
    path: str
    ids: CheckpointIds | None = None


@message("coordination.metadata_write_failed")
class MetadataWriteFailed(Message):
    """checkpoint storage -> CheckpointCoordinator: the metadata could not be written. Incomplete files were deleted."""

    checkpoint_id: int
    cause: SerializedThrowable


@message("coordination.metadata_read")
class MetadataRead(Message):
    """checkpoint storage -> CheckpointCoordinator: the checkpoint from which the job should start."""

    version: int
    checkpoint: CompletedCheckpoint
    allow_non_restored_state: bool = False
    ids: CheckpointIds | None = None


@message("coordination.metadata_read_failed")
class MetadataReadFailed(Message):
    """checkpoint storage -> CheckpointCoordinator: the checkpoint from which the job should start cannot be read."""

    version: int
    cause: SerializedThrowable


@message("coordination.disposed")
class Disposed(Message):
    """checkpoint storage -> CheckpointCoordinator: the deletion has ended. `cause` is set if files may remain."""

    cause: SerializedThrowable | None = None
