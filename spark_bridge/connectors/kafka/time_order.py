"""Takes of what is pending in several partitions the records that are earliest by their timestamps in Kafka.

So no partition runs ahead of another in time while a backlog is read, and event time is held back by none of them: what
Flink does by watermark alignment, which lets readers that are ahead wait. Here it is decided before anything is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from flykka.spark_bridge.connectors.kafka.ranges import OffsetRange, Offsets, chunk

_FIRST_STEP_MS = 1_000
_LATEST_MS = 253_402_300_800_000
"""The end of the year 9999."""

FirstOffsets = Callable[[Sequence[OffsetRange], int], Offsets]
"""The first offset in each range whose record has this time (ms since the epoch) or a later one."""


class TimeOrder:
    """Goes forward in time, from portion to portion of one source."""

    def __init__(self, first_offsets: FirstOffsets) -> None:
        self._first_offsets = first_offsets
        self._reached_ms = 0
        self._step_ms = _FIRST_STEP_MS

    def chunk(self, pending: Sequence[OffsetRange], limit: int) -> tuple[OffsetRange, ...]:
        """The earliest of what is pending, `limit` offsets at most; where more of them have one time, some of them."""
        if _records(pending) <= limit:
            return tuple(pending)
        before, behind = self._bounds(pending, limit)
        best = self._until(pending, before)
        # A portion that is half full is as good as one that took more questions.
        while behind - before > 1 and _records(best) < max(1, limit // 2):
            middle = (before + behind) // 2
            found = self._until(pending, middle)
            if _records(found) > limit:
                behind = middle
            else:
                before, best = middle, found
        self._step_ms = max(1, before - self._reached_ms) if self._reached_ms else _FIRST_STEP_MS
        self._reached_ms = before
        return best if _records(best) else chunk(self._until(pending, behind), limit)

    def _bounds(self, pending: Sequence[OffsetRange], limit: int) -> tuple[int, int]:
        before, step = self._reached_ms, self._step_ms
        if _records(self._until(pending, before)) > limit:
            # Records were added that are earlier than others that were read.
            return 0, before
        while True:
            behind = min(before + step, _LATEST_MS)
            if behind == _LATEST_MS or _records(self._until(pending, behind)) > limit:
                return before, behind
            before, step = behind, 2 * step

    def _until(self, pending: Sequence[OffsetRange], time_ms: int) -> tuple[OffsetRange, ...]:
        offsets = self._first_offsets(pending, time_ms)
        return tuple(replace(each, end=min(each.end, max(each.start, offsets[each.at]))) for each in pending)


def _records(ranges: Sequence[OffsetRange]) -> int:
    return sum(each.offsets for each in ranges)
