"""Whose turn it is among the readers of a producer: one message per reader and turn.

A reader is in the line when it may be sent something, or has not heard what waits for it. It goes to the end of the
line behind each message, so that no reader waits for all that another one gets. Follows Flink's PartitionRequestQueue.
"""

from __future__ import annotations

from collections import OrderedDict

from flykka.actors.exchange.effects import PartitionEffect
from flykka.actors.exchange.subpartition_reader import SubpartitionReader


class PartitionRequestQueue:
    """Readers in the order of their turns. While the way to the consumers is writable, nobody stays in the line."""

    __slots__ = ("_line", "ended", "is_writable")

    def __init__(self) -> None:
        self.is_writable = True
        self.ended: list[SubpartitionReader] = []
        """Who has been sent the end, for the partition to take note of."""
        # An ordered set: a reader that leaves leaves the line too.
        self._line: OrderedDict[SubpartitionReader, None] = OrderedDict()

    @property
    def enqueued(self) -> tuple[SubpartitionReader, ...]:
        """Who is in the line."""
        return tuple(self._line)

    def enqueue(self, reader: SubpartitionReader) -> list[PartitionEffect]:
        """There may be something for `reader`: what is sent now."""
        if self._line or not self.is_writable:
            self._line.setdefault(reader)
            return self.serve()
        effects: list[PartitionEffect] = []
        while reader.serve(effects):
            pass  # It is alone in the line: every turn is its own.
        if reader.has_ended:
            self.ended.append(reader)
        return effects

    def remove(self, reader: SubpartitionReader) -> None:
        """The reader has left."""
        self._line.pop(reader, None)

    def set_writable(self, is_writable: bool) -> list[PartitionEffect]:
        """The way to the consumers is open, or is not: what is sent now."""
        self.is_writable = is_writable
        return self.serve()

    def serve(self) -> list[PartitionEffect]:
        """Everything that may be sent, in turns."""
        effects: list[PartitionEffect] = []
        while self._line and self.is_writable:
            reader, _ = self._line.popitem(last=False)
            if reader.serve(effects):
                self._line[reader] = None
            elif reader.has_ended:
                self.ended.append(reader)
        return effects
