"""Windows as Flink assigns them."""

from __future__ import annotations

from flykka.actors.machines.windows.event_time_windows import EventTimeWindows


def window_starts(windows: EventTimeWindows, time: int) -> list[int]:
    """Return the starts of the windows that Flink's SlidingEventTimeWindows assigns to a time."""
    last = time - (time - windows.offset_ms) % windows.slide_ms
    return list(range(last, time - windows.size_ms, -windows.slide_ms))
