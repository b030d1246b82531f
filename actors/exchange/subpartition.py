"""One subpartition of a pipelined partition: a queue with one reader, who takes what is ready.

Decides what may be read, in which order, and when the reader has to be woken: when a first complete buffer appears, on
`flush` and at the end, and not again before it has drained the queue. A buffer may be open: its producer still appends
to it, so it is read where it is the last and `flush` asks for it, and is not counted as backlog before. A priority
event overtakes what is queued. Who the reader is and what credit it has is not known here. Follows Flink's
PipelinedSubpartition.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from flykka.actors.exchange.alignment import as_unaligned
from flykka.actors.exchange.buffer_pool import BufferListener, LocalBufferPool
from flykka.messages.batch import BatchRef
from flykka.messages.checkpoint import AlignmentType
from flykka.messages.exchange import Buffer, CheckpointBarrier, EndOfPartition, Event
from flykka.messages.ids import ResultPartitionId

_ALIGNED = (AlignmentType.ALIGNED, AlignmentType.FORCED_ALIGNED)


class BufferAndBacklog(NamedTuple):
    """What a reader gets: an element, whether more can be read now, and the data that waits behind it."""

    buffer: Buffer
    data_available: bool
    backlog: int
    next_is_event: bool


class PartitionTotals:
    """What the subpartitions of a partition hold together: every batch has a buffer of `pool`, where there is one."""

    __slots__ = ("_pool", "queued_batches")

    def __init__(self, pool: LocalBufferPool[BufferListener] | None = None) -> None:
        self.queued_batches = 0
        self._pool = pool

    def add(self, batch: BatchRef, subpartition: int) -> None:
        """A batch is queued."""
        self.queued_batches += 1
        if self._pool is not None:
            self._pool.take_overdraft(subpartition, batch.size_bytes)

    def remove(self, batch: BatchRef, subpartition: int) -> None:
        """A batch is queued no more."""
        self.queued_batches -= 1
        if self._pool is not None:
            self._pool.give_back(subpartition, batch.size_bytes)


@dataclass(slots=True)
class _Entry:
    buffer: Buffer
    is_complete: bool
    has_content: bool
    """An open buffer stays in the queue when what it holds has been read, and data may be without a row."""


class PipelinedSubpartition:
    """The elements for one consuming subtask that it has not taken.

    `blocks_behind_barriers`: as since Flink 1.11, nothing is read behind an aligned barrier before the reader says that
    it has aligned (`resume_consumption`). Before, the receiver alone did not read on.
    """

    __slots__ = (
        "_blocks_behind_barriers",
        "_dropped",
        "_flush_requested",
        "_index",
        "_partition_id",
        "_priority_events",
        "_queue",
        "_queued_batches",
        "_totals",
        "has_reader",
        "is_blocked",
        "is_finished",
        "is_released",
        "total_buffers",
        "total_bytes",
    )

    def __init__(
        self,
        partition_id: ResultPartitionId,
        index: int,
        totals: PartitionTotals | None = None,
        *,
        blocks_behind_barriers: bool = False,
    ) -> None:
        self.total_buffers = 0
        self.total_bytes = 0
        self.is_finished = False
        self.is_released = False
        self.is_blocked = False
        self.has_reader = False
        self._partition_id = partition_id
        self._index = index
        self._queue: deque[_Entry] = deque()
        self._dropped: list[BatchRef] = []
        self._queued_batches = 0
        self._priority_events = 0
        self._flush_requested = False
        self._totals = totals or PartitionTotals()
        self._blocks_behind_barriers = blocks_behind_barriers

    def create_view(self) -> PipelinedSubpartition:
        """The reader has come. There is one at most, ever: it reads the queue itself."""
        assert not self.is_released, f"{self} is released"
        assert not self.has_reader, f"{self} is given to one reader only"
        self.has_reader = True
        return self

    def add(self, buffer: Buffer, *, complete: bool = True) -> bool:
        """Queue an element behind all others; whether the reader has to be woken. Check `takes_more` before."""
        assert self.takes_more, f"{self}: an element behind the end"
        queue = self._queue
        self.total_buffers += 1
        if isinstance(buffer, BatchRef):
            queue.append(_Entry(buffer, complete, buffer.rows > 0))
            self._queued_batches += 1
            self._totals.add(buffer, self._index)
        else:
            queue.append(_Entry(buffer, complete, has_content=True))
            if isinstance(buffer, EndOfPartition):
                self.is_finished = True
                return self.has_reader
        # With two in the queue the first is sure to be complete, whatever the second is.
        is_first_complete = complete if len(queue) == 1 else len(queue) == 2
        return is_first_complete and self.has_reader and not self._flush_requested and not self.is_blocked

    def add_priority(self, event: Event) -> tuple[bool, tuple[BatchRef, ...]]:
        """Queue an event before all that has no priority: whether to wake the reader, and the data it overtakes."""
        assert self.takes_more, f"{self}: an element behind the end"
        self._queue.insert(self._priority_events, _Entry(event, is_complete=True, has_content=True))
        self._priority_events += 1
        self.total_buffers += 1
        wakes = self.has_reader and not self.is_blocked and self._priority_events == 1
        return wakes, self.in_flight

    def holds_barrier(self, checkpoint_id: int) -> bool:
        """The barrier of the checkpoint waits behind something."""
        return self._place_of_barrier(checkpoint_id) is not None

    def prioritize_barrier(self, checkpoint_id: int) -> tuple[bool, tuple[BatchRef, ...]]:
        """Let a barrier that waits here overtake what it waits behind; as `add_priority`."""
        place = self._place_of_barrier(checkpoint_id)
        assert place is not None, f"{self} does not hold the barrier of checkpoint {checkpoint_id}"
        barrier = self._queue[place].buffer
        assert isinstance(barrier, CheckpointBarrier)
        overtaken = tuple(
            entry.buffer
            for number, entry in enumerate(self._queue)
            if number < place and isinstance(entry.buffer, BatchRef)
        )
        del self._queue[place]
        self.total_buffers -= 1
        wakes, _ = self.add_priority(as_unaligned(barrier))
        return wakes, overtaken

    @property
    def takes_more(self) -> bool:
        """Neither finished nor released."""
        return not self.is_finished and not self.is_released

    @property
    def queued(self) -> int:
        """Elements in the queue, events and all."""
        return len(self._queue)

    @property
    def in_flight(self) -> tuple[BatchRef, ...]:
        """The data in the queue, which a barrier that overtakes it has to store."""
        return tuple(
            entry.buffer
            for entry in self._queue
            if isinstance(entry.buffer, BatchRef) and (entry.has_content or entry.is_complete)
        )

    @property
    def backlog(self) -> int:
        """Data that waits; the last buffer counts when it was flushed or the end is here."""
        everything = self._flush_requested or self.is_finished
        return self._queued_batches if everything else max(self._queued_batches - 1, 0)

    def complete_last(self) -> None:
        """The producer appends no more to the last buffer."""
        self._queue[-1].is_complete = True

    def flush(self) -> bool:
        """Let the last buffer be read as it is; whether the reader has to be woken."""
        if not self._queue or self._flush_requested:
            return False
        is_first = len(self._queue) == 1 and self._queue[0].has_content
        self._flush_requested = len(self._queue) > 1 or is_first
        # With more than one buffer the reader was woken when the second came.
        return is_first and self.has_reader and not self.is_blocked

    def finish(self) -> bool:
        """Nothing follows; whether the reader has to be woken."""
        if self._queue:
            self.complete_last()
        return self.add(EndOfPartition())

    def is_available(self, has_credit: bool = True) -> bool:
        """Something can be read; without credit only events can."""
        if self.is_blocked:
            return False
        queue = self._queue
        if not queue or not has_credit:
            return bool(queue) and not isinstance(queue[0].buffer, BatchRef)
        return self._flush_requested or len(queue) > 1 or queue[0].is_complete

    def poll(self) -> BufferAndBacklog | None:
        """The next element; None while there is none. Data without a row is passed over: see `take_dropped`."""
        if self.is_blocked:
            return None
        if not self._queue:
            self._flush_requested = False
        while self._queue:
            entry = self._queue[0]
            if len(self._queue) == 1:
                self._flush_requested = False
            has_content, entry.has_content = entry.has_content, False
            if entry.is_complete:
                self._take_first(entry.buffer)
            if has_content:
                return self._read(entry.buffer)
            if not entry.is_complete:
                break
        return None

    def take_dropped(self) -> tuple[BatchRef, ...]:
        """The data without a row that `poll` has passed over: not worth a credit, and to be released."""
        if not self._dropped:
            return ()
        dropped, self._dropped = tuple(self._dropped), []
        return dropped

    def resume_consumption(self) -> None:
        """The reader has aligned: go on behind the barrier."""
        self.is_blocked = False

    def release(self) -> tuple[BatchRef, ...]:
        """Give up: the data that was never read."""
        self.is_released = True
        return self.drain()

    def drain(self) -> tuple[BatchRef, ...]:
        """Take out everything: nobody reads on."""
        batches = self.in_flight
        while self._queue:
            self._take_first(self._queue[0].buffer)
        self._dropped.clear()
        self._priority_events = 0
        self._flush_requested = False
        return batches

    def check(self) -> None:
        """Assert that the counts are true."""
        assert self._queued_batches == sum(isinstance(entry.buffer, BatchRef) for entry in self._queue)
        assert 0 <= self._priority_events <= len(self._queue)
        assert not self.is_released or not self._queue
        assert all(entry.is_complete for entry in list(self._queue)[:-1]), "an open buffer that is not the last"

    def _read(self, buffer: Buffer) -> BufferAndBacklog:
        if isinstance(buffer, BatchRef):
            self.total_bytes += buffer.size_bytes
        elif self._blocks_behind_barriers and isinstance(buffer, CheckpointBarrier):
            self.is_blocked = buffer.options.alignment in _ALIGNED
        if not self._queue:
            return BufferAndBacklog(buffer, data_available=False, backlog=0, next_is_event=False)
        next_is_event = not isinstance(self._queue[0].buffer, BatchRef)
        return BufferAndBacklog(buffer, self.is_available(), self.backlog, next_is_event)

    def _take_first(self, buffer: Buffer) -> None:
        self._queue.popleft()
        if self._priority_events:
            self._priority_events -= 1
        if isinstance(buffer, BatchRef):
            self._queued_batches -= 1
            self._totals.remove(buffer, self._index)
            if buffer.rows == 0:
                self._dropped.append(buffer)

    def _place_of_barrier(self, checkpoint_id: int) -> int | None:
        for place, entry in enumerate(self._queue):
            if isinstance(entry.buffer, CheckpointBarrier) and entry.buffer.checkpoint_id == checkpoint_id:
                return place
        return None

    def __str__(self) -> str:
        return f"subpartition {self._index} of {self._partition_id}"
