"""Messages between clients, the JobManager and JobMasters: submission, status, cancellation, and changes of jobs."""

from __future__ import annotations

from enum import StrEnum

from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, CheckpointFailure
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.tasks.accumulator import AccumulatorResults, AccumulatorSnapshot
from flykka.messages.tasks.task import ExecutionState, TaskIOMetrics
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, JobVertexId, TaskManagerId
from flykka.messages.wire.message import Message, message
from flykka.messages.wire.ref import Ref


class JobStatus(StrEnum):
    CREATED = "CREATED"
    RUNNING = "RUNNING"
    FAILING = "FAILING"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELED = "CANCELED"
    FINISHED = "FINISHED"
    RESTARTING = "RESTARTING"
    SUSPENDED = "SUSPENDED"
    RECONCILING = "RECONCILING"


class ListeningBehaviour(StrEnum):
    """The messages that a client gets from the JobManager after submitting a job."""

    DETACHED = "DETACHED"
    EXECUTION_RESULT = "EXECUTION_RESULT"
    EXECUTION_RESULT_AND_STATE_CHANGES = "EXECUTION_RESULT_AND_STATE_CHANGES"


@message("job.submit")
class SubmitJob(Message):
    """client -> JobManager: run this graph.

    `restore_path` is a checkpoint or savepoint to start from. With `allow_non_restored_state`, its state of operators
    that the job does not have is dropped.
    """

    job_graph: JobGraph
    client: Ref
    listening_behaviour: ListeningBehaviour = ListeningBehaviour.EXECUTION_RESULT_AND_STATE_CHANGES
    restore_path: str | None = None
    allow_non_restored_state: bool = False


@message("job.submit_success")
class JobSubmitSuccess(Message):
    """JobManager -> client: the job is accepted and persisted, and the checkpoint to start from fits."""

    job_id: JobId


@message("job.result_success")
class JobResultSuccess(Message):
    """JobManager -> client: the job has FINISHED. If it was stopped, its last checkpoint is retained.

    If `is_earlier`, the job had already ended when it was submitted, and this submission has run nothing.
    """

    job_id: JobId
    checkpoint_path: str | None = None
    accumulators: AccumulatorResults = AccumulatorResults()
    is_earlier: bool = False


@message("job.result_failure")
class JobResultFailure(Message):
    """JobManager -> client: the job was refused, has FAILED, or was CANCELED (`status`).

    `checkpoint_path` is the newest retained checkpoint, or None. For `is_earlier` see `JobResultSuccess`.
    """

    job_id: JobId
    cause: SerializedThrowable
    status: JobStatus = JobStatus.FAILED
    checkpoint_path: str | None = None
    is_earlier: bool = False


@message("job.register_client")
class RegisterJobClient(Message):
    """client -> JobManager -> JobMaster: send the client the current state of this job, and all later changes.

    A client that is already registered receives nothing twice. For an ended job the reply is its result.
    """

    job_id: JobId
    client: Ref
    listening_behaviour: ListeningBehaviour = ListeningBehaviour.EXECUTION_RESULT_AND_STATE_CHANGES


@message("job.register_client_success")
class RegisterJobClientSuccess(Message):
    """JobManager or JobMaster -> client: the client is subscribed to the job, and its current state was sent."""

    job_id: JobId


@message("job.request")
class RequestJob(Message):
    """client -> JobManager: return the graph that was submitted under this id."""

    job_id: JobId
    client: Ref


@message("job.found")
class JobFound(Message):
    """JobManager, ExecutionGraphInfoStore -> client: the job. The JobManager only knows jobs that have not ended."""

    job_id: JobId
    job_graph: JobGraph


@message("job.not_found")
class JobNotFound(Message):
    """JobManager -> client: there is no job with this id, or it has ended."""

    job_id: JobId


@message("job.cancel")
class CancelJob(Message):
    """client -> JobManager -> JobMaster: cancel the job, for this `cause` if there is one.

    With `delete_checkpoints` a job that is CANCELED deletes its checkpoints, whatever the retention.
    """

    job_id: JobId
    client: Ref
    cause: SerializedThrowable | None = None
    delete_checkpoints: bool = False


@message("job.report_client_heartbeat")
class ReportJobClientHeartbeat(Message):
    """client -> JobManager: the client is alive, and counts as dead after `expired_timestamp_ms` (ms since the epoch).

    If `reply_to` is set, it is notified whether the job exists.
    """

    job_id: JobId
    expired_timestamp_ms: int
    reply_to: Ref | None = None


@message("job.client_heartbeat_noted")
class JobClientHeartbeatAccepted(Message):
    """JobManager -> client: the job exists, and continues until this time."""

    job_id: JobId


@message("job.client_heartbeat_due")
class JobClientHeartbeatDue(Message):
    """client's timer -> itself: send a heartbeat."""


@message("job.client_expired")
class JobClientExpired(Message):
    """JobManager's timer -> itself: check whether the heartbeats of this job's client have timed out."""

    job_id: JobId


@message("job.cancellation_success")
class CancellationSuccess(Message):
    """JobManager -> client: the job is being cancelled."""

    job_id: JobId


@message("job.cancellation_failure")
class CancellationFailure(Message):
    """JobManager -> client: there is no such job to cancel."""

    job_id: JobId
    cause: SerializedThrowable


@message("job.stop")
class StopJob(Message):
    """client -> JobManager -> JobMaster: take a final checkpoint, publish its rows, retain it, and finish.

    With a `savepoint_directory` the checkpoint is a savepoint, in a new folder of that directory. With `drain` event
    time first advances to its end, so that every window fires.
    """

    job_id: JobId
    client: Ref
    savepoint_directory: str | None = None
    drain: bool = False


@message("job.stopping_success")
class StoppingSuccess(Message):
    """JobManager -> client: the job was stopped and has FINISHED. Its last checkpoint is retained."""

    job_id: JobId
    checkpoint_path: str = ""


@message("job.stopping_failure")
class StoppingFailure(Message):
    """JobMaster -> JobManager -> client: the job was not stopped. It is not running, continues, or ended otherwise."""

    job_id: JobId
    cause: SerializedThrowable


@message("job.trigger_savepoint")
class TriggerSavepoint(Message):
    """client -> JobManager -> JobMaster: take a savepoint, in a new folder below this directory."""

    job_id: JobId
    client: Ref
    savepoint_directory: str


@message("job.trigger_savepoint_success")
class TriggerSavepointSuccess(Message):
    """JobMaster -> JobManager -> client: the savepoint that `client` requested is complete."""

    job_id: JobId
    client: Ref
    savepoint_path: str


@message("job.trigger_savepoint_failure")
class TriggerSavepointFailure(Message):
    """JobMaster -> JobManager -> client: the savepoint failed, and its files are deleted."""

    job_id: JobId
    client: Ref
    cause: SerializedThrowable


class CheckpointType(StrEnum):
    """The type of a requested checkpoint (Flink's CheckpointType).

    A FULL checkpoint writes all state again and does not refer to earlier state; later checkpoints may refer to it. All
    other checkpoints are INCREMENTAL, including a CONFIGURED one.
    """

    CONFIGURED = "CONFIGURED"
    FULL = "FULL"
    INCREMENTAL = "INCREMENTAL"


@message("job.request_checkpoint")
class RequestCheckpoint(Message):
    """client -> JobManager -> JobMaster: take a checkpoint as soon as the pending ones allow it."""

    job_id: JobId
    client: Ref
    checkpoint_type: CheckpointType = CheckpointType.CONFIGURED


@message("job.request_checkpoint_success")
class RequestCheckpointSuccess(Message):
    """JobMaster -> JobManager -> client: the checkpoint that `client` requested is complete."""

    job_id: JobId
    client: Ref
    checkpoint_id: int
    checkpoint_path: str


@message("job.request_checkpoint_failure")
class RequestCheckpointFailure(Message):
    """JobMaster -> JobManager -> client: the checkpoint failed."""

    job_id: JobId
    client: Ref
    cause: SerializedThrowable


@message("job.status_changed")
class JobStatusChanged(Message):
    """JobMaster -> listeners, including the CheckpointCoordinatorDeActivator: the job has a new status."""

    job_id: JobId
    status: JobStatus
    timestamp_ms: int
    cause: SerializedThrowable | None = None


@message("job.execution_state_changed")
class ExecutionStateChanged(Message):
    """JobMaster -> listeners: an attempt has a new state."""

    job_id: JobId
    attempt: ExecutionAttemptId
    task_name: str
    state: ExecutionState
    timestamp_ms: int
    task_manager: TaskManagerId | None = None
    failure: SerializedThrowable | None = None


@message("job.checkpoint_completed")
class CheckpointCompleted(Message):
    """CheckpointCoordinator -> JobMaster -> listeners: a checkpoint is complete.

    If `is_retained`, later attempts start from it; savepoints are not retained.
    """

    job_id: JobId
    checkpoint_id: int
    duration_ms: int
    size_bytes: int
    incremental_bytes: int
    path: str
    timestamp_ms: int
    is_retained: bool = True


@message("job.checkpoint_aborted")
class CheckpointAborted(Message):
    """CheckpointCoordinator -> JobMaster -> listeners: a pending checkpoint was aborted.

    Without a `failure` the coordinator itself aborted it, for example because the job restarts.
    """

    job_id: JobId
    checkpoint_id: int
    reason: CheckpointDeclineReason
    timestamp_ms: int
    failure: CheckpointFailure | None = None


@message("job.restored")
class JobRestored(Message):
    """JobMaster -> listeners: the new attempts start from this checkpoint (None: from the beginning)."""

    job_id: JobId
    checkpoint_id: int | None
    timestamp_ms: int


@message("job.task_manager_lost")
class TaskManagerLost(Message):
    """JobMaster -> listeners: a TaskManager that ran tasks of the job was lost."""

    job_id: JobId
    task_manager: TaskManagerId
    reason: str
    timestamp_ms: int


@message("job.metrics_reported")
class MetricsReported(Message):
    """JobMaster -> listeners: the metrics of an attempt since its start.

    `files_unassigned` is the number of files of the vertex's source that are not assigned to a reader yet.
    """

    job_id: JobId
    attempt: ExecutionAttemptId
    task_name: str
    metrics: TaskIOMetrics
    vertex_id: JobVertexId = JobVertexId("")
    subtask: int = 0
    accumulators: tuple[AccumulatorSnapshot, ...] = ()
    files_unassigned: int = 0


@message("job.add_listener")
class AddJobListener(Message):
    """listener -> JobClientActor: forward to the listener all past and future reports about the job."""

    listener: Ref
