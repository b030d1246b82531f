"""The errors of jobs, which the actors and their state machines share."""

from __future__ import annotations

import re
from typing import ClassVar

from flykka.messages.wire.failure import SerializedThrowable, suppresses_restarts


class JobRuntimeError(Exception):
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
    """The program requests a dataflow that cannot be built. The message names the uid at fault."""


class UnboundOperatorError(JobRuntimeError):
    """The application has no code, or different code, for operators of a job graph. The message names the operators."""


class UnknownBatchError(JobRuntimeError):
    """A batch was released, or belongs to another process."""


class RestoreError(JobRuntimeError):
    """A job cannot start from a checkpoint. The message names the operator."""

    suppress_restarts = True


class RescaleNotSupportedError(RestoreError):
    """State cannot be redistributed to another parallelism or number of key groups."""


class UnreadableStateError(RestoreError):
    """The state of an operator in a checkpoint is damaged, or of another type. The message names both."""


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
    pass


class CheckpointFormatError(CheckpointStorageError):
    """The file was not written by flykka, is incomplete, or was altered. The message names it."""

    suppress_restarts = True


class CheckpointStateMissingError(CheckpointStorageError):
    """State to which the metadata of a checkpoint refers is missing. The message names both."""

    suppress_restarts = True


class CheckpointVersionError(CheckpointStorageError):
    """A newer version of flykka wrote the file."""

    suppress_restarts = True


class CheckpointDirectoryError(CheckpointStorageError):
    """The checkpoint directory cannot be written. The message names it."""


class JobOwnershipError(JobRuntimeError):
    """This process cannot own a folder for a job. The message gives the reason."""


class OwnedByAnotherError(JobOwnershipError):
    """Another process, or another environment of this process, owns the folder. The message names it."""


class OwnershipLostError(JobOwnershipError):
    """Another process has taken over the folder while this process was paused. The message names it. A restart does not
    help.
    """

    suppress_restarts = True


class HighAvailabilityError(JobRuntimeError):
    """Values that must outlive the driver cannot be stored, or this process may not store them."""


class LeadershipLostError(HighAvailabilityError):
    """The calling process no longer leads, or another process coordinates the job. Nothing was changed."""


class StoreUnavailableError(HighAvailabilityError):
    """The high-availability store cannot be reached, read or written. The message names it and suggests a remedy."""


class MasterHookError(JobRuntimeError):
    """A master hook of the user raised, or its name or state cannot be stored. The message names it."""


class FailureEnricherError(JobRuntimeError):
    """A failure enricher cannot be used. The message names it."""


class NetworkBufferError(JobRuntimeError):
    pass


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
    """A job or an execution attempt cannot make this state transition."""
