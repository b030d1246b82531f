"""Errors of the data plane, all of which are subclasses of `SparkBridgeError`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


class SparkBridgeError(Exception):
    """The base class of this package's errors."""

    suppress_restarts: ClassVar[bool] = False
    """True for errors that would recur in the next attempt: they fail the job whatever its restart strategy."""


class SessionError(SparkBridgeError):
    """The Spark session cannot be used."""


class ChainError(SparkBridgeError):
    """The operators of a vertex cannot run as one chain; the message names the operator."""


class AccumulatorConflictError(SparkBridgeError):
    """An accumulator is not registered or its name is taken; the message names it (Flink's
    UnsupportedOperationException).
    """


class NotADataFrameError(SparkBridgeError, TypeError):
    """A user's function has not returned a DataFrame."""


class DeclaredSchemaError(SparkBridgeError):
    """A rich function's result does not have the columns that it declares."""


class OperatorFailedError(SparkBridgeError):
    """A user's function has raised: the message names its operator, and the cause is its exception.

    `written` is the program line that created the operator, if known.
    """

    def __init__(self, operator: str, written: UserLine | None = None) -> None:
        super().__init__(operator)
        self.written = written


class FunctionError(SparkBridgeError):
    """A function with state or timers is invalid."""


class StateDescriptorError(FunctionError):
    """A state cannot be registered with this description; the message names it."""


class StateValueError(FunctionError, TypeError):
    """A value does not fit its state; the message names both, and the type of the state."""


class KeyContextError(FunctionError):
    """A context, a state or a timer service is used without a current key."""


class TimerError(FunctionError):
    """A timer is registered in a function without keys, or at an invalid time."""


class WindowError(FunctionError):
    """A trigger, an evictor or a window function is invalid, or does not fit its windows."""


class EventValueError(FunctionError, TypeError):
    """An event from or for a coordinator, its state, or a value for a global aggregate is not a plain value."""


class FunctionOutputError(FunctionError, TypeError):
    """A function has emitted something other than rows with the columns of its output."""


class JobResourceError(FunctionError, LookupError):
    """The job, or this process, does not have the requested cached file or broadcast variable."""


class UserFileError(SparkBridgeError):
    """A file, an archive or requirements cannot be provided to functions; the message names it."""


class OperatorCoordinatorError(SparkBridgeError):
    """A user's coordinator has raised, or is used incorrectly: the message names its operator."""


class GlobalAggregateError(SparkBridgeError):
    """A function of a global aggregate has raised. The message names the aggregate, and the cause is its exception."""


class SavedStateError(SparkBridgeError, LookupError):
    """Keyed state cannot be read or written from outside of a job; the message names the operator."""


class SourceError(SparkBridgeError):
    """The input of a source cannot be read."""


class SourceNotFoundError(SourceError):
    """The folder or file does not exist."""


class EmptySourceError(SourceError):
    """There is nothing to read, or nothing to infer a schema from."""


class ReplacedTopicError(SourceError):
    """A topic was deleted and created again, so checkpointed offsets are invalid. The message names its partitions."""

    suppress_restarts = True


class SchemaChangedError(SourceError):
    """The columns of a table have changed while a job reads its changes; the message names them."""

    suppress_restarts = True


class MissingChangesError(SourceError):
    """Rows of a table were added or removed without a change record, by TRUNCATE or with a partition. The message names
    the table.
    """

    suppress_restarts = True


class UnreadableValueError(SourceError):
    """A value does not exist in Spark's type. The message names table, column, value, key and remedy."""

    suppress_restarts = True


class UnreadableFileError(SourceError):
    """A file is damaged or has another format; the message names it."""


class FileSchemaError(SourceError):
    """A file lacks declared columns, or has them with other types; the message names file and column."""


class MissingExtraError(SparkBridgeError, ImportError):
    """A library is not installed. The message names it and the extra of flykka to which it belongs."""


class SinkError(SparkBridgeError):
    """A sink cannot write to its target, or cannot publish its staged rows; the message names operator or file."""


class ConflictingRowsError(SinkError):
    """Two different rows have the same key of a sink, without a rule that resolves this. The message names the table
    and both rows.
    """

    suppress_restarts = True


class StagedFileError(SinkError):
    """A staged file of a checkpoint was changed or is missing before it is published; the message names it."""

    suppress_restarts = True


class AttemptCancelledError(SparkBridgeError):
    """The attempt was cancelled: none of its work may run any more."""


class AttemptReplacedError(SparkBridgeError):
    """An attempt was ended by another attempt, or with its job, and not by its Task."""


class PredecessorRunsError(SparkBridgeError):
    """The previous attempt has not ended, so the next attempt cannot start. The message names both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLine:
    file: str
    line: int
    function: str
    source: str

    def __str__(self) -> str:
        return f'  File "{self.file}", line {self.line}, in {self.function}' + (
            f"\n    {self.source}" if self.source else ""
        )
