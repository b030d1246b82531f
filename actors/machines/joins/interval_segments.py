"""The state of one side of an interval join: segments by event time, and the bound that watermarks move.

A row is closed when no future row of the other side can match it, so a row that is unmatched then stays unmatched.
Closed rows are retained while the other side may have unmatched rows that match them. A row is late if its event time
is before the watermark, so a row that is not late is not yet closed when it arrives.
"""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.machines.state.segments import Frame, Reading, ResultBounds, Segment, Segments, latest
from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.messages.wire.ids import BatchId

UNBOUNDED_MS = 2**53
"""The bound of an unbounded interval: longer than all times, and its microseconds fit into 64 bits."""

MERGED_ROWS = 250_000
"""The maximum number of rows of a merged segment, because many batches that need only a part of it would read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The join interval: a row matches rows of the other side that are from `lower_ms` to `upper_ms` later."""

    lower_ms: int
    upper_ms: int
    is_lower_inclusive: bool = True
    is_upper_inclusive: bool = True

    @property
    def reversed(self) -> Interval:
        return Interval(
            lower_ms=-self.upper_ms,
            upper_ms=-self.lower_ms,
            is_lower_inclusive=self.is_upper_inclusive,
            is_upper_inclusive=self.is_lower_inclusive,
        )

    @property
    def has_lower_bound(self) -> bool:
        return self.lower_ms > -UNBOUNDED_MS

    @property
    def has_upper_bound(self) -> bool:
        return self.upper_ms < UNBOUNDED_MS

    @property
    def is_empty(self) -> bool:
        both_inclusive = self.is_lower_inclusive and self.is_upper_inclusive
        return self.lower_ms > self.upper_ms or (self.lower_ms == self.upper_ms and not both_inclusive)

    @property
    def through_after_ms(self) -> int:
        """The time after a row's event time within which matching rows may still arrive, in milliseconds."""
        return max(0, self.upper_ms)


class IntervalSegments(Segments[Frame]):
    """The live segments of one side. Rows are closed if their time is `through_after_ms` before `closed_to_ms`."""

    def __init__(
        self, interval: Interval, *, emits_unmatched: bool = False, other_emits_unmatched: bool = False
    ) -> None:
        super().__init__()
        self.closed_to_ms: int | None = None
        self._interval = interval
        self._emits_unmatched = emits_unmatched
        self._through_ms = interval.through_after_ms
        # The last row of the other side that a row can match is closed this much later than the row itself.
        last_met_ms = interval.upper_ms + interval.reversed.through_after_ms
        self.retained_ms = max(self._through_ms, last_met_ms) if other_emits_unmatched else self._through_ms

    @property
    def has_end(self) -> bool:
        return self.retained_ms < UNBOUNDED_MS

    def closed_at(self, watermark_ms: int) -> int | None:
        """Return the time before which rows are late at a watermark, or `None` if no row is late."""
        return latest(self.closed_to_ms, None if watermark_ms == WATERMARK_MIN else watermark_ms)

    def met(self, first_ms: int, last_ms: int) -> tuple[Reading[Frame], ...]:
        """Return the segments that may have matches for rows of the other side with these times."""
        from_ms, to_ms = first_ms - self._interval.upper_ms, last_ms - self._interval.lower_ms
        return tuple(Reading(segment=each) for each in self._live if each.last_ms >= from_ms and each.first_ms <= to_ms)

    def closing(self, watermark_ms: int) -> tuple[Reading[Frame], ...]:
        """Return the rows that this watermark closes, or nothing if the join emits no unmatched rows."""
        closed_to = self.closed_at(watermark_ms)
        if closed_to is None or not self._emits_unmatched:
            return ()
        until_ms = closed_to - self._through_ms
        readings = (Reading(segment=each, from_ms=self._open_from(each), until_ms=until_ms) for each in self._live)
        return tuple(each for each in readings if _has_rows(each))

    def close(self, watermark_ms: int) -> tuple[BatchId, ...]:
        self.closed_to_ms = self.closed_at(watermark_ms)
        needed = [segment for segment in self._live if self._is_needed(segment)]
        finished = tuple(segment.batch_id for segment in self._live if not self._is_needed(segment))
        self._live = needed
        return finished

    def bound_of(self, segment: Segment[Frame], closed_to_ms: int | None) -> int | None:
        is_open = closed_to_ms is None or segment.first_ms + self._through_ms >= closed_to_ms
        return None if is_open else closed_to_ms

    def bounds(self, segment: Segment[Frame]) -> ResultBounds:
        return ResultBounds(closed_to_ms=latest(self.closed_to_ms, segment.closed_to_ms))

    def reading(self, segment: Segment[Frame]) -> Reading[Frame]:
        from_ms = None if self.closed_to_ms is None else self.closed_to_ms - self.retained_ms
        return Reading(segment=segment, from_ms=from_ms if from_ms is not None and segment.first_ms < from_ms else None)

    def may_merge(self, segment: Segment[Frame]) -> bool:
        return segment.rows <= MERGED_ROWS

    def check(self) -> None:
        super().check()
        assert all(self._is_needed(segment) for segment in self._live)

    def _is_needed(self, segment: Segment[Frame]) -> bool:
        return self.closed_to_ms is None or segment.last_ms + self.retained_ms >= self.closed_to_ms

    def _open_from(self, segment: Segment[Frame]) -> int | None:
        closed_to = self.bounds(segment).closed_to_ms
        return None if closed_to is None else closed_to - self._through_ms


def _has_rows(reading: Reading[Frame]) -> bool:
    first_ms = reading.segment.first_ms if reading.from_ms is None else max(reading.from_ms, reading.segment.first_ms)
    assert reading.until_ms is not None, "the reading of closed rows has no end"
    return first_ms < reading.until_ms and first_ms <= reading.segment.last_ms
