"""The exchange between tasks: credit-based, barriers and watermarks in band behind the data they follow."""

from __future__ import annotations

from dataclasses import replace

from flykka.messages.checkpointing.checkpoint import AlignmentType, CheckpointOptions
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import BatchId, ResultPartitionId
from flykka.messages.wire.message import Message, Value, message, value
from flykka.messages.wire.ref import Ref


@value("batch.ref")
class BatchRef(Value):
    """An immutable batch for one subpartition. Event times in ms since the epoch, None without an event-time column.

    `size_bytes` is an estimate where the data plane does not know better.
    """

    batch_id: BatchId
    rows: int
    size_bytes: int
    event_time_min: int | None = None
    event_time_max: int | None = None
    subpartition: int = 0


WATERMARK_MIN = -(2**63)
"""No watermark yet, in ms."""
WATERMARK_MAX = 2**63 - 1
"""The end of event time: nothing follows."""

# Looked up for every barrier: an Enum member is slow to reach.
_ALIGNED = AlignmentType.ALIGNED
_UNALIGNED = AlignmentType.UNALIGNED


@value("exchange.checkpoint_barrier")
class CheckpointBarrier(Value):
    """Everything before belongs to the checkpoint, everything behind does not.

    An unaligned barrier overtakes the data before it. One that may time out is aligned until then.
    """

    checkpoint_id: int
    timestamp_ms: int
    options: CheckpointOptions = CheckpointOptions()

    @property
    def is_unaligned(self) -> bool:
        """True if it overtakes data."""
        return self.options.alignment is _UNALIGNED

    @property
    def may_time_out(self) -> bool:
        """True if the barrier is aligned until a timeout."""
        return self.options.alignment is _ALIGNED and self.options.aligned_timeout_ms is not None

    def remaining_ms(self, now_ms: int) -> int:
        """Milliseconds that a barrier with a timeout stays aligned, counted from the trigger of its checkpoint."""
        assert self.options.aligned_timeout_ms is not None, f"barrier {self.checkpoint_id} stays aligned"
        return max(0, self.timestamp_ms + self.options.aligned_timeout_ms + 1 - now_ms)

    def as_unaligned(self) -> CheckpointBarrier:
        """The barrier, overtaking data from now on."""
        return self._with_alignment(AlignmentType.UNALIGNED)

    def with_unaligned_unsupported(self) -> CheckpointBarrier:
        """The barrier as it goes through a channel whose batches cannot become state."""
        if self.is_unaligned or self.may_time_out:
            return self._with_alignment(AlignmentType.FORCED_ALIGNED)
        return self

    def with_unaligned_supported(self) -> CheckpointBarrier:
        """The barrier as it was before it went through such a channel."""
        if self.options.alignment is not AlignmentType.FORCED_ALIGNED:
            return self
        aligned_at_first = self.options.aligned_timeout_ms is not None
        return self._with_alignment(AlignmentType.ALIGNED if aligned_at_first else AlignmentType.UNALIGNED)

    def to_send_on(self, now_ms: int) -> CheckpointBarrier:
        """The barrier as a task sends it on: no longer forced to align, and unaligned if its timeout has passed."""
        barrier = self.with_unaligned_supported()
        return barrier.as_unaligned() if barrier.may_time_out and barrier.remaining_ms(now_ms) == 0 else barrier

    def _with_alignment(self, alignment: AlignmentType) -> CheckpointBarrier:
        return replace(self, options=replace(self.options, alignment=alignment))


@value("exchange.cancel_checkpoint_marker")
class CancelCheckpointMarker(Value):
    """The checkpoint will not come from upstream."""

    checkpoint_id: int


@value("exchange.watermark")
class Watermark(Value):
    """No row with an event time (ms) at or below `timestamp_ms` follows, but late ones."""

    timestamp_ms: int


@value("exchange.watermark_status")
class WatermarkStatus(Value):
    """The channel is idle and holds no watermark back, or is active again."""

    idle: bool


@value("exchange.latency_marker")
class LatencyMarker(Value):
    """Sent by a source at `marked_ms`; how long it takes tells how long rows wait."""

    marked_ms: int
    operator_id: str
    subtask: int


@value("exchange.end_of_data")
class EndOfData(Value):
    """The input is finished: no row and no watermark follows, checkpoints still do. `drain` as in Flink's StopMode."""

    drain: bool = True


@value("exchange.end_of_partition")
class EndOfPartition(Value):
    """Nothing follows."""


Event = (
    CheckpointBarrier
    | CancelCheckpointMarker
    | Watermark
    | WatermarkStatus
    | LatencyMarker
    | EndOfData
    | EndOfPartition
)
"""Events that travel between batches. They cost no credit and do not overtake data."""
Buffer = BatchRef | Event


@message("exchange.partition_request")
class PartitionRequest(Message):
    """consuming Task -> TaskManager -> producing Task: send me this subpartition; `credit` buffers are ready.

    One that `reconnects` takes the place of an attempt that has failed, of an approximate partition.
    """

    partition_id: ResultPartitionId
    subpartition: int
    credit: int
    consumer: Ref
    reconnects: bool = False


@message("exchange.buffer_response")
class BufferResponse(Message):
    """producing Task -> consuming Task: element number `sequence_number` (from 0) and the data left behind it."""

    partition_id: ResultPartitionId
    subpartition: int
    sequence_number: int
    buffer: Buffer
    backlog: int


@message("exchange.add_credit")
class AddCredit(Message):
    """consuming Task -> producing Task or the TaskManager that keeps what it made: `credit` more buffers are ready."""

    partition_id: ResultPartitionId
    subpartition: int
    credit: int


@message("exchange.backlog_announcement")
class BacklogAnnouncement(Message):
    """producing Task -> consuming Task: `backlog` buffers wait here for credit."""

    partition_id: ResultPartitionId
    subpartition: int
    backlog: int


@message("exchange.cancel_partition_request")
class CancelPartitionRequest(Message):
    """consuming Task -> producing Task or the TaskManager that keeps what it made: I read no further."""

    partition_id: ResultPartitionId
    subpartition: int


@message("exchange.error_response")
class ErrorResponse(Message):
    """producing side -> consuming Task: the subpartition cannot be had; `partition_not_found` may pass by itself."""

    partition_id: ResultPartitionId
    subpartition: int
    cause: SerializedThrowable
    partition_not_found: bool = False


@message("exchange.alignment_timeout_due")
class AlignmentTimeoutDue(Message):
    """Task's timer -> itself: the barriers of this checkpoint have been under way for as long as they may be."""

    checkpoint_id: int


@value("exchange.task_buffers")
class TaskBuffers(Value):
    """The network buffers of one task: those of each output and the floating ones of each gate, by number.

    Every channel has `exclusive` ones besides. A buffer stands for `bytes_per_buffer` bytes; None: for any number.
    """

    outputs: tuple[int, ...]
    floating: tuple[int, ...]
    exclusive: int
    bytes_per_buffer: int | None = None


@message("exchange.buffers_resized")
class BuffersResized(Message):
    """TaskManager -> Task: others have come or gone; these are your buffers now."""

    buffers: TaskBuffers


@message("exchange.redistribution_due")
class RedistributionDue(Message):
    """TaskManager -> itself: tasks have come or gone; share the buffers out again, once for all of them."""


@message("exchange.partition_request_due")
class PartitionRequestDue(Message):
    """Task's timer -> itself: ask again for the subpartition of this channel."""

    channel: int
