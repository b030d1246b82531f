"""The exchange between tasks: credit-based, with barriers and watermarks in band after the data that they follow."""

from __future__ import annotations

from dataclasses import replace

from flykka.messages.checkpointing.checkpoint import AlignmentType, CheckpointOptions
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import BatchId, ResultPartitionId
from flykka.messages.wire.message import Message, Value, message, value
from flykka.messages.wire.ref import Ref


@value("batch.ref")
class BatchRef(Value):
    """An immutable batch for one subpartition. Event times are in ms since the epoch, or None without an event-time
    column.

    `size_bytes` is an estimate if the data plane does not know the size.
    """

    batch_id: BatchId
    rows: int
    size_bytes: int
    event_time_min: int | None = None
    event_time_max: int | None = None
    subpartition: int = 0


WATERMARK_MIN = -(2**63)
WATERMARK_MAX = 2**63 - 1
"""The end of event time: no rows follow."""

# A constant, because the member is read for every barrier and looking up an Enum member is slow.
_ALIGNED = AlignmentType.ALIGNED
_UNALIGNED = AlignmentType.UNALIGNED


@value("exchange.checkpoint_barrier")
class CheckpointBarrier(Value):
    """Separates rows that belong to the checkpoint from later rows.

    An unaligned barrier overtakes the data before it. A barrier that may time out is aligned until its timeout.
    """

    checkpoint_id: int
    timestamp_ms: int
    options: CheckpointOptions = CheckpointOptions()

    @property
    def is_unaligned(self) -> bool:
        return self.options.alignment is _UNALIGNED

    @property
    def may_time_out(self) -> bool:
        return self.options.alignment is _ALIGNED and self.options.aligned_timeout_ms is not None

    def remaining_ms(self, now_ms: int) -> int:
        """Return the milliseconds for which a barrier with a timeout stays aligned, counted from the trigger."""
        assert self.options.aligned_timeout_ms is not None, f"barrier {self.checkpoint_id} stays aligned"
        return max(0, self.timestamp_ms + self.options.aligned_timeout_ms + 1 - now_ms)

    def as_unaligned(self) -> CheckpointBarrier:
        return self._with_alignment(AlignmentType.UNALIGNED)

    def with_unaligned_unsupported(self) -> CheckpointBarrier:
        """Return the barrier for a channel whose batches cannot be stored as channel state."""
        if self.is_unaligned or self.may_time_out:
            return self._with_alignment(AlignmentType.FORCED_ALIGNED)
        return self

    def with_unaligned_supported(self) -> CheckpointBarrier:
        """Return the barrier as it was before a channel that does not support unaligned checkpoints changed it."""
        if self.options.alignment is not AlignmentType.FORCED_ALIGNED:
            return self
        aligned_at_first = self.options.aligned_timeout_ms is not None
        return self._with_alignment(AlignmentType.ALIGNED if aligned_at_first else AlignmentType.UNALIGNED)

    def to_send_on(self, now_ms: int) -> CheckpointBarrier:
        """Return the barrier to forward: not forced to align, and unaligned if its timeout has passed."""
        barrier = self.with_unaligned_supported()
        return barrier.as_unaligned() if barrier.may_time_out and barrier.remaining_ms(now_ms) == 0 else barrier

    def _with_alignment(self, alignment: AlignmentType) -> CheckpointBarrier:
        return replace(self, options=replace(self.options, alignment=alignment))


@value("exchange.cancel_checkpoint_marker")
class CancelCheckpointMarker(Value):
    """The checkpoint has been cancelled upstream."""

    checkpoint_id: int


@value("exchange.watermark")
class Watermark(Value):
    """No row with an event time (ms) at or below `timestamp_ms` follows, except late rows."""

    timestamp_ms: int


@value("exchange.watermark_status")
class WatermarkStatus(Value):
    """The channel is idle and holds no watermark back, or is active again."""

    idle: bool


@value("exchange.latency_marker")
class LatencyMarker(Value):
    """A marker that a source sends at `marked_ms`. Its latency shows how long rows wait."""

    marked_ms: int
    operator_id: str
    subtask: int


@value("exchange.end_of_data")
class EndOfData(Value):
    """The input has ended: no row and no watermark follows, but checkpoints do. `drain` is that of Flink's StopMode."""

    drain: bool = True


@value("exchange.end_of_partition")
class EndOfPartition(Value):
    """The partition has ended: no element follows."""


Event = (
    CheckpointBarrier
    | CancelCheckpointMarker
    | Watermark
    | WatermarkStatus
    | LatencyMarker
    | EndOfData
    | EndOfPartition
)
"""Events that are sent between batches. They cost no credit and do not overtake data."""
Buffer = BatchRef | Event


@message("exchange.partition_request")
class PartitionRequest(Message):
    """consuming Task -> TaskManager -> producing Task: send this subpartition; `credit` buffers are ready.

    If it `reconnects`, this attempt replaces a failed reader of an approximate partition.
    """

    partition_id: ResultPartitionId
    subpartition: int
    credit: int
    consumer: Ref
    reconnects: bool = False


@message("exchange.buffer_response")
class BufferResponse(Message):
    """producing Task -> consuming Task: element `sequence_number` (from 0). `backlog` batches are queued after it."""

    partition_id: ResultPartitionId
    subpartition: int
    sequence_number: int
    buffer: Buffer
    backlog: int


@message("exchange.add_credit")
class AddCredit(Message):
    """consuming Task -> producing Task, or TaskManager with its finished partition: `credit` more buffers are ready."""

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
    """consuming Task -> producing Task, or TaskManager with its finished partition: the consumer stops reading."""

    partition_id: ResultPartitionId
    subpartition: int


@message("exchange.error_response")
class ErrorResponse(Message):
    """producing side -> consuming Task: the subpartition is unavailable. A retry may help if `partition_not_found`."""

    partition_id: ResultPartitionId
    subpartition: int
    cause: SerializedThrowable
    partition_not_found: bool = False


@message("exchange.alignment_timeout_due")
class AlignmentTimeoutDue(Message):
    """Task's timer -> itself: the alignment of this checkpoint's barriers has exceeded its timeout."""

    checkpoint_id: int


@message("exchange.mini_batch_due")
class MiniBatchDue(Message):
    """Task's timer -> itself: process the waiting batches, although more may arrive."""


@value("exchange.task_buffers")
class TaskBuffers(Value):
    """The network buffers of one task: those of each output and the floating ones of each gate, by number.

    In addition, every channel has `exclusive` buffers. A buffer stands for `bytes_per_buffer` bytes (None: any number).
    """

    outputs: tuple[int, ...]
    floating: tuple[int, ...]
    exclusive: int
    bytes_per_buffer: int | None = None


@message("exchange.buffers_resized")
class BuffersResized(Message):
    """TaskManager -> Task: tasks have started or ended, so these are now the buffers of the receiver."""

    buffers: TaskBuffers


@message("exchange.redistribution_due")
class RedistributionDue(Message):
    """TaskManager -> itself: tasks have started or ended, so redistribute the buffers, once for all of them."""


@message("exchange.partition_request_due")
class PartitionRequestDue(Message):
    """Task's timer -> itself: request the subpartition of this channel again."""

    channel: int
