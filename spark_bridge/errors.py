"""Errors of the data plane, named by the party that can fix them.

SparkBridgeError ├── SessionError            the Spark session cannot be used ├── ChainError              the operators
of a vertex cannot be run as one stage ├── NotADataFrameError      a user's function has not returned a DataFrame ├──
DeclaredSchemaError     a function's result does not have the columns that it declares ├── OperatorFailedError     a
user's function has raised; the cause is its exception ├── FunctionError           a function with state or timers is
invalid │   ├── StateDescriptorError    a state cannot be registered with this description │   ├── StateValueError a
value does not fit its state │   ├── KeyContextError         a context or a state is used without a current key │ ├──
TimerError              a timer in a function without keys, or at an invalid time │   ├── WindowError             a
trigger, an evictor or a window function does not fit its windows │   ├── JobResourceError        a cached file or a
broadcast variable that the job does not have │   ├── EventValueError         an event or a value for an aggregate is
not a plain value │   └── FunctionOutputError     a function emits anything but rows with the output's columns ├──
OperatorCoordinatorError a user's coordinator has raised; the cause is its exception ├── GlobalAggregateError    a
function of a global aggregate has raised; the cause is its exception ├── AccumulatorConflictError two accumulators with
one name, or one of another kind than requested ├── SourceError             the input of a source cannot be read │   ├──
SourceNotFoundError     the folder or file does not exist │   ├── EmptySourceError        nothing to read, or nothing to
infer a schema from │   ├── ReplacedTopicError      a topic was deleted and created again: checkpointed offsets are
invalid │   ├── SchemaChangedError      the columns of a table have changed while a job reads its changes │   ├──
MissingChangesError     rows of a table came or went without recorded changes │   ├── UnreadableValueError    a value
that Spark's type does not have │   ├── UnreadableFileError     a file is damaged or has another format │   └──
FileSchemaError         a file does not have the declared columns ├── SavedStateError         keyed state cannot be read
or written from outside of a job ├── UserFileError           a file, an archive or requirements cannot be provided to
functions ├── MissingExtraError       a library is not installed that belongs to an extra of flykka ├── SinkError a sink
cannot write to its target, or cannot publish its staged rows │   ├── ConflictingRowsError    two different rows have
one key of a sink │   └── StagedFileError         a staged file is missing or was changed ├── AttemptCancelledError
the attempt was cancelled: nothing of it may run any more ├── AttemptReplacedError    an attempt was ended by another
one, or with its job └── PredecessorRunsError    the previous attempt has not ended, so the next one cannot start
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


class SparkBridgeError(Exception):
    """The root of the errors of this package."""

    suppress_restarts: ClassVar[bool] = False
    """Set by errors that would recur in the next attempt: they fail the job whatever its restart strategy."""


class SessionError(SparkBridgeError):
    """The Spark session cannot be used."""


class ChainError(SparkBridgeError):
    """The operators of a vertex cannot be run as one stage; the message names the operator."""


class AccumulatorConflictError(SparkBridgeError):
    """An accumulator is not the requested one; the message names it (Flink's UnsupportedOperationException)."""


class NotADataFrameError(SparkBridgeError, TypeError):
    """A user's function has not returned a DataFrame."""


class DeclaredSchemaError(SparkBridgeError):
    """A rich function's result does not have the columns that it declares."""


class OperatorFailedError(SparkBridgeError):
    """A user's function has raised: the message names its operator, the cause is its exception.

    `written` is the line that created the operator, if known.
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
    """A function has emitted anything but rows with the columns of its output."""


class JobResourceError(FunctionError, LookupError):
    """The job, or this process, does not have the requested cached file or broadcast variable."""


class UserFileError(SparkBridgeError):
    """A file, an archive or requirements cannot be provided to functions; the message names it."""


class OperatorCoordinatorError(SparkBridgeError):
    """A user's coordinator has raised, or is used incorrectly: the message names its operator."""


class GlobalAggregateError(SparkBridgeError):
    """A function of a global aggregate has raised: the message names the aggregate, the cause is its exception."""


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
    """Rows of a table came or went without recorded changes: by TRUNCATE, or with a partition; the message names it."""

    suppress_restarts = True


class UnreadableValueError(SourceError):
    """A value that Spark's type does not have; the message names table, column, value and key, and the remedy."""

    suppress_restarts = True


class UnreadableFileError(SourceError):
    """A file is damaged or has another format; the message names it."""


class FileSchemaError(SourceError):
    """A file lacks declared columns, or has them with other types; the message names file and column."""


class MissingExtraError(SparkBridgeError, ImportError):
    """A library is not installed; the message names it and the extra of flykka that it belongs to."""


class SinkError(SparkBridgeError):
    """A sink cannot write to its target, or cannot publish its staged rows; the message names operator or file."""


class ConflictingRowsError(SinkError):
    """Two different rows have one key of a sink, without a rule for that; the message names the table and both rows."""

    suppress_restarts = True


class StagedFileError(SinkError):
    """A file that a checkpoint refers to is missing or was changed before it was published; the message names it."""

    suppress_restarts = True


class AttemptCancelledError(SparkBridgeError):
    """The attempt was cancelled: nothing of it may run any more."""


class AttemptReplacedError(SparkBridgeError):
    """An attempt was ended by another one, or with its job, and not by its Task."""


class PredecessorRunsError(SparkBridgeError):
    """The previous attempt has not ended, so the next one cannot start; the message names both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLine:
    """A line of a file, formatted as Python does in a traceback."""

    file: str
    line: int
    function: str
    source: str

    def __str__(self) -> str:
        return f'  File "{self.file}", line {self.line}, in {self.function}' + (
            f"\n    {self.source}" if self.source else ""
        )
