"""One subpartition of a blocking partition: written wholly, then read by anybody, as often as they like.

What was read stays, until the partition is released. Follows Flink's BoundedBlockingSubpartition.
"""

from __future__ import annotations

from flykka.actors.exchange.subpartition import BufferAndBacklog, PartitionTotals
from flykka.messages.batch import BatchRef
from flykka.messages.exchange import Buffer, EndOfPartition
from flykka.messages.ids import ResultPartitionId


class BlockingSubpartition:
    """Everything that was made for one consuming subtask."""

    def __init__(self, partition_id: ResultPartitionId, index: int, totals: PartitionTotals | None = None) -> None:
        self.total_buffers = 0
        self.total_bytes = 0
        self.is_finished = False
        self.is_released = False
        self._partition_id = partition_id
        self._index = index
        self._buffers: list[Buffer] = []
        self._totals = totals or PartitionTotals()

    @property
    def takes_more(self) -> bool:
        """Neither finished nor released."""
        return not self.is_finished and not self.is_released

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Everything that was written and not released, in order."""
        return tuple(self._buffers)

    @property
    def queued(self) -> int:
        """Elements that it keeps, events and all."""
        return len(self._buffers)

    def add(self, buffer: Buffer) -> bool:
        """Write an element behind all others; nobody is woken by it, because nobody reads yet."""
        assert self.takes_more, f"{self}: an element behind the end"
        self._buffers.append(buffer)
        self.total_buffers += 1
        if isinstance(buffer, BatchRef):
            self.total_bytes += buffer.size_bytes
            self._totals.add(buffer, self._index)
        self.is_finished = isinstance(buffer, EndOfPartition)
        return False

    def flush(self) -> bool:
        """Nobody reads before the end, so nobody is woken."""
        return False

    def finish(self) -> bool:
        """Everything is written."""
        return self.add(EndOfPartition())

    def create_view(self) -> BlockingSubpartitionView:
        """A reader of its own, from the beginning."""
        assert self.is_finished, f"{self} is not written wholly"
        assert not self.is_released, f"{self} is released"
        return BlockingSubpartitionView(self._buffers)

    def release(self) -> tuple[BatchRef, ...]:
        """Give up: all data, read or not."""
        self.is_released = True
        return self.drain()

    def drain(self) -> tuple[BatchRef, ...]:
        """Take out everything."""
        batches = tuple(buffer for buffer in self._buffers if isinstance(buffer, BatchRef))
        for batch in batches:
            self._totals.remove(batch, self._index)
        self._buffers = []
        return batches

    def check(self) -> None:
        """Assert that what is released is gone."""
        assert not self.is_released or not self._buffers

    def __str__(self) -> str:
        return f"subpartition {self._index} of {self._partition_id}"


class BlockingSubpartitionView:
    """The place that one reader has come to."""

    is_blocked = False

    def __init__(self, buffers: list[Buffer]) -> None:
        self._buffers = buffers
        self._next = 0
        self._left = sum(isinstance(buffer, BatchRef) for buffer in buffers)

    @property
    def backlog(self) -> int:
        """Data that this reader has not got."""
        return self._left

    def is_available(self, has_credit: bool = True) -> bool:
        """Something is left; without credit only events can be read."""
        is_left = self._next < len(self._buffers)
        return is_left and (has_credit or not isinstance(self._buffers[self._next], BatchRef))

    def poll(self) -> BufferAndBacklog | None:
        """The next element; None behind the last."""
        if self._next == len(self._buffers):
            return None
        buffer = self._buffers[self._next]
        self._next += 1
        self._left -= isinstance(buffer, BatchRef)
        next_is_event = self.is_available() and not isinstance(self._buffers[self._next], BatchRef)
        return BufferAndBacklog(buffer, self.is_available(), self._left, next_is_event)

    def take_dropped(self) -> tuple[BatchRef, ...]:
        """What was read stays for the next reader."""
        return ()

    def resume_consumption(self) -> None:
        """Nothing blocks what is written already."""
