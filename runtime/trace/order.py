"""The records of a trace in the order in which they began, with few of them in memory."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from flykka.messages.ref import Ref
from flykka.runtime.trace.records import Killed, Record, Spawned

_WINDOW = 1_024
"""Records lie in a file in the order in which turns ended. Few are so far from their places: threads are fewer.

Those of turns that have waited for an answer may be: they come late. `ordering` has them all in their places.
"""


def recipient_of(record: Record) -> Ref:
    """Whom the record is about: who took the turn, was to take it, was spawned or killed."""
    return record.ref if isinstance(record, Killed | Spawned) else record.recipient


def in_order(records: Iterable[Record]) -> Iterator[Record]:
    """The records by their sequence numbers, with few of them in memory."""
    waiting: list[tuple[int, int, Record]] = []
    for position, record in enumerate(records):
        heapq.heappush(waiting, (record.sequence, position, record))
        if len(waiting) > _WINDOW:
            yield heapq.heappop(waiting)[2]
    while waiting:
        yield heapq.heappop(waiting)[2]
