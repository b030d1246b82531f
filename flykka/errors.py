"""Errors that a user of the API may have to handle.

FlykkaError
├── ProgramError                the program cannot run as written; raised where it was written
│   ├── DuplicateUidError       two operators with one uid
│   ├── StreamTypeError         a column or a function that does not fit the stream
│   └── SqlError                a SQL text that cannot be read, or cannot run on streams
├── ClusterError                the local cluster cannot do what was asked
│   ├── InsufficientSlotsError  the job needs more slots than the TaskManagers have
│   │   └── InsufficientResourcesError  an operator, or all, need more than the TaskManagers have declared
│   ├── InsufficientNetworkBuffersError  the job needs more network buffers than the TaskManagers have
│   ├── UnknownTaskManagerError no TaskManager of this name lives
│   └── UnknownJobError         no job of this id runs on the cluster
├── JobSubmissionError          the job was refused
│   └── DuplicateJobSubmissionError  it has run before, and would publish its rows once more
├── CheckpointError             a checkpoint cannot be continued from
│   └── CheckpointNotFoundError there is none where one was looked for
├── JobCancellationError        there was nothing to cancel
├── JobStoppingError            the job was not stopped
├── SavepointError              no savepoint was taken
├── RescaleError                the job cannot run with such a parallelism
├── AccumulatorError        a result has no accumulator of this name, or none that could be merged
├── TraceSelectionError         a trace has nothing, or too much, of what was asked for
├── FlightRecordError           what the actors did before a failure could not be written down
└── JobExecutionError           the job has FAILED, or was lost with its cluster
    ├── JobRestoreError         ... for a file of its checkpoint is damaged: a CheckpointError as well
    └── JobCancelledError       ... or was CANCELED

Beside the tree stands `DurationError`, the kernel's: a length of time that cannot be read.
"""

from __future__ import annotations

from typing import Any, ClassVar

from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId
from flykka.runtime.errors import DurationError as DurationError
from flykka.views.text.user_stack import full_text


class FlykkaError(Exception):
    """The root of the errors that the API raises."""

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        # IPython shows it by this: line by line, as in a traceback, and not as a literal of its text.
        printer.text(f"{type(self).__name__}: {self}")


class ProgramError(FlykkaError):
    """The program cannot run as it is written (Flink's InvalidProgramException)."""


class ConfigurationError(ProgramError):
    """An option has a name or a value that it cannot have, in a file, an environment variable or the program."""


class DuplicateUidError(ProgramError):
    """Two operators of one environment have the same uid."""


class StreamTypeError(ProgramError):
    """A column, or what a function returned, does not fit the stream it was given for."""


class SqlError(ProgramError):
    """A SQL text cannot be read, or asks for what cannot run on streams.

    The text names the `line` and the `column`, from 1, and shows them; both are None where Spark does not know them.
    """

    def __init__(self, why: str, sql: str, line: int | None, column: int | None) -> None:
        self.line, self.column = line, column
        if line is None or column is None:
            super().__init__(f"{why}\n  in: {' '.join(sql.split())}")
            return
        lines = sql.splitlines() or [""]
        shown = lines[min(line, len(lines)) - 1]
        super().__init__(f"line {line}, column {column}: {why}\n  {shown}\n  {' ' * (column - 1)}^")


class ClusterError(FlykkaError):
    """The local cluster cannot do what was asked of it."""


class InsufficientSlotsError(ClusterError):
    """The job needs more slots than all TaskManagers have together, or than other jobs have left: it would wait."""


class InsufficientResourcesError(InsufficientSlotsError):
    """An operator of the job needs more than a TaskManager has, or all more than there is: the job would never run."""


class InsufficientNetworkBuffersError(ClusterError):
    """A task of the job, or all together, need more network buffers than there are: the job would never run."""


class UnknownTaskManagerError(ClusterError, LookupError):
    """No living TaskManager has this name."""


class UnknownJobError(ClusterError, LookupError):
    """No job of this id runs on the cluster."""


class JobSubmissionError(FlykkaError):
    """The JobManager refused the job (Flink's JobSubmissionException)."""


class DuplicateJobSubmissionError(JobSubmissionError):
    """The job has run before, or runs now, and would publish rows twice; nothing was written.

    The text says what there is of it, and which command does what (Flink's DuplicateJobSubmissionException).
    """


class JobCancellationError(FlykkaError):
    """The JobManager has no such job to cancel."""


class JobStoppingError(FlykkaError):
    """The job was not stopped: it was not running, or its last checkpoint failed and it goes on."""


class SavepointError(FlykkaError):
    """No savepoint was taken, and nothing is left of it; the text says why.

    The job goes on. What a task could not write counts as a failed checkpoint, of which so many are tolerable.
    """


class CheckpointError(FlykkaError):
    """A checkpoint was not taken, or cannot be continued from: it is not there, or does not fit the job."""


class CheckpointNotFoundError(CheckpointError):
    """There is no checkpoint where one was looked for."""


class RescaleError(FlykkaError):
    """A job cannot run within these bounds of parallelism, or has ended; the text names the vertex."""


class AccumulatorError(FlykkaError, LookupError):
    """The result of a job has no accumulator of this name, or one whose parts are of different kinds."""


class TraceSelectionError(FlykkaError, LookupError):
    """A trace has nothing of what was asked for, or more than can be shown; the text says what to ask for instead."""


class FlightRecordError(FlykkaError):
    """The flight record could not be written; the text names the file."""


class JobExecutionError(FlykkaError):
    """The job ended without being FINISHED. `cause` is the failure as it travelled: type, text and stack text.

    `checkpoint_path` is the checkpoint that the job can be continued from, None where none is kept. `flight_record` is
    the trace of what the actors did before, None where there is none.
    """

    tells_cause: ClassVar[bool] = True
    """True if the text gives the cause, and not only what the class says."""

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
        told = "\n".join(full_text(cause))
        why = f": {cause.type_name}: {told}" if self.tells_cause else ""
        lines = [f"job {job_name!r} {what}{why}"]
        if restarts and self.tells_cause:
            times = "once" if restarts == 1 else f"{restarts} times"
            lines.append(f"it had restarted {times} before: job.exception_history tells why")
        if isinstance(self, JobRestoreError):
            lines.append(
                "no earlier checkpoint is kept that is whole: start from a savepoint (from_savepoint(...) or"
                " --from-savepoint), or with the input (from_checkpoint(None) or --fresh)"
                if earlier_checkpoint is None
                else f"an earlier checkpoint is whole: {earlier_checkpoint} (continue with from_checkpoint(...) or"
                " --from-checkpoint; what was published after it is published again)"
            )
        elif checkpoint_path is not None:
            lines.append(
                f"kept checkpoint: {checkpoint_path} (continue with from_checkpoint(...) or --from-checkpoint)"
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
    """The job failed because a file of the checkpoint that it starts from is damaged, missing or of a newer flykka.

    The text names the file, and an earlier checkpoint that is whole if one is kept.
    """


class JobCancelledError(JobExecutionError):
    """The job was cancelled before it had FINISHED."""

    tells_cause: ClassVar[bool] = False
