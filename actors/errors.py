"""The errors of jobs, each with the party at fault. Actors and their state machines share these errors.

JobRuntimeError ├── GraphError                      the program: the requested dataflow cannot be built ├──
UnboundOperatorError            the application: a job graph does not fit its code ├── UnknownBatchError
the reader: a batch was released, or belongs to another process ├── RestoreError │   ├── RescaleNotSupportedError    the
job: an operator runs at another parallelism than its state allows │   ├── StateWithoutOperatorError   the job: an
operator that has state in the checkpoint is missing │   └── UnreadableStateError        the checkpoint: an operator's
state is damaged, or of another type ├── CheckpointStorageError │   ├── CheckpointFileNotFoundError the address: there
is no such file │   ├── CheckpointFormatError       the file: not written by flykka, truncated, or altered │   ├──
CheckpointStateMissingError the folder: state that the metadata refers to is missing or incomplete │   ├──
CheckpointVersionError      the reader: the file was written by a newer flykka │   └── CheckpointDirectoryError    the
directory: it cannot be written ├── JobOwnershipError                the folder: its ownership record cannot be used │
├── OwnedByAnotherError         the start: another process runs the job; the text names it │   └── OwnershipLostError
the owner: it was paused and replaced ├── HighAvailabilityError │   ├── LeadershipLostError         the caller: another
process leads, or coordinates the job; nothing was changed │   └── StoreUnavailableError       the store: it cannot be
reached, read or written ├── MasterHookError                 the user's hook: it raised, or its name or its state cannot
be stored ├── NetworkBufferError │   ├── NetworkBuffersExhaustedError     the cluster: a task needs more network buffers
than its TaskManager has left │   └── BufferPoolDestroyedError         the caller: the buffer pool has been destroyed
└── IllegalTransitionError          the caller: a job or an attempt cannot make this state transition
"""

from __future__ import annotations

import re
from typing import ClassVar

from flykka.messages.wire.failure import SerializedThrowable, suppresses_restarts


class JobRuntimeError(Exception):
    """Base class of the errors that the actors of a job and their state machines report."""

    suppress_restarts: ClassVar[bool] = False
    """True if the next attempt would fail in the same way, so that the job fails whatever its restart strategy."""


def serialize_error(error: Exception) -> SerializedThrowable:
    """Return the error as text without a stack trace, for an actor that rejects a message in its own turn.

    A stack trace would show the actor's code and none of the user's, and would change with every version, so that the
    turn could not be replayed from its trace. Addresses of objects are removed for the same reason.
    """
    return SerializedThrowable(
        type_name=type(error).__name__,
        message=re.sub(r"\b0x[0-9a-fA-F]+", "0x…", str(error)),
        suppress_restarts=suppresses_restarts(error),
    )


class GraphError(JobRuntimeError):
    """The dataflow cannot be built. The message names the uid at fault."""


class UnboundOperatorError(JobRuntimeError):
    """The application has no code, or different code, for operators of a job graph. The message names the operators."""


class UnknownBatchError(JobRuntimeError):
    """A batch was released, or belongs to another process."""


class RestoreError(JobRuntimeError):
    """A job cannot start from a checkpoint. The message names the operator."""

    suppress_restarts = True


class RescaleNotSupportedError(RestoreError):
    """State cannot be redistributed to another number of subtasks or key groups."""


class UnreadableStateError(RestoreError):
    """The state of an operator in a checkpoint is damaged, or belongs to another operator. The message names both."""


class StateWithoutOperatorError(RestoreError):
    """State of the removed operators `operator_ids` would be lost, which was not allowed."""

    def __init__(self, checkpoint_id: int, operator_ids: tuple[str, ...]) -> None:
        super().__init__(
            f"checkpoint {checkpoint_id} holds state of operators, or of their coordinators, that the job does not"
            f" have: {', '.join(operator_ids)}"
        )
        self.operator_ids = operator_ids


class CheckpointStorageError(JobRuntimeError):
    """A file of the checkpoint storage cannot be read. The message names it."""


class CheckpointFileNotFoundError(CheckpointStorageError):
    """There is no such file."""


class CheckpointFormatError(CheckpointStorageError):
    """The file was not written by flykka, is incomplete, or was altered. The message names it."""

    suppress_restarts = True


class CheckpointStateMissingError(CheckpointStorageError):
    """State to which the metadata of a checkpoint refers is missing. The message names both."""

    suppress_restarts = True


class CheckpointVersionError(CheckpointStorageError):
    """The file has a format that this version does not know yet."""

    suppress_restarts = True


class CheckpointDirectoryError(CheckpointStorageError):
    """The checkpoint directory cannot be written. The message names it."""


class JobOwnershipError(JobRuntimeError):
    """This process cannot own a folder for a job. The message gives the reason."""


class OwnedByAnotherError(JobOwnershipError):
    """Another process, or another environment of this process, owns the folder. The message names it."""


class OwnershipLostError(JobOwnershipError):
    """Another process has taken over the folder. The message names it. A restart cannot repair this."""

    suppress_restarts = True


class HighAvailabilityError(JobRuntimeError):
    """Values that must outlive the driver cannot be stored, or not by this process."""


class LeadershipLostError(HighAvailabilityError):
    """The calling process no longer leads. The message names the operation that failed."""


class StoreUnavailableError(HighAvailabilityError):
    """The high-availability store cannot be used. The message names it and suggests a remedy."""


class MasterHookError(JobRuntimeError):
    """A master hook of the user failed. The message names it."""


class FailureEnricherError(JobRuntimeError):
    """A failure enricher cannot be used. The message names it."""


class NetworkBufferError(JobRuntimeError):
    """A network buffer cannot be obtained."""


class NetworkBuffersExhaustedError(NetworkBufferError):
    """A task needs more buffers than its TaskManager has left."""

    def __init__(self, required: int, available: int, total: int) -> None:
        super().__init__(
            f"Insufficient number of network buffers: required {required}, but only {available} available. The total"
            f" number of network buffers is currently set to {total} per TaskManager; give the cluster more"
            " (network_buffers), or lower the job's parallelism"
        )
        self.required = required
        self.available = available
        self.total = total


class BufferPoolDestroyedError(NetworkBufferError):
    """A buffer was requested from a destroyed pool."""


class IllegalTransitionError(JobRuntimeError):
    """The state table does not have this transition."""
