"""An output of a task: its batches, kept per consumer until each has taken its part.

Decides to which subpartition an element goes, what a reader is answered, and whether there is room for more. How a
batch comes to its subpartition (hash, turn, copy) is decided by the stage that makes it. A pipelined partition is
released as it is consumed; a blocking one is written here, and read from its TaskManager when the task has finished
(`KeptPartition`). An approximate one outlives its readers: the next one is told how far event time and data are,
and begins with the next batch. Follows Flink's ResultPartition.
"""

from __future__ import annotations

from collections.abc import Sequence

from flykka.actors.machines.effects import Ignore, Tell
from flykka.actors.machines.exchange.effects import PartitionEffect, ReleaseBatch
from flykka.actors.machines.exchange.subpartition import Subpartition
from flykka.messages.graph.job_graph import ResultPartitionType
from flykka.messages.tasks.exchange import (
    AddCredit,
    BatchRef,
    BufferResponse,
    CancelPartitionRequest,
    EndOfData,
    EndOfPartition,
    ErrorResponse,
    Event,
    PartitionRequest,
    Watermark,
    WatermarkStatus,
)
from flykka.messages.tasks.task import FinishedPartition, ResultPartitionDescriptor
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ResultPartitionId
from flykka.messages.wire.ref import Ref


def partition_error(partition_id: ResultPartitionId, subpartition: int, type_name: str, text: str) -> ErrorResponse:
    """It cannot be had, and asking again does not help."""
    message = f"subpartition {subpartition} of {partition_id}: {text}"
    cause = SerializedThrowable(type_name=type_name, message=message)
    return ErrorResponse(partition_id=partition_id, subpartition=subpartition, cause=cause)


def partition_not_found(partition_id: ResultPartitionId, subpartition: int, text: str) -> ErrorResponse:
    """It is not there (Flink's PartitionNotFoundException): not yet, or no more."""
    message = f"subpartition {subpartition} of {partition_id}: {text}"
    return ErrorResponse(
        partition_id=partition_id,
        subpartition=subpartition,
        cause=SerializedThrowable(type_name="PartitionNotFoundError", message=message, lost_partition=partition_id),
        partition_not_found=True,
    )


FLOATING_BUFFERS = 2
"""Buffers of a partition beyond one for each of its subpartitions, where there are enough."""

MAX_BUFFERS_PER_CHANNEL = 10
"""With so many batches unsent for one reader an output takes no more, however much room it has for the others."""


class ResultPartition:
    """The subpartitions of one output. Every method answers with what is to be sent or released now.

    Every batch that waits holds one of `size` buffers, as many as where there are enough unless it is given. Where
    bytes are bounded too, a partition that holds its share of `bytes_per_buffer` for each buffer has no room, however
    few its batches are. What a stage makes is taken, room or not: it is the next stage that has to wait.
    """

    __slots__ = (
        "_bytes_per_buffer",
        "_full_channels",
        "_last_events",
        "_queued_bytes",
        "_size",
        "_turn",
        "_unconsumed",
        "descriptor",
        "is_approximate",
        "is_blocking",
        "is_finished",
        "is_released",
        "queued_batches",
        "subpartitions",
    )

    def __init__(
        self,
        descriptor: ResultPartitionDescriptor,
        size: int | None = None,
        *,
        bytes_per_buffer: int | None = None,
    ) -> None:
        self.descriptor = descriptor
        self.is_blocking = descriptor.partition_type is ResultPartitionType.BLOCKING
        self.is_approximate = descriptor.partition_type is ResultPartitionType.PIPELINED_APPROXIMATE
        self.is_finished = False
        self.is_released = False
        self.queued_batches = 0
        """Batches that wait, over all subpartitions."""
        self._queued_bytes = 0
        self._full_channels = 0
        self._size = descriptor.subpartitions + FLOATING_BUFFERS if size is None else size
        self._bytes_per_buffer = bytes_per_buffer
        self._turn = 0
        numbers = range(descriptor.subpartitions)
        self.subpartitions = tuple(
            Subpartition(descriptor.partition_id, number, is_reconnectable=self.is_approximate) for number in numbers
        )
        # What the next reader has to know, by kind.
        self._last_events: dict[type[Event], Event] = {}
        self._unconsumed = dict.fromkeys(numbers)

    def finished(self) -> FinishedPartition:
        """The kept partition of a blocking result, which must be written wholly."""
        assert self.is_blocking, f"{self.descriptor.partition_id} does not outlive its task"
        assert self.is_finished, f"{self.descriptor.partition_id} is not written wholly"
        return FinishedPartition(
            descriptor=self.descriptor, subpartitions=tuple(each.buffers for each in self.subpartitions)
        )

    @property
    def all_consumed(self) -> bool:
        """Every reader has been sent the end, or has left."""
        return not self._unconsumed

    @property
    def unread_subpartitions(self) -> tuple[int, ...]:
        """Subpartitions whose reader has not had everything and has not left."""
        return tuple(self._unconsumed)

    @property
    def is_available(self) -> bool:
        """There is a buffer for another batch: without one the task had better not make more."""
        if self.is_blocking:
            return True
        has_bytes = self._bytes_per_buffer is None or self._queued_bytes < self._bytes_per_buffer * max(self._size, 1)
        return has_bytes and not self._full_channels and self.queued_batches < self._size

    @property
    def has_credit(self) -> bool:
        """Some reader has room for a batch that it has not been sent."""
        return any(self.subpartitions[index].credit > 0 for index in self._unconsumed)

    def resize(self, size: int) -> None:
        self._size = size

    def add_batch(self, batch: BatchRef) -> list[PartitionEffect]:
        """Queue a batch in the subpartition that it names. One without rows, or without a reader, is released."""
        if batch.subpartition not in self._unconsumed or not batch.rows:
            return [ReleaseBatch(batch=batch)]
        holder = self.subpartitions[batch.subpartition]
        holder.add(batch)
        self.queued_batches += 1
        self._queued_bytes += batch.size_bytes
        self._full_channels += holder.backlog == MAX_BUFFERS_PER_CHANNEL
        return self._served(batch.subpartition)

    def broadcast_event(self, event: Event) -> list[PartitionEffect]:
        """Queue an event in every subpartition, behind all batches added before it."""
        self.is_finished = self.is_finished or isinstance(event, EndOfPartition)
        if self.is_approximate and isinstance(event, Watermark | WatermarkStatus | EndOfData):
            self._last_events[type(event)] = event
        return [effect for index in tuple(self._unconsumed) for effect in self._add_event(index, event)]

    def emit_in_turn(self, event: Event) -> list[PartitionEffect]:
        """Queue an event in one subpartition, each time in another: Flink's randomEmit, without chance."""
        unread = self.unread_subpartitions
        if not unread:
            return []
        index = unread[self._turn % len(unread)]
        self._turn += 1
        return self._add_event(index, event)

    def broadcast_priority_event(self, event: Event) -> tuple[list[PartitionEffect], tuple[BatchRef, ...]]:
        """Let an event overtake all batches; what is sent, and the batches that it has overtaken."""
        assert not self.is_blocking, "nothing overtakes in a blocking partition"
        effects: list[PartitionEffect] = []
        overtaken: list[BatchRef] = []
        for index in tuple(self._unconsumed):
            overtaken += self.subpartitions[index].add_priority(event)
            effects += self._served(index)
        return effects, tuple(overtaken)

    def holds_barrier(self, subpartition: int, checkpoint_id: int) -> bool:
        return not self.is_blocking and self.subpartitions[subpartition].holds_barrier(checkpoint_id)

    def prioritize_barrier(
        self, subpartition: int, checkpoint_id: int
    ) -> tuple[list[PartitionEffect], tuple[BatchRef, ...]]:
        """Let a barrier that waits here overtake what it waits behind; what is sent, and what it has overtaken."""
        overtaken = self.subpartitions[subpartition].prioritize_barrier(checkpoint_id)
        return self._served(subpartition), overtaken

    def finish(self) -> list[PartitionEffect]:
        return self.broadcast_event(EndOfPartition())

    def request(
        self, subpartition: int, credit: int, consumer: Ref, *, reconnects: bool = False
    ) -> list[PartitionEffect]:
        """A reader asks for its subpartition and has room for `credit` batches; it `reconnects` in place of another."""
        refused = self._refusal(subpartition, reconnects=reconnects)
        if refused is not None:
            return [Tell(to=consumer, message=refused)]
        lost = self._reconnected(subpartition) if reconnects else ()
        self.subpartitions[subpartition].request(consumer, credit)
        return [*(ReleaseBatch(batch=batch) for batch in lost), *self._served(subpartition)]

    def add_credit(self, subpartition: int, credit: int) -> list[PartitionEffect]:
        if not self._is_read(subpartition):
            return [Ignore(reason=f"nobody reads subpartition {subpartition}")]
        self.subpartitions[subpartition].credit += credit
        return self._served(subpartition)

    def cancel(self, subpartition: int) -> list[PartitionEffect]:
        """A reader leaves; what it has not been sent is released, unless another reader comes for what follows."""
        if self.is_approximate:
            return [Ignore(reason=f"another reader of subpartition {subpartition} will come")]
        if not self._is_read(subpartition):
            return [Ignore(reason=f"nobody reads subpartition {subpartition}")]
        return [ReleaseBatch(batch=batch) for batch in self._consumed(subpartition)]

    def fail(self, cause: SerializedThrowable) -> list[PartitionEffect]:
        """The task has failed: readers that have not got everything are told, what is left is released."""
        told = [effect for subpartition in self.subpartitions for effect in subpartition.fail(cause)]
        return [*told, *(ReleaseBatch(batch=batch) for batch in self.release())]

    def release(self) -> tuple[BatchRef, ...]:
        """Give up, without a word to the readers: the batches that were never sent. Later ones are released at once."""
        return tuple(batch for index in range(len(self.subpartitions)) for batch in self._consumed(index))

    def check(self) -> None:
        for subpartition in self.subpartitions:
            subpartition.check()
        backlogs = [subpartition.backlog for subpartition in self.subpartitions]
        assert self.queued_batches == sum(backlogs)
        assert self._queued_bytes >= 0
        assert self._full_channels == sum(backlog >= MAX_BUFFERS_PER_CHANNEL for backlog in backlogs)

    def _add_event(self, index: int, event: Event) -> list[PartitionEffect]:
        self.subpartitions[index].add(event)
        return self._served(index)

    def _served(self, index: int) -> list[PartitionEffect]:
        """The elements that the reader is sent now, if it is here."""
        holder = self.subpartitions[index]
        has_waited = holder.backlog > 0
        sent = holder.serve()
        if has_waited:
            buffers = (effect.message.buffer for effect in sent if isinstance(effect.message, BufferResponse))
            self._account(holder, [buffer for buffer in buffers if isinstance(buffer, BatchRef)])
        if holder.is_consumed:
            self._consumed(index)
        return list(sent)

    def _consumed(self, index: int) -> tuple[BatchRef, ...]:
        """A reader has everything, or reads no further: the batches that nobody needs any more."""
        holder = self.subpartitions[index]
        left = holder.drain()
        self._account(holder, left)
        self._unconsumed.pop(index, None)
        self.is_released = self.all_consumed
        return left

    def _account(self, holder: Subpartition, gone: Sequence[BatchRef]) -> None:
        was_full = holder.backlog + len(gone) >= MAX_BUFFERS_PER_CHANNEL
        self._full_channels -= was_full and holder.backlog < MAX_BUFFERS_PER_CHANNEL
        self.queued_batches -= len(gone)
        self._queued_bytes -= sum(batch.size_bytes for batch in gone)

    def _reconnected(self, index: int) -> tuple[BatchRef, ...]:
        """Another reader comes in the place of one that has failed: the batches that this one may not have read."""
        holder = self.subpartitions[index]
        waiting = tuple(buffer for buffer in holder.buffers if isinstance(buffer, BatchRef))
        lost = holder.reconnect(self._last_events.values())
        self._account(holder, waiting)
        return lost

    def _is_read(self, index: int) -> bool:
        return index in self._unconsumed and self.subpartitions[index].consumer is not None

    def _refusal(self, index: int, *, reconnects: bool) -> ErrorResponse | None:
        partition_id = self.descriptor.partition_id
        if not 0 <= index < len(self.subpartitions):
            return unknown_subpartition(self.descriptor, index)
        if self.is_released:
            return partition_not_found(partition_id, index, "the partition is released")
        if reconnects and self.subpartitions[index].is_consumed:
            return partition_not_found(partition_id, index, "its reader had everything")
        if not reconnects and self.subpartitions[index].consumer is not None:
            text = "it has been asked for already, and is given to one reader only"
            return partition_error(partition_id, index, "SubpartitionAlreadyRequestedError", text)
        return None


def unknown_subpartition(descriptor: ResultPartitionDescriptor, index: int) -> ErrorResponse:
    text = f"the partition has {descriptor.subpartitions} subpartitions, and none with the number {index}"
    return partition_error(descriptor.partition_id, index, "UnknownSubpartitionError", text)


class KeptPartition:
    """A blocking partition whose task has finished: it is read by every consumer that asks, from its beginning.

    What was read stays until the partition is released. Follows Flink's BoundedBlockingSubpartition.
    """

    def __init__(self, finished: FinishedPartition) -> None:
        self._finished = finished
        self._readers: dict[tuple[int, Ref], Subpartition] = {}

    def request(self, request: PartitionRequest) -> list[PartitionEffect]:
        index, descriptor = request.subpartition, self._finished.descriptor
        if not 0 <= index < descriptor.subpartitions:
            return [Tell(to=request.consumer, message=unknown_subpartition(descriptor, index))]
        place = index, request.consumer
        self._readers[place] = Subpartition(descriptor.partition_id, index, self._finished.subpartitions[index])
        self._readers[place].request(request.consumer, request.credit)
        return self._served(place)

    def add_credit(self, message: AddCredit, consumer: Ref | None) -> list[PartitionEffect]:
        if consumer is None or (message.subpartition, consumer) not in self._readers:
            return [Ignore(reason=f"{consumer} does not read subpartition {message.subpartition}")]
        place = message.subpartition, consumer
        self._readers[place].credit += message.credit
        return self._served(place)

    def cancel(self, message: CancelPartitionRequest, consumer: Ref | None) -> list[PartitionEffect]:
        if consumer is None or self._readers.pop((message.subpartition, consumer), None) is None:
            return [Ignore(reason=f"{consumer} does not read subpartition {message.subpartition}")]
        return []

    def check(self) -> None:
        for reader in self._readers.values():
            reader.check()

    def _served(self, place: tuple[int, Ref]) -> list[PartitionEffect]:
        reader = self._readers[place]
        sent = reader.serve()
        if reader.is_consumed:
            del self._readers[place]
        return list(sent)
