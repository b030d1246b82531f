"""Messages to a JobManager: from the election, from its store, and about more than one job."""

from __future__ import annotations

from flykka.messages.control.high_availability import ApplicationRun, SubmittedJobGraph
from flykka.messages.control.job_control import JobEnded
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId, LeaderSessionId
from flykka.messages.wire.message import Message, message
from flykka.messages.wire.ref import Ref


@message("job_manager.contending")
class LeadershipContended(Message):
    """leader election -> JobManager: the receiver takes part in the election, and will be notified when it leads."""


@message("job_manager.election_failed")
class LeaderElectionFailed(Message):
    """leader election -> JobManager: the receiver will never lead, because the store cannot be used."""

    cause: SerializedThrowable


@message("job_manager.recovered")
class JobsRecovered(Message):
    """store -> JobManager: the stored jobs and results, with which the leader of this session starts.

    `jobs` are the jobs to continue. `bound` are the ids of the jobs whose code is already loaded in this process.
    `ended` are results, whose jobs may not have been cleaned up yet. If `run` is concluded, clients have waited for its
    results.
    """

    leader_session_id: LeaderSessionId
    run: ApplicationRun
    jobs: tuple[SubmittedJobGraph, ...] = ()
    bound: tuple[JobId, ...] = ()
    ended: tuple[JobEnded, ...] = ()


@message("job_manager.recovery_failed")
class JobRecoveryFailed(Message):
    """store -> JobManager: the store cannot be read, or this session no longer leads."""

    leader_session_id: LeaderSessionId
    cause: SerializedThrowable


@message("job_manager.retry_due")
class StoreRetryDue(Message):
    """JobManager's timer -> itself: retry the failed store operation for this job."""

    job_id: JobId


@message("job_manager.recovery_retry_due")
class RecoveryRetryDue(Message):
    """JobManager's timer -> itself: retry to read the jobs to continue."""


@message("job_manager.already_ended")
class JobAlreadyEnded(Message):
    """store -> JobManager: the submitted or requested job has already ended in this run of its application."""

    end: JobEnded


@message("job_manager.result_looked_for")
class JobResultLookedUp(Message):
    """store -> JobManager: the result of the job for which `client` asks, or None if it is unknown."""

    job_id: JobId
    client: Ref
    end: JobEnded | None = None


@message("job_manager.released")
class JobMasterReleased(Message):
    """data plane and store -> JobManager: a dead JobMaster's remaining work has ended.

    `end` is set if the job had ended. `checkpoint_path` is the newest checkpoint of the job.
    """

    job_id: JobId
    end: JobEnded | None = None
    checkpoint_path: str | None = None
    cause: SerializedThrowable | None = None


@message("job_manager.put_away")
class JobArchived(Message):
    """store -> JobManager: the result of the job is recorded, and everything else of the job is removed."""

    end: JobEnded


@message("job_manager.not_put_away")
class JobArchiveFailed(Message):
    """store -> JobManager: the end of the job could not be recorded."""

    job_id: JobId
    cause: SerializedThrowable


@message("job_manager.request_run")
class RequestApplicationRun(Message):
    """client -> JobManager: send the current run of the application as soon as the receiver leads.

    With `begins_new`, a new run replaces a concluded run that is retained for clients waiting for its results.
    """

    reply_to: Ref
    begins_new: bool = False


@message("job_manager.run_found")
class ApplicationRunFound(Message):
    """JobManager -> client: the run, and the session under which its store is written."""

    run: ApplicationRun
    leader_session_id: LeaderSessionId


@message("job_manager.run_refused")
class ApplicationRunRefused(Message):
    """JobManager -> client: this process will never lead."""

    cause: SerializedThrowable


@message("job_manager.seek_due")
class LeaderLookupDue(Message):
    """client's timer -> itself: check whether a new JobManager has replaced the dead one."""
