"""Messages between the JobManager and a JobMaster, and to themselves, while a job is accepted, runs and ends."""

from __future__ import annotations

from flykka.messages.control.job import JobStatus
from flykka.messages.tasks.accumulator import AccumulatorResults
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId, OperatorId, SlotRequestId
from flykka.messages.wire.message import Message, Value, message, value


@message("job_control.accepted")
class JobGraphAccepted(Message):
    """data plane and storage -> JobManager: the code of the graph is there, and the graph is stored.

    `master_hooks` are the identifiers of the user's hooks that run beside its checkpoints, `starts` the number of
    JobMasters that the job had before. Where the user `labels_failures`, there are enrichers to be asked for labels.
    """

    job_id: JobId
    master_hooks: tuple[str, ...] = ()
    starts: int = 0
    labels_failures: bool = False


@message("job_control.refused")
class JobGraphRefused(Message):
    """data plane and storage -> JobManager: the job cannot begin.

    Its graph does not fit the code that is there, or the checkpoint that it is to start from, or cannot be stored.
    """

    job_id: JobId
    cause: SerializedThrowable


@message("job_control.ended")
class JobEnded(Message):
    """JobMaster -> JobManager: the job has come to its end, and nothing of it runs or waits any more.

    `checkpoint_path` is the newest checkpoint that is kept, None where none is. With `deletes_checkpoints` its
    checkpoints are deleted whatever the retention.
    """

    job_id: JobId
    status: JobStatus
    cause: SerializedThrowable | None = None
    checkpoint_path: str | None = None
    accumulators: AccumulatorResults = AccumulatorResults()
    deletes_checkpoints: bool = False


@message("job_control.result_noted")
class JobResultNoted(Message):
    """store -> JobMaster: how the job has ended is noted; nobody runs it again. With a cause, it is not."""

    job_id: JobId
    cause: SerializedThrowable | None = None


@message("job_control.note_result_due")
class NoteResultDue(Message):
    """JobMaster's timer -> itself: time to try again to note how the job has ended."""

    job_id: JobId


@message("job_control.attempts_ended")
class JobAttemptsEnded(Message):
    """data plane -> JobMaster: no attempt of the job works any more; with a cause, one may."""

    job_id: JobId
    cause: SerializedThrowable | None = None


@message("job_control.data_released")
class JobDataReleased(Message):
    """data plane -> JobMaster or JobManager: nothing of the job is left; with a cause, something may be.

    The JobManager, which speaks for a JobMaster that died, is told the newest checkpoint of the job too.
    """

    job_id: JobId
    cause: SerializedThrowable | None = None
    checkpoint_path: str | None = None


@message("job_control.restart_due")
class JobRestartDue(Message):
    """JobMaster's timer -> itself: the pause before the restart of this version of the job is over."""

    version: int


@message("job_control.deployment_timed_out")
class DeploymentTimedOut(Message):
    """JobMaster's timer -> itself: time to look which attempts of this deployment no TaskManager has acknowledged."""

    deployment: int


@message("job_control.slot_request_timed_out")
class SlotRequestTimedOut(Message):
    """JobMaster's timer -> itself: the request has waited for a slot for as long as it may."""

    request_id: SlotRequestId


@message("job_control.idle_slots_due")
class IdleSlotsDue(Message):
    """JobMaster's timer -> itself: time to give back the slots that nobody has needed for a while."""


@message("job_control.split_discovery_due")
class SplitDiscoveryDue(Message):
    """JobMaster's timer -> itself: time to look at this source again."""

    operator_id: OperatorId


@message("job_control.watermark_alignment_due")
class WatermarkAlignmentDue(Message):
    """JobMaster's timer -> itself: time to tell the sources of this group how far they may go."""

    group: str


@message("job_control.split_discovery_failed")
class SplitDiscoveryFailed(Message):
    """data plane -> JobMaster: the source cannot be looked at."""

    operator_id: OperatorId
    cause: SerializedThrowable


@message("job_control.savepoint_location_initialized")
class SavepointLocationInitialized(Message):
    """savepoint storage -> JobMaster: the folder of the savepoint is made."""

    request_id: str
    location: str


@message("job_control.savepoint_location_refused")
class SavepointLocationRefused(Message):
    """savepoint storage -> JobMaster: there can be no folder for the savepoint."""

    request_id: str
    cause: SerializedThrowable


@message("job_control.savepoint_discarded")
class SavepointDiscarded(Message):
    """savepoint storage -> JobMaster: what there was of a failed savepoint is gone; with a cause, some may not be."""

    location: str
    cause: SerializedThrowable | None = None


@message("job_control.vertices_finalized")
class JobVerticesFinalized(Message):
    """data plane -> JobMaster: what a job does once when all of its tasks have finished is done, or has failed."""

    job_id: JobId
    version: int
    cause: SerializedThrowable | None = None


@value("job_control.job_run")
class JobRun(Value):
    """The last run of the jobs of one name, as it is noted below their checkpoint directory for the run after it.

    It began from `restore_path` (None: from the beginning of its input). `status` is None until it has come to its end;
    then `checkpoint_path` is the newest checkpoint that is kept, or the savepoint that it was stopped with.
    """

    job_id: JobId
    job_name: str
    restore_path: str | None = None
    status: JobStatus | None = None
    checkpoint_path: str | None = None
