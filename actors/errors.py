"""Errors around a job, named for whose fault it is. Actors and machines share these.

JobRuntimeError
├── GraphError                      the program: what its dataflow asks for cannot be built
├── UnboundOperatorError            the application: a job graph does not fit its code
├── UnknownBatchError               the reader: a batch was released, or belongs to another process
├── RestoreError
│   ├── RescaleNotSupportedError    the job: an operator runs at another parallelism than its state allows
│   ├── StateWithoutOperatorError   the job: an operator that has state in the checkpoint is gone
│   └── UnreadableStateError        the checkpoint: what it holds of an operator is damaged, or of another kind
├── CheckpointStorageError
│   ├── CheckpointFileNotFoundError the address: nothing is there
│   ├── CheckpointFormatError       the file: not ours, cut off, or altered
│   ├── CheckpointStateMissingError the folder: state that the metadata refers to is not there, or not whole
│   ├── CheckpointVersionError      the reader: the file was written by a newer flykka
│   └── CheckpointDirectoryError    the directory: it cannot be written
├── JobOwnershipError                the folder: its record of an owner cannot be used
│   ├── OwnedByAnotherError         the start: another process runs the job; the text names it
│   └── OwnershipLostError          the owner: it was paused and replaced
├── HighAvailabilityError
│   ├── LeadershipLostError         the caller: somebody else leads, or coordinates the job; nothing was changed
│   └── StoreUnavailableError       the store: it cannot be reached, read or written
├── MasterHookError                 the user's hook: it raised, or what it returned or is called cannot be stored
├── NetworkBufferError
│   ├── NetworkBuffersExhaustedError     the cluster: a task needs more network buffers than its TaskManager has left
│   └── BufferPoolDestroyedError         the caller: it asked a pool that is no more
└── IllegalTransitionError          the caller: a job or an attempt was asked to move where its table allows no move
"""

from __future__ import annotations

import re
from typing import ClassVar

from flykka.messages.wire.failure import SerializedThrowable, suppresses_restarts


class JobRuntimeError(Exception):
    """Any failure that the actors of a job and their machines report."""

    suppress_restarts: ClassVar[bool] = False
    """Set by errors that the next attempt would meet again: they fail the job whatever its restart strategy."""


def described(refusal: Exception) -> SerializedThrowable:
    """A refusal by an actor in its own turn, for others to read: without a stack, for no message has one.

    It leads through the actor and not through anything of the user's, and is another one in every version: the turn
    could not be repeated from its trace. Nor could it with addresses of objects, which are left out.
    """
    return SerializedThrowable(
        type_name=type(refusal).__name__,
        message=re.sub(r"\b0x[0-9a-fA-F]+", "0x…", str(refusal)),
        suppress_restarts=suppresses_restarts(refusal),
    )


class GraphError(JobRuntimeError):
    """The dataflow cannot be built; the text names the uid at fault."""


class UnboundOperatorError(JobRuntimeError):
    """A job graph names operators for which this application has no code, or other code; the text names them."""


class UnknownBatchError(JobRuntimeError):
    """A batch was released, or belongs to another process."""


class RestoreError(JobRuntimeError):
    """A job cannot start from a checkpoint; the text names the operator."""

    suppress_restarts = True


class RescaleNotSupportedError(RestoreError):
    """State cannot be handed to another number of subtasks, or to other key groups."""


class UnreadableStateError(RestoreError):
    """The state of an operator in a checkpoint is damaged, or another operator's; the text names both."""


class StateWithoutOperatorError(RestoreError):
    """State would be lost, and nobody said that it may be. `operator_ids` are those whose state it is."""

    def __init__(self, checkpoint_id: int, operator_ids: tuple[str, ...]) -> None:
        super().__init__(
            f"checkpoint {checkpoint_id} holds state of operators, or of their coordinators, that the job does not"
            f" have: {', '.join(operator_ids)}"
        )
        self.operator_ids = operator_ids


class CheckpointStorageError(JobRuntimeError):
    """A file of the checkpoint storage cannot be read; the text names it."""


class CheckpointFileNotFoundError(CheckpointStorageError):
    """There is no such file."""


class CheckpointFormatError(CheckpointStorageError):
    """The file is not one of ours, not whole, or was altered; the text names it."""

    suppress_restarts = True


class CheckpointStateMissingError(CheckpointStorageError):
    """State that the metadata of a checkpoint refers to is not there; the text names both."""

    suppress_restarts = True


class CheckpointVersionError(CheckpointStorageError):
    """The file is of a format that this version does not know yet."""

    suppress_restarts = True


class CheckpointDirectoryError(CheckpointStorageError):
    """The checkpoint directory cannot be written; the text names it."""


class JobOwnershipError(JobRuntimeError):
    """This process cannot own a folder for a job; the text says why."""


class OwnedByAnotherError(JobOwnershipError):
    """Another process, or another environment of this one, owns the folder; the text names it."""


class OwnershipLostError(JobOwnershipError):
    """Another process has taken the folder over; the text names it. No restart can mend that."""

    suppress_restarts = True


class HighAvailabilityError(JobRuntimeError):
    """Values that have to outlive the driver cannot be kept, or not by this one."""


class LeadershipLostError(HighAvailabilityError):
    """The process that asked for this no longer leads; the text says what could not be done."""


class StoreUnavailableError(HighAvailabilityError):
    """The high-availability store cannot be used; the text names it, and what to do."""


class MasterHookError(JobRuntimeError):
    """User code at the side of the coordinator failed; the text names it."""


class FailureEnricherError(JobRuntimeError):
    """A failure enricher cannot be used; the text names it."""


class NetworkBufferError(JobRuntimeError):
    """A buffer cannot be had."""


class NetworkBuffersExhaustedError(NetworkBufferError):
    """The minimum of a task is more than what its TaskManager has not promised to others."""

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
    """A buffer was asked of a pool that is destroyed."""


class IllegalTransitionError(JobRuntimeError):
    """A move that the table of states does not know."""
