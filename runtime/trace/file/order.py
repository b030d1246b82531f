"""The records of a trace in the order in which turns started. A file has them in the order in which turns ended."""

from __future__ import annotations

import heapq
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from flykka.messages.wire.ref import Ref
from flykka.runtime.trace.file.chunk_reader import Content
from flykka.runtime.trace.records import Killed, Record, Spawned, Turn

if TYPE_CHECKING:
    from flykka.runtime.trace.file.reader import TraceReader

_WINDOW = 1_024
"""The number of records to look ahead. Records further out of order are only those of turns that awaited a reply: each
thread has at most one late record.
"""

_HELD_BYTES = 16 * 1024 * 1024
"""The maximum number of bytes of messages held back for sorting, whatever the number of records."""


def recipient_of(record: Record) -> Ref:
    return record.ref if isinstance(record, Killed | Spawned) else record.recipient


def nearly_in_order(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records sorted by sequence number, with few of them in memory. Turns that waited long may come late."""
    heap: list[tuple[int, int, int, Record]] = []
    total = 0
    for position, record in enumerate(records):
        weight = _weight(record)
        total += weight
        heapq.heappush(heap, (record.sequence, position, weight, record))
        while len(heap) > _WINDOW or (total > _HELD_BYTES and heap):
            _, _, weight, first = heapq.heappop(heap)
            total -= weight
            yield first
    while heap:
        yield heapq.heappop(heap)[3]


def _weight(record: Record) -> int:
    """Return the bytes of the chunk that are retained for this record alone while it waits."""
    content = record.unread if type(record) is Turn else None
    return content.message_bytes if isinstance(content, Content) else 0


def exactly_in_order(trace: TraceReader) -> Iterator[Record]:
    """Yield the records sorted by sequence number. The file is first read once for the sequence numbers alone.

    Holds in memory eight bytes per record, and the records that wait for earlier ones.
    """
    lowest = _lowest_from(trace)
    heap: list[tuple[int, int, Record]] = []
    for place, record in enumerate(trace.records(), start=1):
        # A growing file has records that the first pass did not see.
        limit = lowest[place] if place < len(lowest) else None
        if not heap and (limit is None or record.sequence <= limit):
            yield record
            continue
        heapq.heappush(heap, (record.sequence, place, record))
        while heap and (limit is None or heap[0][0] <= limit):
            yield heapq.heappop(heap)[2]
    while heap:
        yield heapq.heappop(heap)[2]


def _lowest_from(trace: TraceReader) -> array[int]:
    """Return, for each position in the file, the lowest sequence number from there on."""
    numbers = array("q", trace.sequences())
    for place in range(len(numbers) - 2, -1, -1):
        if numbers[place + 1] < numbers[place]:
            numbers[place] = numbers[place + 1]
    return numbers


class Prefetch:
    """An iterator over records with a lookahead at the next turns."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._records = iter(records)
        self._prefetched: deque[Record] = deque()

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        return self._prefetched.popleft() if self._prefetched else next(self._records)

    def turns(self, count: int = 1) -> list[Turn]:
        turns = [record for record in self._prefetched if isinstance(record, Turn)]
        while len(turns) < count:
            record = next(self._records, None)
            if record is None:
                break
            self._prefetched.append(record)
            if isinstance(record, Turn):
                turns.append(record)
        return turns[:count]
