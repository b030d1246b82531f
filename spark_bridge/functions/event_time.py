"""The event time of a stream's rows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """The event time of a row: its timestamp `column` plus `offset_ms`.

    The event time of a window's result is the last millisecond of the window, as in Flink: `window_end` - 1 ms.
    """

    column: str
    offset_ms: int = 0

    def __str__(self) -> str:
        return f"{self.column} {self.offset_ms:+d} ms" if self.offset_ms else self.column


WINDOW_START, WINDOW_END = "window_start", "window_end"
"""The columns with a window's bounds in results."""

OF_WINDOWS = EventTime(column=WINDOW_END, offset_ms=-1)
"""The event time of a window's results."""
