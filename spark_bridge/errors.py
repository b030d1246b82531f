"""Errors of the data plane, named by the party that can mend them.

SparkBridgeError
├── SessionError            the Spark session cannot be used
├── ChainError              the operators of a vertex cannot be run as one stage
├── NotADataFrameError      a function of the user's has returned something else
├── DeclaredSchemaError     a function's result does not have the columns that it declares
├── OperatorFailedError     a function of the user's has raised; the cause is what it raised
├── FunctionError           a function with state or timers is written wrongly
│   ├── StateDescriptorError    a state that cannot be registered as it is described
│   ├── StateValueError         a value that its state cannot hold
│   ├── KeyContextError         a context or a state is used where no key is at work
│   ├── TimerError              a timer where there are none, or at something else than a time
│   ├── WindowError             a trigger, an evictor or a window function does not fit its windows
│   ├── JobResourceError        a cached file or a broadcast variable that the job does not have
│   ├── EventValueError         an event or a value for an aggregate that is no plain value
│   └── FunctionOutputError     something else is emitted than rows of the output's columns
├── OperatorCoordinatorError a coordinator of the user's has raised; the cause is what it raised
├── GlobalAggregateError    a function of a global aggregate has raised; the cause is what it raised
├── AccumulatorConflictError two accumulators of one name, or one of a kind that it was not added as
├── SourceError             the input of a source cannot be read
│   ├── SourceNotFoundError     there is no such folder or file
│   ├── EmptySourceError        nothing to read, or nothing to take a schema from
│   ├── ReplacedTopicError      a topic was deleted and made again: offsets of checkpoints say nothing of it
│   ├── SchemaChangedError      the columns of a table have changed while a job reads its changes
│   ├── MissingChangesError     rows of a table came or went without changes that say so
│   ├── UnreadableValueError    a value that Spark's type does not have
│   ├── UnreadableFileError     a file is broken, or not of the format it was taken for
│   └── FileSchemaError         a file does not have the columns that were declared
├── SavedStateError         keyed state that cannot be read, asked for or written from outside
├── UserFileError           a file, an archive or requirements that cannot be given to functions
├── MissingExtraError       a library is not installed that comes with an extra of flykka's
├── SinkError               a sink cannot write where it is to, or not publish what it has staged
│   └── StagedFileError         a staged file is missing or was changed
├── AttemptCancelledError   the attempt is over: nothing more of it may run
├── AttemptReplacedError    an attempt was ended by another one, or with its job
└── PredecessorRunsError    the attempt before has not ended, so the next one cannot begin
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


class SparkBridgeError(Exception):
    """The root of the errors of this package."""

    suppress_restarts: ClassVar[bool] = False
    """Set by errors that the next attempt would meet again: they fail the job whatever its restart strategy."""


class SessionError(SparkBridgeError):
    """The Spark session cannot be used."""


class ChainError(SparkBridgeError):
    """The operators of a vertex cannot be run as one stage; the text names the operator."""


class AccumulatorConflictError(SparkBridgeError):
    """An accumulator is not the one that was meant; the text names it (Flink's UnsupportedOperationException)."""


class NotADataFrameError(SparkBridgeError, TypeError):
    """A function of the user's has returned something else than a DataFrame."""


class DeclaredSchemaError(SparkBridgeError):
    """A rich function's result does not have the columns that it declares."""


class OperatorFailedError(SparkBridgeError):
    """A function of the user's has raised: the text names its operator, the cause is what it raised.

    `written` is the line that wrote the operator down, where it is known.
    """

    def __init__(self, operator: str, written: UserLine | None = None) -> None:
        super().__init__(operator)
        self.written = written


class FunctionError(SparkBridgeError):
    """A function with state or timers is written wrongly."""


class StateDescriptorError(FunctionError):
    """A state cannot be registered as it is described; the text names it."""


class StateValueError(FunctionError, TypeError):
    """A value cannot be held by its state; the text names both, and the type of the state."""


class KeyContextError(FunctionError):
    """A context, a state or a timer service is used where no key is at work."""


class TimerError(FunctionError):
    """A timer is set in a function without keys, or at something else than a time."""


class WindowError(FunctionError):
    """A trigger, an evictor or a window function is written wrongly, or does not fit its windows."""


class EventValueError(FunctionError, TypeError):
    """An event of a coordinator or for one, its state, or a value for a global aggregate is no plain value."""


class FunctionOutputError(FunctionError, TypeError):
    """A function has emitted something else than rows with the columns of its output."""


class JobResourceError(FunctionError, LookupError):
    """A cached file or a broadcast variable is asked for that the job does not have, or not here."""


class UserFileError(SparkBridgeError):
    """A file, an archive or requirements cannot be given to functions; the text names it."""


class OperatorCoordinatorError(SparkBridgeError):
    """A coordinator of the user's has raised, or is used wrongly: the text names its operator."""


class GlobalAggregateError(SparkBridgeError):
    """A function of a global aggregate has raised: the text names the aggregate, the cause is what it raised."""


class SavedStateError(SparkBridgeError, LookupError):
    """Keyed state cannot be read, asked for or written from outside of a job; the text names the operator."""


class SourceError(SparkBridgeError):
    """The input of a source cannot be read."""


class SourceNotFoundError(SourceError):
    """There is no such folder or file."""


class EmptySourceError(SourceError):
    """There is nothing to read, or nothing to take a schema from."""


class ReplacedTopicError(SourceError):
    """A topic was deleted and made again: offsets of checkpoints say nothing of it. The text names its partitions."""

    suppress_restarts = True


class SchemaChangedError(SourceError):
    """The columns of a table have changed while a job reads its changes; the text names them."""

    suppress_restarts = True


class MissingChangesError(SourceError):
    """Rows of a table came or went without changes that say so: by TRUNCATE, or with a partition; the text names it."""

    suppress_restarts = True


class UnreadableValueError(SourceError):
    """A value that Spark's type does not have; the text names table, column, value and key, and what to do."""

    suppress_restarts = True


class UnreadableFileError(SourceError):
    """A file is broken, or not of the format it was taken for; the text names it."""


class FileSchemaError(SourceError):
    """A file does not have the columns that were declared, or other types of them; the text names file and column."""


class MissingExtraError(SparkBridgeError, ImportError):
    """A library is not installed; the text names it, and the extra of flykka's that it comes with."""


class SinkError(SparkBridgeError):
    """A sink cannot write where it is to, or not publish what it has staged; the text names operator or file."""


class StagedFileError(SinkError):
    """A file that a checkpoint refers to is missing or was changed before it was published; the text names it."""

    suppress_restarts = True


class AttemptCancelledError(SparkBridgeError):
    """The attempt is over: nothing more of it may run."""


class AttemptReplacedError(SparkBridgeError):
    """An attempt was ended by another one, or with its job, and not by its Task."""


class PredecessorRunsError(SparkBridgeError):
    """The attempt before has not ended, so the next one cannot begin; the text names both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLine:
    """Line of a file, formatted as Python does in a traceback."""

    file: str
    line: int
    function: str
    source: str

    def __str__(self) -> str:
        return f'  File "{self.file}", line {self.line}, in {self.function}' + (
            f"\n    {self.source}" if self.source else ""
        )
