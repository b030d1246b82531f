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
    """leader election -> JobManager: you take part, and will be told when you lead."""


@message("job_manager.election_failed")
class LeaderElectionFailed(Message):
    """leader election -> JobManager: you will never lead, for the store cannot be used."""

    cause: SerializedThrowable


@message("job_manager.recovered")
class JobsRecovered(Message):
    """store -> JobManager: what a leader of this session begins with.

    `jobs` are those to go on with: `bound` names those whose code is in this process already. `ended` have a result,
    and their jobs may still have to be put away. A `run` that is concluded is one whose results were waited for.
    """

    leader_session_id: LeaderSessionId
    run: ApplicationRun
    jobs: tuple[SubmittedJobGraph, ...] = ()
    bound: tuple[JobId, ...] = ()
    ended: tuple[JobEnded, ...] = ()


@message("job_manager.recovery_failed")
class JobRecoveryFailed(Message):
    """store -> JobManager: what is kept cannot be read, or this session leads no more."""

    leader_session_id: LeaderSessionId
    cause: SerializedThrowable


@message("job_manager.retry_due")
class StoreRetryDue(Message):
    """JobManager's timer -> itself: time to try again what the store could not do for this job."""

    job_id: JobId


@message("job_manager.recovery_retry_due")
class RecoveryRetryDue(Message):
    """JobManager's timer -> itself: time to try again to read what there is to go on with."""


@message("job_manager.already_ended")
class JobAlreadyEnded(Message):
    """store -> JobManager: the job that was submitted, or is asked for, has ended in this run of its application."""

    end: JobEnded


@message("job_manager.result_looked_for")
class JobResultLookedFor(Message):
    """store -> JobManager: how the job has ended that `client` asks about; None: that is not known."""

    job_id: JobId
    client: Ref
    end: JobEnded | None = None


@message("job_manager.released")
class JobMasterReleased(Message):
    """data plane and store -> JobManager: nothing works for a JobMaster any more that has ended without a word.

    `end` is how its job has ended, if it had come to that; `checkpoint_path` the newest checkpoint of the job.
    """

    job_id: JobId
    end: JobEnded | None = None
    checkpoint_path: str | None = None
    cause: SerializedThrowable | None = None


@message("job_manager.put_away")
class JobPutAway(Message):
    """store -> JobManager: the result of the job is noted, and nothing else is kept of it."""

    end: JobEnded


@message("job_manager.not_put_away")
class JobNotPutAway(Message):
    """store -> JobManager: the end of the job could not be noted."""

    job_id: JobId
    cause: SerializedThrowable


@message("job_manager.request_run")
class RequestApplicationRun(Message):
    """client -> JobManager: when you lead, which run of the application is this?

    With `begins_new` a run that is concluded, and whose results are waited for, makes place for a new one.
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
    """JobManager -> client: nobody will ever lead here."""

    cause: SerializedThrowable


@message("job_manager.seek_due")
class SeekJobManagerDue(Message):
    """client's timer -> itself: time to look whether there is a JobManager in the place of the one that has died."""
