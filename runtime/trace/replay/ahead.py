"""Records with a look ahead: what comes next can be seen before it is replayed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from flykka.runtime.trace.records import Record, Turn


class Ahead:
    """An iterator over records, which can be looked into without taking anything from it."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._records = iter(records)
        self._seen: deque[Record] = deque()

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        return self._seen.popleft() if self._seen else next(self._records)

    def turns(self, count: int = 1) -> list[Turn]:
        """The next turns, at most so many."""
        found = [record for record in self._seen if isinstance(record, Turn)]
        while len(found) < count:
            record = next(self._records, None)
            if record is None:
                break
            self._seen.append(record)
            if isinstance(record, Turn):
                found.append(record)
        return found[:count]
