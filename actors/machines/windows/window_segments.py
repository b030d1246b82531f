"""The state of a window operator: segments by pane (`event_time_windows.py`), and the bounds that firing moves.

Windows that start at `emitted_to_ms` or before have fired. Windows that start at `closed_to_ms` or before are closed.
Without allowed lateness both bounds are equal; otherwise windows between the two are retained, and fire again when late
rows arrive. A segment may still contain rows that are in no later window; they are filtered when the segment is read. A
segment with only such rows is dropped. A segment's `closed_to_ms` is the start of the last window that was closed when
its rows arrived, and `emitted_to_ms` the start of the last window that has fired with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic

from flykka.actors.machines.state.segments import Frame, Reading, ResultBounds, Segment, Segments, latest
from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.messages.wire.ids import BatchId


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowFiring(Generic[Frame]):
    """Readings for the windows that fire, and the segments that are no longer needed afterwards.

    The windows that fire start at `to_ms` or before: for each key, the windows with a row that was in no earlier
    firing.
    """

    readings: tuple[Reading[Frame], ...]
    finished: tuple[BatchId, ...]
    to_ms: int


class WindowSegments(Segments[Frame]):
    def __init__(self, windows: EventTimeWindows, allowed_lateness_ms: int = 0) -> None:
        super().__init__()
        self.emitted_to_ms: int | None = None
        self.closed_to_ms: int | None = None
        self.allowed_lateness_ms = allowed_lateness_ms
        self._windows = windows

    def fire(self, watermark_ms: int) -> WindowFiring[Frame]:
        """Move the bounds to a watermark, and fire the windows between the old and the new bound, if there are any.

        Earlier windows with late rows fire, too. The bounds move even if no window fires, because whether a row is late
        must not depend on earlier rows.
        """
        to_ms = self._emitted_at(watermark_ms)
        if to_ms is None:
            return WindowFiring(readings=(), finished=(), to_ms=watermark_ms)
        news = [segment for segment in self._live if self._has_rows_for(segment, self._emitted_to(segment), to_ms)]
        until_ms = to_ms
        if news:
            # Windows after all new rows have nothing to fire again.
            until_ms = min(to_ms, self._windows.last_start(max(segment.last_ms for segment in news)))
        readings = self._readings(self._emitted_before(news), until_ms) if news else ()
        self.emitted_to_ms, self.closed_to_ms = to_ms, self.closed_at(watermark_ms)
        needed = [segment for segment in self._live if self._is_needed(segment)]
        finished = tuple(segment.batch_id for segment in self._live if not self._is_needed(segment))
        self._live = [replace(each, emitted_to_ms=latest(each.emitted_to_ms, to_ms)) for each in needed]
        return WindowFiring(readings=readings, finished=finished, to_ms=until_ms)

    def closed_at(self, watermark_ms: int) -> int | None:
        """Return the start of the last window that is closed at a watermark, fired or not; `None` if no window is
        closed.
        """
        if watermark_ms == WATERMARK_MIN:
            return self.closed_to_ms
        return latest(self._windows.last_closed_start(watermark_ms, self.allowed_lateness_ms), self.closed_to_ms)

    def is_late(self, segment: Segment[Frame]) -> bool:
        """Return True if a segment has rows for windows that have fired without them and are still retained."""
        emitted = self.emitted_to_ms
        return emitted is not None and self._has_rows_for(segment, self._emitted_to(segment), emitted)

    def bound_of(self, segment: Segment[Frame], closed_to_ms: int | None) -> int | None:
        if closed_to_ms is None or segment.first_ms >= self._windows.end_of_last(closed_to_ms):
            return None
        return closed_to_ms

    def bounds(self, segment: Segment[Frame]) -> ResultBounds:
        return ResultBounds(closed_to_ms=self._closed_to(segment), emitted_to_ms=self._emitted_to(segment))

    def reading(self, segment: Segment[Frame]) -> Reading[Frame]:
        return self._reading(segment, self._closed_to(segment), None)

    def check(self) -> None:
        super().check()
        assert all(self._is_needed(segment) for segment in self._live)
        assert self.closed_to_ms is None or (self.emitted_to_ms is not None and self.closed_to_ms <= self.emitted_to_ms)

    def _emitted_at(self, watermark_ms: int) -> int | None:
        if watermark_ms == WATERMARK_MIN:
            return self.emitted_to_ms
        return latest(self._windows.last_fired_start(watermark_ms), self.emitted_to_ms)

    def _has_rows_for(self, segment: Segment[Frame], after_ms: int | None, to_ms: int) -> bool:
        is_open = after_ms is None or (after_ms < to_ms and segment.last_ms >= self._windows.next_start(after_ms))
        return is_open and segment.first_ms < self._windows.end_of_last(to_ms)

    def _is_needed(self, segment: Segment[Frame]) -> bool:
        return self.closed_to_ms is None or segment.last_ms >= self._windows.next_start(self.closed_to_ms)

    def _emitted_before(self, news: Sequence[Segment[Frame]]) -> int | None:
        if self.emitted_to_ms is None:
            return None
        # A window that ends before the first late row does not fire again.
        first = [self._windows.last_fired_start(segment.first_ms - 1) for segment in news if self.is_late(segment)]
        return latest(min([self.emitted_to_ms, *first]), self.closed_to_ms)

    def _readings(self, after_ms: int | None, to_ms: int) -> tuple[Reading[Frame], ...]:
        bounds = ((segment, latest(self._closed_to(segment), after_ms)) for segment in self._live)
        return tuple(
            self._reading(segment, bound, self._windows.end_of_last(to_ms))
            for segment, bound in bounds
            if self._has_rows_for(segment, bound, to_ms)
        )

    def _reading(self, segment: Segment[Frame], closed_to_ms: int | None, until_ms: int | None) -> Reading[Frame]:
        from_ms = None if closed_to_ms is None else self._windows.next_start(closed_to_ms)
        emitted = self._emitted_to(segment)
        return Reading(
            segment=segment,
            from_ms=from_ms if from_ms is not None and segment.first_ms < from_ms else None,
            until_ms=until_ms if until_ms is not None and segment.last_ms >= until_ms else None,
            closed_to_ms=closed_to_ms,
            emitted_to_ms=emitted if emitted is not None and latest(emitted, closed_to_ms) != closed_to_ms else None,
        )

    def _closed_to(self, segment: Segment[Frame]) -> int | None:
        return latest(self.closed_to_ms, segment.closed_to_ms)

    def _emitted_to(self, segment: Segment[Frame]) -> int | None:
        """Return the start of the last window that has fired with all rows that the segment has for it."""
        bound, emitted = latest(self._closed_to(segment), segment.emitted_to_ms), self.emitted_to_ms
        is_later = emitted is not None and segment.first_ms >= self._windows.end_of_last(emitted)
        return latest(bound, emitted) if is_later else bound
