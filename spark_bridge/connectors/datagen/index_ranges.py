"""The splits of a DataGenSource: ranges of row numbers, handed out as they are due.

The id of a split is `first row+rows`. Ranges are handed out in order and without gaps, so the position of a look is the
number of the first row that was not found yet.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from flykka.messages.tasks.source import IndexRangeSplit, SplitsDiscovered
from flykka.messages.wire.ids import OperatorId, SplitId
from flykka.spark_bridge.program.source import SPLITS_PER_LOOK, number_of_position

if TYPE_CHECKING:
    from flykka.spark_bridge.connectors.datagen.source import DataGenSource

_SPLITS_MAX = 1000
_INTERVAL_MS_MIN = 100
_INTERVAL_MS_MAX = 1000


class IndexRangeDiscovery:
    """Says which rows are due. Used by one call at a time.

    With a rate, time begins to count at the first look. What was due while nobody read waits, as in a queue.
    """

    changed: Callable[[], bool] | None = None

    def __init__(
        self, source: DataGenSource, operator_id: OperatorId, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` gives seconds."""
        self._source = source
        self._operator_id = operator_id
        self._clock = clock
        self._begun: tuple[float, int] | None = None
        self.interval_ms = self._interval_ms()

    def discover(self, position: bytes) -> SplitsDiscovered:
        """The ranges that are due and new."""
        first = number_of_position(position)
        due = self._due(first)
        end = min(due, first + self._splits_max * self._source.rows_per_batch)
        last = self._source.number_of_rows
        return SplitsDiscovered(
            operator_id=self._operator_id,
            splits=tuple(self._ranges(first, end)),
            finished=last is not None and end >= last,
            begun_at=position,
            position=b"%d" % max(first, end),
            # With a rate, nobody reads more until the next look, however high it is.
            more=end < due and self._source.rows_per_second is None,
        )

    def _due(self, first: int) -> int:
        """The row before which all are due, where the look begins at row `first`."""
        last, rate = self._source.number_of_rows, self._source.rows_per_second
        if rate is None:
            assert last is not None, "a source without an end has a rate"
            return last
        if self._begun is None:
            self._begun = self._clock(), first
        at, row = self._begun
        due = row + math.floor((self._clock() - at) * rate)
        return due if last is None else min(due, last)

    @property
    def _splits_max(self) -> int:
        return SPLITS_PER_LOOK if self._source.rows_per_second is None else _SPLITS_MAX

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
