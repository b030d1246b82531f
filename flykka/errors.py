"""Errors that a user of the API may have to handle.

FlykkaError
├── ProgramError                the program cannot run as written; raised on the line that is wrong
│   ├── DuplicateUidError       two operators have the same uid
│   ├── StreamTypeError         a column or a function does not fit the stream
│   └── SqlError                a SQL text is invalid, or cannot run on streams
├── ClusterError                the local cluster cannot do what was requested
│   ├── InsufficientSlotsError  the job needs more slots than the TaskManagers have
│   │   └── InsufficientResourcesError  operators need more than the TaskManagers have declared
│   ├── InsufficientNetworkBuffersError  the job needs more network buffers than the TaskManagers have
│   ├── UnknownTaskManagerError no TaskManager with this name is running
│   └── UnknownJobError         no job with this id is running on the cluster
├── JobSubmissionError          the job was refused
│   └── DuplicateJobSubmissionError  the job has run before, and would publish its rows again
├── CheckpointError             a job cannot continue from a checkpoint
│   └── CheckpointNotFoundError there is no checkpoint at this path
├── JobCancellationError        the job is unknown, or has ended already
├── JobStoppingError            the job was not stopped
├── SavepointError              no savepoint was taken
├── RescaleError                the job cannot run with this parallelism
├── AccumulatorError            an accumulator does not exist, or has different types
├── TraceSelectionError         a query for a trace matches nothing, or too much
├── FlightRecordError           the flight record of a failure could not be written
└── JobExecutionError           the job has FAILED, or was lost with its cluster
    ├── JobRestoreError         ... because a file of its checkpoint is damaged: a CheckpointError as well
    └── JobCancelledError       ... or was CANCELED

`DurationError`, for a duration that cannot be parsed, belongs to the kernel and is not in this tree.
"""

from __future__ import annotations

from typing import Any, ClassVar

from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId
from flykka.runtime.errors import DurationError as DurationError
from flykka.views.text.user_stack import full_text


class FlykkaError(Exception):
    """The base class of the errors that the API raises."""

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        # IPython calls this method. The text is shown line by line, as in a traceback, and not as a string literal.
        printer.text(f"{type(self).__name__}: {self}")


class ProgramError(FlykkaError):
    """The program cannot run as it is written (Flink's InvalidProgramException)."""


class ConfigurationError(ProgramError):
    """An option has an unknown name or an invalid value, in a file, an environment variable or the program."""


class DuplicateUidError(ProgramError):
    """Two operators of one environment have the same uid."""


class StreamTypeError(ProgramError):
    """A column, or the result of a function, does not fit its stream."""


class SqlError(ProgramError):
    """A SQL text is invalid, or uses something that cannot run on streams.

    The error contains the `line` and the `column`, counted from 1. Both are None if Spark does not report them.
    """

    def __init__(self, why: str, sql: str, line: int | None, column: int | None) -> None:
        self.line, self.column = line, column
        if line is None or column is None:
            super().__init__(f"{why}\n  in: {' '.join(sql.split())}")
            return
        lines = sql.splitlines() or [""]
        source_line = lines[min(line, len(lines)) - 1]
        super().__init__(f"line {line}, column {column}: {why}\n  {source_line}\n  {' ' * (column - 1)}^")


class ClusterError(FlykkaError):
    """The local cluster cannot do what was requested."""


class InsufficientSlotsError(ClusterError):
    """The job needs more slots than all TaskManagers have, or than other jobs leave free, and would wait forever."""


class InsufficientResourcesError(InsufficientSlotsError):
    """An operator needs more resources than a TaskManager has, or all operators together need more than there are."""


class InsufficientNetworkBuffersError(ClusterError):
    """A task, or all tasks together, need more network buffers than there are."""


class UnknownTaskManagerError(ClusterError, LookupError):
    """No TaskManager with this name is running."""


class UnknownJobError(ClusterError, LookupError):
    """No job with this id is running on the cluster."""


class JobSubmissionError(FlykkaError):
    """The JobManager refused the job (Flink's JobSubmissionException)."""


class DuplicateJobSubmissionError(JobSubmissionError):
    """The job has run before, or is running, and would publish rows twice. Nothing was written.

    The error describes the earlier run and lists the possible commands (Flink's DuplicateJobSubmissionException).
    """


class JobCancellationError(FlykkaError):
    """The JobManager does not know the job, or the job can no longer be cancelled."""


class JobStoppingError(FlykkaError):
    """The job was not stopped: it was not running, or it keeps running because its last checkpoint failed."""


class SavepointError(FlykkaError):
    """No savepoint was taken, and its files were deleted. The error gives the reason.

    The job keeps running. A failed write of a task counts as a failed checkpoint, of which a limited number is
    tolerated.
    """


class CheckpointError(FlykkaError):
    """A checkpoint was not taken, does not exist, or does not fit the job that should continue from it."""


class CheckpointNotFoundError(CheckpointError):
    """There is no checkpoint at this path."""


class RescaleError(FlykkaError):
    """The job cannot run within these bounds of parallelism, or has ended. The error names the vertex."""


class AccumulatorError(FlykkaError, LookupError):
    """The result of a job has no accumulator with this name, or it has different types in different functions."""


class TraceSelectionError(FlykkaError, LookupError):
    """A query for a trace matches nothing, or more than can be shown. The error suggests another query."""


class FlightRecordError(FlykkaError):
    """The flight record could not be written. The error names the file."""


class JobExecutionError(FlykkaError):
    """The job ended without being FINISHED. `cause` is the failure in serialized form: type, message and stack trace.

    `checkpoint_path` is the checkpoint from which the job can continue, or None if none is retained. `flight_record` is
    the trace of the actors before the failure, or None if there is no trace.
    """

    tells_cause: ClassVar[bool] = True

    def __init__(
        self,
        job_id: JobId,
        job_name: str,
        what: str,
        cause: SerializedThrowable,
        checkpoint_path: str | None = None,
        *,
        restarts: int = 0,
        flight_record: str | None = None,
        unrecorded: str | None = None,
        earlier_checkpoint: str | None = None,
    ) -> None:
        text = "\n".join(full_text(cause))
        why = f": {cause.type_name}: {text}" if self.tells_cause else ""
        lines = [f"job {job_name!r} {what}{why}"]
        if restarts and self.tells_cause:
            times = "once" if restarts == 1 else f"{restarts} times"
            lines.append(f"it had restarted {times} before: see job.exception_history")
        if isinstance(self, JobRestoreError):
            lines.append(
                "no earlier undamaged checkpoint is retained: start from a savepoint (from_savepoint(...) or"
                " --from-savepoint), or at the beginning of the input (from_checkpoint(None) or --fresh)"
                if earlier_checkpoint is None
                else f"an earlier checkpoint is undamaged: {earlier_checkpoint} (continue with from_checkpoint(...) or"
                " --from-checkpoint; the output since then is published again)"
            )
        elif checkpoint_path is not None:
            lines.append(
                f"retained checkpoint: {checkpoint_path} (continue with from_checkpoint(...) or --from-checkpoint)"
            )
        if flight_record is not None:
            lines.append(f"flight record: {flight_record} (read it with `flykka trace show`)")
        if unrecorded is not None:
            lines.append(f"no flight record: {unrecorded}")
        super().__init__("\n".join(lines))
        self.job_id = job_id
        self.cause = cause
        self.checkpoint_path = checkpoint_path
        self.flight_record = flight_record


class JobRestoreError(JobExecutionError, CheckpointError):
    """The job failed because a file of its checkpoint is damaged, missing or was written by a newer flykka.

    The error names the file, and an earlier undamaged checkpoint if one is retained.
    """


class JobCancelledError(JobExecutionError):
    """The job was cancelled before it had FINISHED."""

    tells_cause: ClassVar[bool] = False
