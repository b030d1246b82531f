"""Messages between the JobManager and a JobMaster, and to themselves, while a job is accepted, runs and ends."""

from __future__ import annotations

from flykka.messages.control.job import JobStatus
from flykka.messages.tasks.accumulator import AccumulatorResults
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId, OperatorId, SlotRequestId
from flykka.messages.wire.message import Message, Value, message, value


@message("job_control.accepted")
class JobGraphAccepted(Message):
    """data plane and storage -> JobManager: the code of the graph is present, and the graph is stored.

    `master_hooks` are the identifiers of the user's master hooks, `starts` the number of earlier JobMasters of the job.
    `labels_failures` is True if the user has registered failure enrichers.
    """

    job_id: JobId
    master_hooks: tuple[str, ...] = ()
    starts: int = 0
    labels_failures: bool = False


@message("job_control.refused")
class JobGraphRefused(Message):
    """data plane and storage -> JobManager: the job cannot start.

    Its graph does not fit the code or the checkpoint to start from, or cannot be stored.
    """

    job_id: JobId
    cause: SerializedThrowable


@message("job_control.ended")
class JobEnded(Message):
    """JobMaster -> JobManager: the job has ended, and none of its work is running or waiting.

    `checkpoint_path` is the newest retained checkpoint, or None. With `deletes_checkpoints` its checkpoints are deleted
    whatever the retention.
    """

    job_id: JobId
    status: JobStatus
    cause: SerializedThrowable | None = None
    checkpoint_path: str | None = None
    accumulators: AccumulatorResults = AccumulatorResults()
    deletes_checkpoints: bool = False


@message("job_control.result_noted")
class JobResultRecorded(Message):
    """store -> JobMaster: the job's end is recorded, so that it is not run again. `cause` is set if that failed."""

    job_id: JobId
    cause: SerializedThrowable | None = None


@message("job_control.note_result_due")
class RecordResultDue(Message):
    """JobMaster's timer -> itself: retry to record the end of the job."""

    job_id: JobId


@message("job_control.attempts_ended")
class JobAttemptsEnded(Message):
    """data plane -> JobMaster: no attempt of the job is running. If `cause` is set, an attempt may still be running."""

    job_id: JobId
    cause: SerializedThrowable | None = None


@message("job_control.data_released")
class JobDataReleased(Message):
    """data plane -> JobMaster or JobManager: all data of the job is released. If `cause` is set, some may remain.

    On behalf of a dead JobMaster, the JobManager also gets the newest checkpoint of the job.
    """

    job_id: JobId
    cause: SerializedThrowable | None = None
    checkpoint_path: str | None = None


@message("job_control.restart_due")
class JobRestartDue(Message):
    """JobMaster's timer -> itself: the delay before this version of the job restarts has ended."""

    version: int


@message("job_control.deployment_timed_out")
class DeploymentTimedOut(Message):
    """JobMaster's timer -> itself: check which attempts of this deployment no TaskManager has acknowledged."""

    deployment: int


@message("job_control.slot_request_timed_out")
class SlotRequestTimedOut(Message):
    """JobMaster's timer -> itself: the slot request has exceeded its timeout."""

    request_id: SlotRequestId


@message("job_control.idle_slots_due")
class IdleSlotsDue(Message):
    """JobMaster's timer -> itself: return the slots that have been idle for a while."""


@message("job_control.split_discovery_due")
class SplitDiscoveryDue(Message):
    """JobMaster's timer -> itself: discover new splits of this source."""

    operator_id: OperatorId


@message("job_control.watermark_alignment_due")
class WatermarkAlignmentDue(Message):
    """JobMaster's timer -> itself: send the sources of this group the new maximum watermark."""

    group: str


@message("job_control.split_discovery_failed")
class SplitDiscoveryFailed(Message):
    """data plane -> JobMaster: the splits of the source cannot be discovered."""

    operator_id: OperatorId
    cause: SerializedThrowable


@message("job_control.savepoint_location_initialized")
class SavepointLocationInitialized(Message):
    """savepoint storage -> JobMaster: the folder of the savepoint is created."""

    request_id: str
    location: str


@message("job_control.savepoint_location_refused")
class SavepointLocationRefused(Message):
    """savepoint storage -> JobMaster: the folder of the savepoint cannot be created."""

    request_id: str
    cause: SerializedThrowable


@message("job_control.savepoint_discarded")
class SavepointDiscarded(Message):
    """savepoint storage -> JobMaster: a failed savepoint's files are deleted. If `cause` is set, some may remain."""

    location: str
    cause: SerializedThrowable | None = None


@message("job_control.vertices_finalized")
class JobVerticesFinalized(Message):
    """data plane -> JobMaster: finalizing the vertices, once all tasks have finished, has succeeded or failed."""

    job_id: JobId
    version: int
    cause: SerializedThrowable | None = None


@value("job_control.job_run")
class JobRun(Value):
    """The last run of the jobs with one name, as recorded in their checkpoint directory for the next run.

    The run started from `restore_path` (None: from the beginning of its input). `status` is None until the run has
    ended. Then `checkpoint_path` is the newest retained checkpoint, or the savepoint with which the job was stopped.
    """

    job_id: JobId
    job_name: str
    restore_path: str | None = None
    status: JobStatus | None = None
    checkpoint_path: str | None = None
