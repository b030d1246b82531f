"""Windows, with Flink's names `TimeWindow` and `GlobalWindow`, and their names in state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from flykka.messages.tasks.exchange import WATERMARK_MAX


class TimeWindow(NamedTuple):
    """The times from `start` to before `end`, in milliseconds since the epoch."""

    start: int
    end: int

    def max_timestamp(self) -> int:
        """Return the last millisecond of the window."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """True if the windows overlap or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Return the smallest window that contains both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))


class GlobalWindow(NamedTuple):
    """The window of all rows, which never ends."""

    def max_timestamp(self) -> int:
        """Return the maximum time."""
        return WATERMARK_MAX


Window = TimeWindow | GlobalWindow

GLOBAL_WINDOW = GlobalWindow()
_GLOBAL = "global"


def namespace_of(window: Window) -> str:
    """Return the name of a window in state, which is unique among the windows of its key."""
    return f"{window.start}/{window.end}" if isinstance(window, TimeWindow) else _GLOBAL


def window_of(namespace: str) -> Window:
    if namespace == _GLOBAL:
        return GLOBAL_WINDOW
    start, end = namespace.split("/")
    return TimeWindow(int(start), int(end))


def merge_windows(windows: Iterable[TimeWindow]) -> list[tuple[TimeWindow, list[TimeWindow]]]:
    """Merge windows that intersect. Return each merged window with its parts, ordered by their starts.

    Windows that intersect no other window are left out.
    """
    groups: list[tuple[TimeWindow, list[TimeWindow]]] = []
    for window in sorted(windows):
        if groups and groups[-1][0].intersects(window):
            merged, parts = groups[-1]
            groups[-1] = merged.cover(window), [*parts, window]
        else:
            groups.append((window, [window]))
    return [(merged, parts) for merged, parts in groups if len(parts) > 1]
