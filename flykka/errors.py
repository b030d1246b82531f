"""What a user of the front door may have to handle.

FlykkaError
├── ProgramError                the program cannot run as written; raised where it was written
│   ├── DuplicateUidError       two operators with one uid
│   └── StreamTypeError         a column or a function that does not fit the stream
├── ClusterError                the local cluster cannot do what was asked
│   ├── InsufficientSlotsError  the job needs more slots than the TaskManagers have
│   └── UnknownTaskManagerError no TaskManager of this name lives
├── JobSubmissionError          the JobManager refused the job
├── JobCancellationError        there was nothing to cancel
└── JobExecutionError           the job has FAILED, or was lost with its cluster
    └── JobCancelledError       ... or was CANCELED

Beside the tree stands `DurationError`, the kernel's: a length of time that cannot be read.
"""

from __future__ import annotations

from flykka.messages.failure import SerializedThrowable
from flykka.messages.ids import JobId
from flykka.runtime.errors import DurationError as DurationError


class FlykkaError(Exception):
    """The root of what the front door raises."""


class ProgramError(FlykkaError):
    """The program cannot run as it is written (Flink's InvalidProgramException)."""


class DuplicateUidError(ProgramError):
    """Two operators of one environment have the same uid."""


class StreamTypeError(ProgramError):
    """A column, or what a function returned, does not fit the stream it was given for."""


class ClusterError(FlykkaError):
    """The local cluster cannot do what was asked of it."""


class InsufficientSlotsError(ClusterError):
    """The job needs more slots than all TaskManagers have together: it would wait for ever."""


class UnknownTaskManagerError(ClusterError, LookupError):
    """No living TaskManager has this name."""


class JobSubmissionError(FlykkaError):
    """The JobManager refused the job (Flink's JobSubmissionException)."""


class JobCancellationError(FlykkaError):
    """The JobManager has no such job to cancel."""


class JobExecutionError(FlykkaError):
    """The job ended without being FINISHED. `cause` is the failure as it travelled: type, text and stack text."""

    def __init__(self, job_id: JobId, job_name: str, what: str, cause: SerializedThrowable) -> None:
        super().__init__(f"job {job_name!r} ({job_id}) {what}: {cause.type_name}: {cause.message}")
        self.job_id = job_id
        self.cause = cause


class JobCancelledError(JobExecutionError):
    """The job was cancelled before it had FINISHED."""
