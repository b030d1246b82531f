"""Writes what a task makes into the buffers of one output: who is behind whom.

What a stage makes is a batch that fills a buffer of its own, and all that a Task writes is of this kind. Where
`buffer_bytes` is given, records share buffers of that size and go on in the next one, as Flink's do; a buffer that is
partly filled is closed before an event, so that nothing that was written before the event comes behind it. Follows
Flink's RecordWriter.
"""

from __future__ import annotations

from flykka.actors.exchange.effects import PartitionEffect
from flykka.actors.exchange.result_partition import ResultPartition
from flykka.messages.batch import BatchRef
from flykka.messages.exchange import Event
from flykka.messages.ids import BatchId


class RecordWriter:
    """The way into one partition. Each record is preceded by `length_prefix_bytes` where it shares a buffer."""

    __slots__ = ("_buffer_bytes", "_length_prefix_bytes", "_open", "_turn", "buffers_requested", "partition")

    def __init__(
        self, partition: ResultPartition, *, buffer_bytes: int | None = None, length_prefix_bytes: int = 0
    ) -> None:
        self.partition = partition
        self.buffers_requested = 0
        self._buffer_bytes = buffer_bytes
        self._length_prefix_bytes = length_prefix_bytes
        self._turn = 0
        # The bytes in the buffer of each channel that is not full.
        self._open: dict[int, int] = {}

    def emit(self, record: BatchRef) -> list[PartitionEffect]:
        """Write a record behind all others of its channel."""
        if self._buffer_bytes is None:
            self.buffers_requested += 1
            return self.partition.add_batch(record)
        effects: list[PartitionEffect] = []
        left = record.size_bytes + self._length_prefix_bytes
        while left:
            filled = self._open.pop(record.subpartition, 0)
            self.buffers_requested += filled == 0
            written = min(left, self._buffer_bytes - filled)
            left -= written
            self._open[record.subpartition] = filled + written
            if filled + written == self._buffer_bytes:
                effects += self._close(record.subpartition)
        return effects

    def broadcast_event(self, event: Event) -> list[PartitionEffect]:
        """Write an event behind everything, in every channel."""
        return [*self.flush(), *self.partition.broadcast_event(event)]

    def emit_in_turn(self, event: Event) -> list[PartitionEffect]:
        """Write an event behind everything in one channel, each time in another: Flink's randomEmit, without chance."""
        unread = self.partition.unread_subpartitions
        if not unread:
            return []
        channel = unread[self._turn % len(unread)]
        self._turn += 1
        closed = self._close(channel) if channel in self._open else []
        return [*closed, *self.partition.add_event(channel, event)]

    def flush(self) -> list[PartitionEffect]:
        """Let what is written be read, full buffers or not."""
        return [effect for channel in tuple(self._open) for effect in self._close(channel)]

    def _close(self, channel: int) -> list[PartitionEffect]:
        name = f"{self.partition.descriptor.partition_id}/{self.buffers_requested}.{channel}"
        buffer = BatchRef(batch_id=BatchId(name), rows=1, size_bytes=self._open.pop(channel), subpartition=channel)
        return self.partition.add_batch(buffer)
