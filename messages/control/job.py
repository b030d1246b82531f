"""Between clients, the JobManager and the JobMasters: submission, status, cancellation, and what is worth telling."""

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
    """The states of a job."""

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
    """Messages of the JobManager to the client that submits."""

    DETACHED = "DETACHED"
    EXECUTION_RESULT = "EXECUTION_RESULT"
    EXECUTION_RESULT_AND_STATE_CHANGES = "EXECUTION_RESULT_AND_STATE_CHANGES"


@message("job.submit")
class SubmitJob(Message):
    """client -> JobManager: run this graph.

    `restore_path` is a checkpoint or a savepoint to start from; `allow_non_restored_state` lets go of what it holds
    of operators that the job does not have.
    """

    job_graph: JobGraph
    client: Ref
    listening_behaviour: ListeningBehaviour = ListeningBehaviour.EXECUTION_RESULT_AND_STATE_CHANGES
    restore_path: str | None = None
    allow_non_restored_state: bool = False


@message("job.submit_success")
class JobSubmitSuccess(Message):
    """JobManager -> client: accepted and persisted, and the checkpoint it starts from fits; scheduling follows."""

    job_id: JobId


@message("job.result_success")
class JobResultSuccess(Message):
    """JobManager -> client: the job has FINISHED; a checkpoint is kept where it was stopped.

    It is an earlier result where the job had ended when it was submitted: nothing has run for this submission.
    """

    job_id: JobId
    checkpoint_path: str | None = None
    accumulators: AccumulatorResults = AccumulatorResults()
    is_earlier: bool = False


@message("job.result_failure")
class JobResultFailure(Message):
    """JobManager -> client: the job was refused, has FAILED, or was CANCELED (`status`).

    `checkpoint_path` is the newest checkpoint that is kept, None where none is. As to `is_earlier`: see
    `JobResultSuccess`.
    """

    job_id: JobId
    cause: SerializedThrowable
    status: JobStatus = JobStatus.FAILED
    checkpoint_path: str | None = None
    is_earlier: bool = False


@message("job.register_client")
class RegisterJobClient(Message):
    """client -> JobManager -> JobMaster: tell me too how this job stands, and what becomes of it from now on.

    A client that is registered already is not told anything twice. A job that has ended is answered with its result.
    """

    job_id: JobId
    client: Ref
    listening_behaviour: ListeningBehaviour = ListeningBehaviour.EXECUTION_RESULT_AND_STATE_CHANGES


@message("job.register_client_success")
class RegisterJobClientSuccess(Message):
    """JobManager or JobMaster -> client: you are subscribed to the job, and were sent its present state."""

    job_id: JobId


@message("job.request")
class RequestJob(Message):
    """client -> JobManager: what was submitted under this id?"""

    job_id: JobId
    client: Ref


@message("job.found")
class JobFound(Message):
    """JobManager, ExecutionGraphInfoStore -> client: the job; the former knows those that have not ended."""

    job_id: JobId
    job_graph: JobGraph


@message("job.not_found")
class JobNotFound(Message):
    """JobManager -> client: there is no job of this id, or it has ended."""

    job_id: JobId


@message("job.cancel")
class CancelJob(Message):
    """client -> JobManager -> JobMaster: cancel the job; with a `cause`, it is cancelled because of that.

    With `delete_checkpoints` a job that is CANCELED deletes its checkpoints, whatever the retention.
    """

    job_id: JobId
    client: Ref
    cause: SerializedThrowable | None = None
    delete_checkpoints: bool = False


@message("job.report_client_heartbeat")
class ReportJobClientHeartbeat(Message):
    """client -> JobManager: I live, and am to be taken for dead at `expired_timestamp_ms` (ms since the epoch).

    A client that wants to know whether there is such a job gives a `reply_to`.
    """

    job_id: JobId
    expired_timestamp_ms: int
    reply_to: Ref | None = None


@message("job.client_heartbeat_noted")
class JobClientHeartbeatNoted(Message):
    """JobManager -> client: the job is there, and goes on until then."""

    job_id: JobId


@message("job.client_heartbeat_due")
class JobClientHeartbeatDue(Message):
    """client's timer -> itself: time to give a sign of life."""


@message("job.client_expired")
class JobClientExpired(Message):
    """JobManager's timer -> itself: the client of this job may have given no sign of life in time."""

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
    """client -> JobManager -> JobMaster: take a last checkpoint, publish what it holds, keep it, and finish.

    With a `savepoint_directory` the last one is a savepoint, in a new folder below. With `drain` event time is
    moved to its end first, so that every window fires.
    """

    job_id: JobId
    client: Ref
    savepoint_directory: str | None = None
    drain: bool = False


@message("job.stopping_success")
class StoppingSuccess(Message):
    """JobManager -> client: the job was stopped and has FINISHED; its last checkpoint is kept."""

    job_id: JobId
    checkpoint_path: str = ""


@message("job.stopping_failure")
class StoppingFailure(Message):
    """JobMaster -> JobManager -> client: the job was not stopped: it is not running, or goes on, or ends otherwise."""

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
    """JobMaster -> JobManager -> client: the savepoint that `client` has asked for is complete."""

    job_id: JobId
    client: Ref
    savepoint_path: str


@message("job.trigger_savepoint_failure")
class TriggerSavepointFailure(Message):
    """JobMaster -> JobManager -> client: there is no savepoint, and nothing is left of it."""

    job_id: JobId
    client: Ref
    cause: SerializedThrowable


class CheckpointType(StrEnum):
    """The kind of a checkpoint that is asked for (Flink's CheckpointType).

    A FULL one writes all state again and refers to nothing that was written before; later ones may refer to it. All
    others are INCREMENTAL, and so is a CONFIGURED one.
    """

    CONFIGURED = "CONFIGURED"
    FULL = "FULL"
    INCREMENTAL = "INCREMENTAL"


@message("job.request_checkpoint")
class RequestCheckpoint(Message):
    """client -> JobManager -> JobMaster: take a checkpoint as soon as those allow that are under way."""

    job_id: JobId
    client: Ref
    checkpoint_type: CheckpointType = CheckpointType.CONFIGURED


@message("job.request_checkpoint_success")
class RequestCheckpointSuccess(Message):
    """JobMaster -> JobManager -> client: the checkpoint that `client` has asked for is complete."""

    job_id: JobId
    client: Ref
    checkpoint_id: int
    checkpoint_path: str


@message("job.request_checkpoint_failure")
class RequestCheckpointFailure(Message):
    """JobMaster -> JobManager -> client: the checkpoint did not come about."""

    job_id: JobId
    client: Ref
    cause: SerializedThrowable


@message("job.status_changed")
class JobStatusChanged(Message):
    """JobMaster -> listeners, the CheckpointCoordinatorDeActivator among them: the job has a new status."""

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

    Attempts that follow start from it if it `is_retained`; a savepoint that is taken meanwhile is not.
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
    """CheckpointCoordinator -> JobMaster -> listeners: a pending checkpoint was given up.

    Without a `failure` the coordinator gave it up itself, as for a restart of the job.
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
    """JobMaster -> listeners: a TaskManager that ran tasks of the job is gone."""

    job_id: JobId
    task_manager: TaskManagerId
    reason: str
    timestamp_ms: int


@message("job.metrics_reported")
class MetricsReported(Message):
    """JobMaster -> listeners: what an attempt has done so far.

    `files_unassigned` files of the source that its vertex begins with wait for any of the readers.
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
    """listener -> JobClientActor: forward to me what you know of the job, and what you receive from now on."""

    listener: Ref
