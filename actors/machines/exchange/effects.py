"""Effects that the state machines of the exchange return to their Task."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from flykka.actors.machines.effects import Ignore, Role, StartTimer, Tell
from flykka.messages.tasks.exchange import BatchRef
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ResultPartitionId
from flykka.messages.wire.ref import Ref

PRODUCER_FAILED_ERROR = "ProducerFailedError"
"""The type of the cause in an `ErrorResponse` if the producer has failed (Flink's ProducerFailedException)."""
PRODUCER_DISPOSED_ERROR = "PartitionProducerDisposedError"
"""The type of the failure in a `PartitionProducerState` if another attempt has replaced the producer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseBatch:
    batch: BatchRef


PartitionEffect = Tell[Ref] | ReleaseBatch | Ignore


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPartition:
    """Request a subpartition from the producer's TaskManager. The producer may send `credit` batches at once."""

    channel: int
    task_manager: Ref
    partition_id: ResultPartitionId
    subpartition: int
    credit: int
    reconnects: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistInFlight:
    """Persist an in-flight batch to gate number `gate` as state of the checkpoint (Flink's ChannelStateWriter)."""

    checkpoint_id: int
    gate: int
    batch: BatchRef


class ChannelFailureKind(StrEnum):
    SEQUENCE_MISMATCH = "SEQUENCE_MISMATCH"
    CREDIT_OVERRUN = "CREDIT_OVERRUN"
    NOT_REQUESTED = "NOT_REQUESTED"
    PARTITION_CONNECTION = "PARTITION_CONNECTION"
    PARTITION_NOT_FOUND = "PARTITION_NOT_FOUND"
    PRODUCER_FAILED = "PRODUCER_FAILED"
    REFUSED = "REFUSED"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelFailed:
    """The channel has failed, and the gate returns no more elements. `cause` names the subpartition.

    PRODUCER_FAILED is not a failure of this task: the task cancels itself, and the producer's own failure decides on
    the recovery (Flink's CancelTaskException).
    """

    channel: int
    kind: ChannelFailureKind
    cause: SerializedThrowable


GateEffect = (
    RequestPartition
    | Tell[Role | ResultPartitionId]
    | StartTimer
    | ReleaseBatch
    | PersistInFlight
    | ChannelFailed
    | Ignore
)
