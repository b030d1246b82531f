"""All records of a trace in the order in which they began, exactly: what is taken again has to be taken in its order.

A record lies where its turn ended. One that has waited for an answer, or that is a coroutine which has slept, may lie
any distance behind those that began later. So the file is looked through once for the numbers alone.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flykka.runtime.trace.reader import Trace
    from flykka.runtime.trace.records import Record


def exactly_in_order(trace: Trace) -> Iterator[Record]:
    """The records by their sequence numbers; in memory are eight bytes of each, and those that wait for their turn."""
    lowest = _lowest_from(trace)
    waiting: list[tuple[int, int, Record]] = []
    for place, record in enumerate(trace.records(), start=1):
        # A file that still grows has records that the first look did not see.
        bound = lowest[place] if place < len(lowest) else None
        if not waiting and (bound is None or record.sequence <= bound):
            yield record
            continue
        heappush(waiting, (record.sequence, place, record))
        while waiting and (bound is None or waiting[0][0] <= bound):
            yield heappop(waiting)[2]
    while waiting:
        yield heappop(waiting)[2]


def _lowest_from(trace: Trace) -> array[int]:
    """For each place in the file the lowest number there or behind."""
    numbers = array("q", trace.sequences())
    for place in range(len(numbers) - 2, -1, -1):
        if numbers[place + 1] < numbers[place]:
            numbers[place] = numbers[place + 1]
    return numbers
