"""Windows of event time as arithmetic on integers: Flink's tumbling and sliding windows, and the panes they share.

Windows that overlap share their rows. To keep a row once, not once per window, state is kept by *pane*: the stretches
between the places where a window begins or ends. Every pane lies wholly in a window or wholly outside, so a window is
put together from its panes when it fires (Flink SQL calls them slices and makes them all of one length, the greatest
common divisor of size and slide; cut at the edges of windows there are never more than two per slide). A pane, as a
window, is named by its start. Windows that do not overlap have one pane each, and the two are the same.

Times are ms since the epoch; the columns that compute panes are in `spark_bridge/operators/spark_windows.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTimeWindows:
    """The windows `[k * slide + offset, k * slide + offset + size)`; tumbling ones where size and slide are equal."""

    size_ms: int
    slide_ms: int
    offset_ms: int = 0

    @property
    def overlap(self) -> bool:
        """True if a row may belong to several windows."""
        return self.size_ms > self.slide_ms

    @property
    def have_gaps(self) -> bool:
        """True if a row may belong to no window."""
        return self.size_ms < self.slide_ms

    def last_fired_start(self, watermark_ms: int) -> int:
        """The start of the last window that the watermark fires: its last millisecond has passed."""
        if watermark_ms == WATERMARK_MAX:
            return WATERMARK_MAX
        return self.last_start(watermark_ms + 1 - self.size_ms)

    def last_closed_start(self, watermark_ms: int, allowed_lateness_ms: int) -> int:
        """The start of the last window that is closed for late rows: the allowed lateness behind its end has passed."""
        if watermark_ms == WATERMARK_MAX:
            return WATERMARK_MAX
        # No event time comes near the bounds of 64 bits, which a very long lateness would pass.
        return self.last_fired_start(max(watermark_ms - allowed_lateness_ms, min(watermark_ms, WATERMARK_MIN // 2)))

    def next_start(self, start_ms: int) -> int:
        """The start of the first window after `start_ms`: rows before it are in no window that is still to come."""
        return self.last_start(start_ms) + self.slide_ms

    def end_of_last(self, start_ms: int) -> int:
        """Return the end of the last window that starts at `start_ms` or before: later rows are in none of these."""
        return self.last_start(start_ms) + self.size_ms

    def last_start(self, time_ms: int) -> int:
        """The start of the last window that starts at this time or before."""
        return time_ms - (time_ms - self.offset_ms) % self.slide_ms
