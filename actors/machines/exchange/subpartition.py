"""A subpartition and its reader: buffers that wait, those that may be sent now, and their numbers.

The rule: the reader is sent the first element while there is one, and the reader has credit or the element is an event.
Events cost no credit and do not overtake data, unless they have priority. Elements are numbered from 0. Data that
begins to wait is announced once. Follows Flink's PipelinedSubpartition and its CreditBasedSequenceNumberingViewReader.

One that can be reconnected takes a second reader when the first has failed: what was on its way to that one is lost,
and the new one begins with the next batch (Flink's PipelinedApproximateSubpartition).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from flykka.actors.machines.effects import Tell
from flykka.actors.machines.exchange.effects import PRODUCER_FAILED_ERROR
from flykka.messages.tasks.exchange import (
    BacklogAnnouncement,
    BatchRef,
    Buffer,
    BufferResponse,
    CheckpointBarrier,
    EndOfPartition,
    ErrorResponse,
    Event,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ResultPartitionId
from flykka.messages.wire.ref import Ref

_UNREAD_MOST = 128
"""So many of the batches that were sent last are let go of when their reader has failed: it cannot hold more."""


class Subpartition:
    """The elements for one consuming subtask that it has not been sent. There is one reader at a time."""

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
        """Batches that wait."""
        self.consumer: Ref | None = None
        self.credit = 0
        self.next_sequence_number = 0
        self.is_finished = False
        """Nothing follows what waits."""
        self.is_consumed = False
        """The reader has been sent the end, or reads no further."""
        self._partition_id = partition_id
        self._index = index
        self._queue: deque[Buffer] = deque()
        self._priority_events = 0
        # Batches of which nobody knows whether the reader has taken them.
        self._sent: deque[BatchRef] | None = deque(maxlen=_UNREAD_MOST) if is_reconnectable else None
        # The backlog that the reader knows of: every element tells it.
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
        assert not self.is_finished, f"{self}: an element behind the end"
        self._queue.append(buffer)
        self.backlog += isinstance(buffer, BatchRef)
        self.is_finished = isinstance(buffer, EndOfPartition)

    def add_priority(self, event: Event) -> tuple[BatchRef, ...]:
        """Queue an event before all that has no priority; the batches that it overtakes."""
        assert not self.is_finished, f"{self}: an element behind the end"
        self._queue.insert(self._priority_events, event)
        self._priority_events += 1
        return self._batches()

    def holds_barrier(self, checkpoint_id: int) -> bool:
        return self._place_of_barrier(checkpoint_id) is not None

    def prioritize_barrier(self, checkpoint_id: int) -> tuple[BatchRef, ...]:
        """Let a barrier that waits here overtake what it waits behind; the batches that it overtakes."""
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
        assert self.consumer is None, f"{self} is given to one reader only"
        self.consumer = consumer
        self.credit = credit

    def reconnect(self, events: Iterable[Event]) -> tuple[BatchRef, ...]:
        """The reader has failed, and another one is coming: the batches that were on their way to the first.

        The other one is told `events` instead of all that waits. Barriers among that are of checkpoints that were given
        up with the reader; one that was not is given up when its time is over.
        """
        assert self._sent is not None, f"{self} is given to one reader only"
        assert not self.is_consumed, f"{self}: its reader had everything"
        lost = (*self._sent, *self._batches())
        is_finished = self.is_finished
        self._sent.clear()
        self._queue.clear()
        self.consumer, self.credit, self.next_sequence_number = None, 0, 0
        self.backlog = self._priority_events = self._told_backlog = 0
        self._queue.extend(events)
        if is_finished:
            self._queue.append(EndOfPartition())
        return lost

    def serve(self) -> list[Tell[Ref]]:
        """Everything that the reader may be sent now, or that data waits where the reader does not know it."""
        if self.consumer is None or self.is_consumed:
            return []
        sent: list[Tell[Ref]] = []
        while self._queue and (self.credit > 0 or not isinstance(self._queue[0], BatchRef)):
            sent.append(Tell(to=self.consumer, message=self._next()))
        if self.backlog and not self._told_backlog:
            self._told_backlog = self.backlog
            announcement = BacklogAnnouncement(
                partition_id=self._partition_id, subpartition=self._index, backlog=self.backlog
            )
            sent.append(Tell(to=self.consumer, message=announcement))
        return sent

    def fail(self, cause: SerializedThrowable) -> list[Tell[Ref]]:
        """The producer has failed: tell the reader, unless it has everything."""
        if self.consumer is None or self.is_consumed:
            return []
        text = f"{self}: {cause.type_name}: {cause.message}"
        blamed = SerializedThrowable(type_name=PRODUCER_FAILED_ERROR, message=text, stack_trace=cause.stack_trace)
        error = ErrorResponse(partition_id=self._partition_id, subpartition=self._index, cause=blamed)
        return [Tell(to=self.consumer, message=error)]

    def drain(self) -> tuple[BatchRef, ...]:
        """Take out everything, because nobody reads on: the batches that were never sent."""
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
            assert isinstance(self._queue[0], BatchRef), f"{self}: an event waits that could be sent"
            assert not self.credit, f"{self}: a batch waits that could be sent"
            assert self._told_backlog, f"{self}: the reader does not know what waits"

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
