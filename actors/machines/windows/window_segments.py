"""The memory of a window operator: segments by pane (`event_time_windows.py`), and the bound that firing moves.

Windows that start at `emitted_to_ms` or before are through. Rows that are in no later window may still be in a segment,
and are passed over when it is read; a segment with no others is dropped. `closed_to_ms` of a segment is the start of
the last window that was closed when its rows came.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from flykka.actors.machines.state.segments import Frame, Reading, Segment, Segments
from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.messages.wire.ids import BatchId


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing(Generic[Frame]):
    """Readings for the windows that fire, and the segments that are not needed any more when that is done."""

    readings: tuple[Reading[Frame], ...]
    finished: tuple[BatchId, ...]


class WindowSegments(Segments[Frame]):
    """The live segments of one window operator."""

    def __init__(self, windows: EventTimeWindows, emitted_to_ms: int | None = None) -> None:
        super().__init__()
        self.emitted_to_ms = emitted_to_ms
        self._windows = windows

    def fire(self, to_ms: int) -> Firing[Frame]:
        """Move the bound: the windows from the old one to the new one fire, if there are any.

        It moves where there are none, too: what is late must not depend on what came before.
        """
        if self.emitted_to_ms is not None and to_ms <= self.emitted_to_ms:
            return Firing(readings=(), finished=())
        until_ms, next_ms = self._windows.end_of_last(to_ms), self._windows.next_start(to_ms)
        readings = tuple(self._reading(segment, until_ms) for segment in self._live if self._fires(segment, to_ms))
        finished = tuple(segment.batch_id for segment in self._live if segment.last_ms < next_ms)
        self._live = [segment for segment in self._live if segment.last_ms >= next_ms]
        self.emitted_to_ms = to_ms
        return Firing(readings=readings, finished=finished)

    def closed_at(self, watermark_ms: int) -> int | None:
        """Windows that start at this time or before are closed at a watermark, fired or not; None: none is."""
        if watermark_ms == WATERMARK_MIN:
            return self.emitted_to_ms
        closed = self._windows.last_fired_start(watermark_ms)
        return closed if self.emitted_to_ms is None else max(closed, self.emitted_to_ms)

    def bound_of(self, segment: Segment[Frame], closed_to_ms: int | None) -> int | None:
        """The bound, where it closes some window of the segment's panes."""
        if closed_to_ms is None or segment.first_ms >= self._windows.end_of_last(closed_to_ms):
            return None
        return closed_to_ms

    def reading(self, segment: Segment[Frame]) -> Reading[Frame]:
        """Return the reading of all of a segment that some window still needs."""
        return self._reading(segment, None)

    def check(self) -> None:
        """Assert the invariants: those of all segments, and none that no window needs."""
        super().check()
        bound = self.emitted_to_ms
        assert bound is None or all(segment.last_ms >= self._windows.next_start(bound) for segment in self._live)

    def _fires(self, segment: Segment[Frame], to_ms: int) -> bool:
        """True if a segment has rows for a window up to `to_ms`."""
        is_open = segment.closed_to_ms is None or segment.closed_to_ms < to_ms
        return is_open and segment.first_ms < self._windows.end_of_last(to_ms)

    def _reading(self, segment: Segment[Frame], until_ms: int | None) -> Reading[Frame]:
        from_ms = None if self.emitted_to_ms is None else self._windows.next_start(self.emitted_to_ms)
        return Reading(
            segment=segment,
            from_ms=from_ms if from_ms is not None and segment.first_ms < from_ms else None,
            until_ms=until_ms if until_ms is not None and segment.last_ms >= until_ms else None,
            closed_to_ms=self._closed_to(segment),
        )

    def _closed_to(self, segment: Segment[Frame]) -> int | None:
        bounds = (self.emitted_to_ms, segment.closed_to_ms)
        return max((bound for bound in bounds if bound is not None), default=None)
