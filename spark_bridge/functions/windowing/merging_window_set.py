"""The windows of one key that merge, and the windows under whose names their contents are kept (Flink's class).

The contents stay under the name of the first window of a session, so that they are not moved whenever it grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from flykka.spark_bridge.functions.windowing.windows import TimeWindow, merge_windows

MergeWindows = Callable[[Iterable[TimeWindow]], list[tuple[TimeWindow, list[TimeWindow]]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Windows that have merged into `result`: those that were there, and the windows of their contents.

    The contents of `merged_state_windows` belong to those of `state_window` now.
    """

    result: TimeWindow
    merged: tuple[TimeWindow, ...]
    state_window: TimeWindow
    merged_state_windows: tuple[TimeWindow, ...]


class MergingWindowSet:
    """The windows of one key by window, with the windows of their contents."""

    def __init__(self, state_windows: dict[TimeWindow, TimeWindow], merge: MergeWindows = merge_windows) -> None:
        self.state_windows = state_windows
        self._merge = merge
        self.has_changed = False

    def add_window(self, window: TimeWindow) -> tuple[TimeWindow, tuple[Merge, ...]]:
        """Add a window: the window that it is part of now, and what has merged by it."""
        if window in self.state_windows:
            return window, ()
        actual, merges = window, []
        for result, parts in self._merge([*self.state_windows, window]):
            if window in parts:
                actual = result
            there = [part for part in parts if part in self.state_windows]
            if there == [result]:
                continue
            kept = [self.state_windows.pop(part) for part in there]
            state_window = kept[0] if kept else result
            self.state_windows[result] = state_window
            self.has_changed = True
            if merged := tuple(part for part in there if part != result):
                merges.append(
                    Merge(result=result, merged=merged, state_window=state_window, merged_state_windows=tuple(kept[1:]))
                )
        if actual not in self.state_windows:
            self.state_windows[actual] = actual
            self.has_changed = True
        return actual, tuple(merges)

    def retire_window(self, window: TimeWindow) -> None:
        """Remove a window that is over."""
        if self.state_windows.pop(window, None) is not None:
            self.has_changed = True

    def get_state_window(self, window: TimeWindow) -> TimeWindow | None:
        """Return the window of the contents; None where the window is not there."""
        return self.state_windows.get(window)
