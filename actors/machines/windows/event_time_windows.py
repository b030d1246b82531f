"""Event-time windows as integer arithmetic: Flink's tumbling and sliding windows, and their panes.

Overlapping windows share rows. To store a row once, not once per window, state is stored by *pane*: an interval between
two consecutive starts or ends of windows. Every pane lies completely inside or outside a window, so a window is the
union of its panes when it fires. (Flink SQL calls them slices, whose length is the greatest common divisor of size and
slide; with panes cut at the edges of windows there are at most two per slide.) A pane, like a window, is identified by
its start. Windows that do not overlap have one pane each, which equals the window.

Times are ms since the epoch. The columns that compute panes are in `spark_bridge/operators/spark_windows.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from flykka.messages.tasks.exchange import WATERMARK_MAX, WATERMARK_MIN


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTimeWindows:
    """The windows `[k * slide + offset, k * slide + offset + size)`. They are tumbling if size and slide are equal."""

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
        """Return the start of the last window that the watermark fires: its last millisecond has passed."""
        if watermark_ms == WATERMARK_MAX:
            return WATERMARK_MAX
        return self.last_start(watermark_ms + 1 - self.size_ms)

    def last_closed_start(self, watermark_ms: int, allowed_lateness_ms: int) -> int:
        """Return the start of the last window that is closed for late rows: the allowed lateness has passed."""
        if watermark_ms == WATERMARK_MAX:
            return WATERMARK_MAX
        # Avoids an overflow of 64 bits with a very long lateness. No real event time comes near the bounds.
        return self.last_fired_start(max(watermark_ms - allowed_lateness_ms, min(watermark_ms, WATERMARK_MIN // 2)))

    def next_start(self, start_ms: int) -> int:
        """Return the start of the first window after `start_ms`. Earlier rows are in no later window."""
        return self.last_start(start_ms) + self.slide_ms

    def end_of_last(self, start_ms: int) -> int:
        """Return the end of the last window that starts at `start_ms` or before. Later rows are in no such window."""
        return self.last_start(start_ms) + self.size_ms

    def last_start(self, time_ms: int) -> int:
        """Return the start of the last window that starts at this time or before."""
        return time_ms - (time_ms - self.offset_ms) % self.slide_ms
