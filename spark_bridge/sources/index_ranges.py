"""The splits of a DataGenSource: ranges of row numbers, handed out as they are due.

The id of a split is `first row+rows`. Ranges are handed out in order and without gaps, so the ids alone say where to go
on, after a restore too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from flykka.messages.ids import OperatorId, SplitId
from flykka.messages.source import IndexRangeSplit, SplitsDiscovered

if TYPE_CHECKING:
    from flykka.spark_bridge.sources.datagen_source import DataGenSource

_SPLITS_MAX = 1000
_INTERVAL_MS_MIN = 100
_INTERVAL_MS_MAX = 1000


class IndexRangeDiscovery:
    """Says which rows are due. Used by one call at a time.

    With a rate, time begins to count at the first look. What was due while nobody read waits, as in a queue.
    """

    def __init__(
        self, source: DataGenSource, operator_id: OperatorId, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` gives seconds."""
        self._source = source
        self._operator_id = operator_id
        self._clock = clock
        self._begun: tuple[float, int] | None = None
        self._seen: frozenset[SplitId] = frozenset()
        self._next = 0
        self.interval_ms = self._interval_ms()

    def discover(self, seen: frozenset[SplitId]) -> SplitsDiscovered:
        """The ranges that are due and new."""
        self._next = max((_end(split_id) for split_id in seen - self._seen), default=self._next)
        self._seen = seen
        end = self._due()
        last = self._source.number_of_rows
        splits = tuple(self._ranges(self._next, end))
        finished = last is not None and end >= last
        return SplitsDiscovered(operator_id=self._operator_id, splits=splits, finished=finished)

    def _due(self) -> int:
        """The row before which all are due."""
        last, rate = self._source.number_of_rows, self._source.rows_per_second
        if rate is None:
            assert last is not None, "a source without an end has a rate"
            return last
        if self._begun is None:
            self._begun = self._clock(), self._next
        at, first = self._begun
        due = first + math.floor((self._clock() - at) * rate)
        # Nobody reads more until the next look, however high the rate.
        due = min(due, self._next + _SPLITS_MAX * self._source.rows_per_batch)
        return due if last is None else min(due, last)

    def _ranges(self, first: int, end: int) -> Iterator[IndexRangeSplit]:
        for start in range(first, end, self._source.rows_per_batch):
            rows = min(self._source.rows_per_batch, end - start)
            yield IndexRangeSplit(split_id=SplitId(f"{start}+{rows}"), rows=rows, start=start)

    def _interval_ms(self) -> int | None:
        """About as long as a full batch takes, but often enough for one who watches."""
        rate = self._source.rows_per_second
        if rate is None:
            return None
        batch_ms = round(1000 * self._source.rows_per_batch / rate)
        return max(_INTERVAL_MS_MIN, min(_INTERVAL_MS_MAX, batch_ms))


def _end(split_id: SplitId) -> int:
    start, _, rows = split_id.partition("+")
    return int(start) + int(rows)
