"""Who reads a partition: the readers of each subpartition, found by the messages of their consumers.

A message may come from a consumer that has not asked, has got everything, or has left; which of these it was decides
whether it is refused or ignored.
"""

from __future__ import annotations

from collections.abc import Iterator

from flykka.actors.exchange.effects import Refuse
from flykka.actors.exchange.partition_errors import partition_error
from flykka.actors.exchange.partition_request_queue import PartitionRequestQueue
from flykka.actors.exchange.subpartition_reader import SubpartitionReader
from flykka.actors.ignore import Ignore
from flykka.messages.exchange import ErrorResponse
from flykka.messages.ids import ResultPartitionId
from flykka.messages.ref import Ref


class PartitionReaders:
    """The readers of `subpartitions` subpartitions and the line that they are served in."""

    __slots__ = ("_partition_id", "_readers", "_were_read", "queue")

    def __init__(self, partition_id: ResultPartitionId, subpartitions: int) -> None:
        self.queue = PartitionRequestQueue()
        self._partition_id = partition_id
        self._readers: tuple[dict[Ref, SubpartitionReader], ...] = tuple({} for _ in range(subpartitions))
        self._were_read: set[int] = set()

    def __iter__(self) -> Iterator[SubpartitionReader]:
        return (reader for readers in self._readers for reader in readers.values())

    def were_read(self, index: int) -> bool:
        """Somebody reads the subpartition, or has read it."""
        return index in self._were_read

    def add(self, reader: SubpartitionReader) -> None:
        """Somebody begins to read."""
        self._readers[reader.index][reader.consumer] = reader
        self._were_read.add(reader.index)

    def remove(self, reader: SubpartitionReader) -> None:
        """Somebody has everything, or reads no further."""
        self.queue.remove(reader)
        self._readers[reader.index].pop(reader.consumer, None)

    def clear(self) -> None:
        """The partition is no more."""
        for reader in tuple(self):
            self.remove(reader)

    def of(self, index: int) -> tuple[SubpartitionReader, ...]:
        """Who reads the subpartition now."""
        return tuple(self._readers[index].values())

    def find(self, index: int, consumer: Ref | None) -> SubpartitionReader | Refuse | Ignore:
        """The reader that a message is about, the only one where its consumer is not named; else what to answer."""
        if not self.has(index):
            return Refuse(response=self.unknown(index))
        readers = self._readers[index]
        reader = next(iter(readers.values()), None) if consumer is None else readers.get(consumer)
        if reader is not None:
            return reader
        if index in self._were_read:
            return Ignore(reason=f"subpartition {index} of {self._partition_id} is read no more")
        error = partition_error(self._partition_id, index, "UnknownReaderError", "nobody has asked for it yet")
        return Refuse(response=error)

    def has(self, index: int) -> bool:
        """There is a subpartition of this number."""
        return 0 <= index < len(self._readers)

    def unknown(self, index: int) -> ErrorResponse:
        """The answer where there is none."""
        text = f"the partition has {len(self._readers)} subpartitions, and none with the number {index}"
        return partition_error(self._partition_id, index, "UnknownSubpartitionError", text)
