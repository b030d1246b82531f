"""An output of a task: its batches, queued for each consumer until they are sent.

Decides to which subpartition an element goes, how a reader's request is answered, and whether there is room for more.
The stage that produces a batch decides on its subpartition (hash, turn, copy). A pipelined partition is released as it
is consumed. A blocking partition is written here, and read from the TaskManager when the task has finished
(`KeptPartition`). An approximate partition outlives its readers: the next reader receives the current state of event
time and data, and begins with the next batch. Follows Flink's ResultPartition.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from flykka.actors.machines.effects import Ignore, Tell
from flykka.actors.machines.exchange.effects import PRODUCER_FAILED_ERROR, PartitionEffect, ReleaseBatch
from flykka.messages.graph.job_graph import ResultPartitionType
from flykka.messages.tasks.exchange import (
    AddCredit,
    BacklogAnnouncement,
    BatchRef,
    Buffer,
    BufferResponse,
    CancelPartitionRequest,
    CheckpointBarrier,
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

_UNREAD_MOST = 128
"""The number of last sent batches that are released if their reader fails: a reader cannot hold more unread batches."""


class Subpartition:
    """The unsent elements for one consuming subtask. There is one reader at a time.

    The first element is sent if the reader has credit or the element is an event. Events cost no credit and do not
    overtake data, unless they have priority. Elements are numbered from 0. The backlog is announced once, when data
    begins to wait. Follows Flink's PipelinedSubpartition and CreditBasedSequenceNumberingViewReader.

    A reconnectable subpartition accepts a second reader when the first has failed: elements in transit to the failed
    reader are lost, and the new reader begins with the next batch (Flink's PipelinedApproximateSubpartition).
    """

    __slots__ = (
        "_index",
        "_partition_id",
        "_priority_events",
        "_queue",
        "_sent",
        "_told_backlog",
        "backlog",
        "consumer",
        "credit",
        "is_consumed",
        "is_finished",
        "next_sequence_number",
    )

    def __init__(
        self,
        partition_id: ResultPartitionId,
        index: int,
        buffers: Iterable[Buffer] = (),
        *,
        is_reconnectable: bool = False,
    ) -> None:
        self.backlog = 0
        self.consumer: Ref | None = None
        self.credit = 0
        self.next_sequence_number = 0
        self.is_finished = False
        self.is_consumed = False
        """True if the reader has been sent end-of-partition or has detached."""
        self._partition_id = partition_id
        self._index = index
        self._queue: deque[Buffer] = deque()
        self._priority_events = 0
        # The last batches that were sent, which the reader may not have received.
        self._sent: deque[BatchRef] | None = deque(maxlen=_UNREAD_MOST) if is_reconnectable else None
        # The backlog that the reader knows from the last element, because every element carries the current backlog.
        self._told_backlog = 0
        for buffer in buffers:
            self.add(buffer)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return tuple(self._queue)

    @property
    def queued(self) -> int:
        return len(self._queue)

    def add(self, buffer: Buffer) -> None:
        assert not self.is_finished, f"{self}: an element is added after the end"
        self._queue.append(buffer)
        self.backlog += isinstance(buffer, BatchRef)
        self.is_finished = isinstance(buffer, EndOfPartition)

    def add_priority(self, event: Event) -> tuple[BatchRef, ...]:
        """Queue an event before all elements without priority. Returns the batches that it overtakes."""
        assert not self.is_finished, f"{self}: an element is added after the end"
        self._queue.insert(self._priority_events, event)
        self._priority_events += 1
        return self._batches()

    def holds_barrier(self, checkpoint_id: int) -> bool:
        return self._place_of_barrier(checkpoint_id) is not None

    def prioritize_barrier(self, checkpoint_id: int) -> tuple[BatchRef, ...]:
        """Let a waiting barrier overtake the batches before it, and return these batches."""
        place = self._place_of_barrier(checkpoint_id)
        assert place is not None, f"{self} does not hold the barrier of checkpoint {checkpoint_id}"
        barrier = self._queue[place]
        assert isinstance(barrier, CheckpointBarrier)
        overtaken = self._batches(before=place)
        del self._queue[place]
        self._queue.insert(self._priority_events, barrier.as_unaligned())
        self._priority_events += 1
        return overtaken

    def request(self, consumer: Ref, credit: int) -> None:
        assert self.consumer is None, f"{self} already has a reader"
        self.consumer = consumer
        self.credit = credit

    def reconnect(self, events: Iterable[Event]) -> tuple[BatchRef, ...]:
        """Prepare for the next reader after a reader has failed. Returns the batches that were in transit or waiting.

        The next reader is sent `events` in place of all waiting elements. Barriers that are dropped belong to
        checkpoints that were abandoned with the reader, or will be when they time out.
        """
        assert self._sent is not None, f"{self} can have only one reader"
        assert not self.is_consumed, f"{self}: its reader has received everything already"
        lost_batches = (*self._sent, *self._batches())
        is_finished = self.is_finished
        self._sent.clear()
        self._queue.clear()
        self.consumer, self.credit, self.next_sequence_number = None, 0, 0
        self.backlog = self._priority_events = self._told_backlog = 0
        self._queue.extend(events)
        if is_finished:
            self._queue.append(EndOfPartition())
        return lost_batches

    def serve(self) -> list[Tell[Ref]]:
        """Return the messages that may be sent to the reader now, with an announcement if its backlog is unknown."""
        if self.consumer is None or self.is_consumed:
            return []
        messages: list[Tell[Ref]] = []
        while self._queue and (self.credit > 0 or not isinstance(self._queue[0], BatchRef)):
            messages.append(Tell(to=self.consumer, message=self._next()))
        if self.backlog and not self._told_backlog:
            self._told_backlog = self.backlog
            announcement = BacklogAnnouncement(
                partition_id=self._partition_id, subpartition=self._index, backlog=self.backlog
            )
            messages.append(Tell(to=self.consumer, message=announcement))
        return messages

    def fail(self, cause: SerializedThrowable) -> list[Tell[Ref]]:
        """Notify the reader that the producer has failed, unless the reader has received everything."""
        if self.consumer is None or self.is_consumed:
            return []
        text = f"{self}: {cause.type_name}: {cause.message}"
        producer_failure = SerializedThrowable(
            type_name=PRODUCER_FAILED_ERROR, message=text, stack_trace=cause.stack_trace
        )
        error = ErrorResponse(partition_id=self._partition_id, subpartition=self._index, cause=producer_failure)
        return [Tell(to=self.consumer, message=error)]

    def drain(self) -> tuple[BatchRef, ...]:
        batches = self._batches()
        self._queue.clear()
        self.backlog = self._priority_events = 0
        self.is_consumed = True
        return batches

    def check(self) -> None:
        assert self.credit >= 0
        assert self.backlog == len(self._batches())
        assert 0 <= self._priority_events <= len(self._queue)
        assert not self.is_consumed or not self._queue
        if self.consumer is not None and self._queue:
            assert isinstance(self._queue[0], BatchRef), f"{self}: an event is queued although it could be sent"
            assert not self.credit, f"{self}: a batch is queued although it could be sent"
            assert self._told_backlog, f"{self}: the reader was not notified of the backlog"

    def _next(self) -> BufferResponse:
        buffer = self._queue.popleft()
        if self._priority_events:
            self._priority_events -= 1
        if isinstance(buffer, BatchRef):
            self.backlog -= 1
            self.credit -= 1
            if self._sent is not None:
                self._sent.append(buffer)
        self.is_consumed = isinstance(buffer, EndOfPartition)
        self._told_backlog = self.backlog
        sequence_number = self.next_sequence_number
        self.next_sequence_number += 1
        return BufferResponse(
            partition_id=self._partition_id,
            subpartition=self._index,
            sequence_number=sequence_number,
            buffer=buffer,
            backlog=self.backlog,
        )

    def _batches(self, before: int | None = None) -> tuple[BatchRef, ...]:
        queued = self.buffers if before is None else self.buffers[:before]
        return tuple(buffer for buffer in queued if isinstance(buffer, BatchRef))

    def _place_of_barrier(self, checkpoint_id: int) -> int | None:
        for place, buffer in enumerate(self._queue):
            if isinstance(buffer, CheckpointBarrier) and buffer.checkpoint_id == checkpoint_id:
                return place
        return None

    def __str__(self) -> str:
        return f"subpartition {self._index} of {self._partition_id}"


def partition_error(partition_id: ResultPartitionId, subpartition: int, type_name: str, text: str) -> ErrorResponse:
    """Return an error response for a request that would fail again if it were repeated."""
    message = f"subpartition {subpartition} of {partition_id}: {text}"
    cause = SerializedThrowable(type_name=type_name, message=message)
    return ErrorResponse(partition_id=partition_id, subpartition=subpartition, cause=cause)


def partition_not_found(partition_id: ResultPartitionId, subpartition: int, text: str) -> ErrorResponse:
    """Return an error response for a partition that does not exist yet or any longer (Flink's
    PartitionNotFoundException).
    """
    message = f"subpartition {subpartition} of {partition_id}: {text}"
    return ErrorResponse(
        partition_id=partition_id,
        subpartition=subpartition,
        cause=SerializedThrowable(type_name="PartitionNotFoundError", message=message, lost_partition=partition_id),
        partition_not_found=True,
    )


FLOATING_BUFFERS = 2
"""The number of buffers that a partition may have in addition to one for each subpartition."""

MAX_BUFFERS_PER_CHANNEL = 10
"""The maximum number of unsent batches for one reader. At this limit the output accepts no batches for any reader."""


class ResultPartition:
    """The subpartitions of one output. Every method returns the messages to send and the batches to release.

    Each waiting batch occupies one of `size` buffers (default: the maximum number). If `bytes_per_buffer` is set, the
    partition is also full when its waiting batches have `size * bytes_per_buffer` bytes or more. Batches of a completed
    stage are queued even if the partition is full, but the next stage then has to wait.
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
        self._queued_bytes = 0
        self._full_channels = 0
        self._size = descriptor.subpartitions + FLOATING_BUFFERS if size is None else size
        self._bytes_per_buffer = bytes_per_buffer
        self._turn = 0
        numbers = range(descriptor.subpartitions)
        self.subpartitions = tuple(
            Subpartition(descriptor.partition_id, number, is_reconnectable=self.is_approximate) for number in numbers
        )
        # The events that the next reader has to receive, by type.
        self._last_events: dict[type[Event], Event] = {}
        self._unconsumed = dict.fromkeys(numbers)

    def finished(self) -> FinishedPartition:
        assert self.is_blocking, f"{self.descriptor.partition_id} is not a blocking partition"
        assert self.is_finished, f"{self.descriptor.partition_id} is not written completely"
        return FinishedPartition(
            descriptor=self.descriptor, subpartitions=tuple(each.buffers for each in self.subpartitions)
        )

    @property
    def all_consumed(self) -> bool:
        return not self._unconsumed

    @property
    def unread_subpartitions(self) -> tuple[int, ...]:
        return tuple(self._unconsumed)

    @property
    def is_available(self) -> bool:
        if self.is_blocking:
            return True
        has_bytes = self._bytes_per_buffer is None or self._queued_bytes < self._bytes_per_buffer * max(self._size, 1)
        return has_bytes and not self._full_channels and self.queued_batches < self._size

    @property
    def has_credit(self) -> bool:
        return any(self.subpartitions[index].credit > 0 for index in self._unconsumed)

    def resize(self, size: int) -> None:
        self._size = size

    def add_batch(self, batch: BatchRef) -> list[PartitionEffect]:
        """Queue a batch in its subpartition. A batch without rows, or without a reader, is released."""
        if batch.subpartition not in self._unconsumed or not batch.rows:
            return [ReleaseBatch(batch=batch)]
        holder = self.subpartitions[batch.subpartition]
        holder.add(batch)
        self.queued_batches += 1
        self._queued_bytes += batch.size_bytes
        self._full_channels += holder.backlog == MAX_BUFFERS_PER_CHANNEL
        return self._served(batch.subpartition)

    def broadcast_event(self, event: Event) -> list[PartitionEffect]:
        self.is_finished = self.is_finished or isinstance(event, EndOfPartition)
        if self.is_approximate and isinstance(event, Watermark | WatermarkStatus | EndOfData):
            self._last_events[type(event)] = event
        return [effect for index in tuple(self._unconsumed) for effect in self._add_event(index, event)]

    def emit_in_turn(self, event: Event) -> list[PartitionEffect]:
        """Queue an event in one subpartition, round-robin: Flink's randomEmit, but deterministic."""
        unread = self.unread_subpartitions
        if not unread:
            return []
        index = unread[self._turn % len(unread)]
        self._turn += 1
        return self._add_event(index, event)

    def broadcast_priority_event(self, event: Event) -> tuple[list[PartitionEffect], tuple[BatchRef, ...]]:
        assert not self.is_blocking, "no event can overtake batches in a blocking partition"
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
        overtaken = self.subpartitions[subpartition].prioritize_barrier(checkpoint_id)
        return self._served(subpartition), overtaken

    def finish(self) -> list[PartitionEffect]:
        return self.broadcast_event(EndOfPartition())

    def request(
        self, subpartition: int, credit: int, consumer: Ref, *, reconnects: bool = False
    ) -> list[PartitionEffect]:
        """Serve a reader that requests its subpartition with `credit`. With `reconnects` it replaces another reader."""
        refusal = self._refusal(subpartition, reconnects=reconnects)
        if refusal is not None:
            return [Tell(to=consumer, message=refusal)]
        lost_batches = self._reconnected(subpartition) if reconnects else ()
        self.subpartitions[subpartition].request(consumer, credit)
        return [*(ReleaseBatch(batch=batch) for batch in lost_batches), *self._served(subpartition)]

    def add_credit(self, subpartition: int, credit: int) -> list[PartitionEffect]:
        if not self._is_read(subpartition):
            return [Ignore(reason=f"no consumer reads subpartition {subpartition}")]
        self.subpartitions[subpartition].credit += credit
        return self._served(subpartition)

    def cancel(self, subpartition: int) -> list[PartitionEffect]:
        """Release the unsent data of a reader that detaches, unless another reader is expected."""
        if self.is_approximate:
            return [Ignore(reason=f"another reader of subpartition {subpartition} is expected")]
        if not self._is_read(subpartition):
            return [Ignore(reason=f"no consumer reads subpartition {subpartition}")]
        return [ReleaseBatch(batch=batch) for batch in self._consumed(subpartition)]

    def fail(self, cause: SerializedThrowable) -> list[PartitionEffect]:
        notifications = [effect for subpartition in self.subpartitions for effect in subpartition.fail(cause)]
        return [*notifications, *(ReleaseBatch(batch=batch) for batch in self.release())]

    def release(self) -> tuple[BatchRef, ...]:
        """Release the partition without notifying readers. Returns the unsent batches. Batches added later are released
        at once.
        """
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
        holder = self.subpartitions[index]
        has_waited = holder.backlog > 0
        effects = holder.serve()
        if has_waited:
            buffers = (effect.message.buffer for effect in effects if isinstance(effect.message, BufferResponse))
            self._account(holder, [buffer for buffer in buffers if isinstance(buffer, BatchRef)])
        if holder.is_consumed:
            self._consumed(index)
        return list(effects)

    def _consumed(self, index: int) -> tuple[BatchRef, ...]:
        """Drop a subpartition whose reader has received everything or has left. Returns the batches not sent."""
        holder = self.subpartitions[index]
        unsent = holder.drain()
        self._account(holder, unsent)
        self._unconsumed.pop(index, None)
        self.is_released = self.all_consumed
        return unsent

    def _account(self, holder: Subpartition, removed: Sequence[BatchRef]) -> None:
        was_full = holder.backlog + len(removed) >= MAX_BUFFERS_PER_CHANNEL
        self._full_channels -= was_full and holder.backlog < MAX_BUFFERS_PER_CHANNEL
        self.queued_batches -= len(removed)
        self._queued_bytes -= sum(batch.size_bytes for batch in removed)

    def _reconnected(self, index: int) -> tuple[BatchRef, ...]:
        holder = self.subpartitions[index]
        waiting = tuple(buffer for buffer in holder.buffers if isinstance(buffer, BatchRef))
        lost_batches = holder.reconnect(self._last_events.values())
        self._account(holder, waiting)
        return lost_batches

    def _is_read(self, index: int) -> bool:
        return index in self._unconsumed and self.subpartitions[index].consumer is not None

    def _refusal(self, index: int, *, reconnects: bool) -> ErrorResponse | None:
        partition_id = self.descriptor.partition_id
        if not 0 <= index < len(self.subpartitions):
            return unknown_subpartition(self.descriptor, index)
        if self.is_released:
            return partition_not_found(partition_id, index, "the partition is released")
        if reconnects and self.subpartitions[index].is_consumed:
            return partition_not_found(partition_id, index, "its reader has received everything already")
        if not reconnects and self.subpartitions[index].consumer is not None:
            text = "it was requested already, and can have only one reader"
            return partition_error(partition_id, index, "SubpartitionAlreadyRequestedError", text)
        return None


def unknown_subpartition(descriptor: ResultPartitionDescriptor, index: int) -> ErrorResponse:
    text = f"the partition has {descriptor.subpartitions} subpartitions, and none has the index {index}"
    return partition_error(descriptor.partition_id, index, "UnknownSubpartitionError", text)


class KeptPartition:
    """A blocking partition whose task has finished: every consumer reads it from the beginning.

    Batches that were read stay until the partition is released. Follows Flink's BoundedBlockingSubpartition.
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
        effects = reader.serve()
        if reader.is_consumed:
            del self._readers[place]
        return list(effects)
