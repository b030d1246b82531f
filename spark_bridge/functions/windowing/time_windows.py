"""Tumbling and sliding windows in event time and in processing time, with Flink's names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
from flykka.runtime.durations import Duration, positive_duration_ms, signed_duration_ms
from flykka.runtime.errors import DurationError
from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.functions.windowing.trigger import Trigger
from flykka.spark_bridge.functions.windowing.triggers import EventTimeTrigger, ProcessingTimeTrigger
from flykka.spark_bridge.functions.windowing.window_assigner import WindowAssigner, WindowAssignerContext
from flykka.spark_bridge.functions.windowing.windows import TimeWindow


class _Periodic(EventTimeWindows, WindowAssigner):
    __slots__ = ()

    def _windows_at(self, time_ms: int) -> Sequence[TimeWindow]:
        size, slide = self.size_ms, self.slide_ms
        last = time_ms - (time_ms - self.offset_ms) % slide
        if size == slide:
            return (TimeWindow(last, last + size),)
        first = last - (last + size - 1 - time_ms) // slide * slide
        return [TimeWindow(start, start + size) for start in range(first, last + 1, slide)]


class _EventTime(_Periodic):
    __slots__ = ()

    def assign_windows(self, element: Row, timestamp: int, context: WindowAssignerContext) -> Sequence[TimeWindow]:
        return self._windows_at(timestamp)

    def get_default_trigger(self) -> Trigger:
        """Return a trigger that fires when the watermark reaches the end of a window, and for every later row."""
        return EventTimeTrigger.create()

    def is_event_time(self) -> bool:
        return True


class _ProcessingTime(_Periodic):
    __slots__ = ()

    def assign_windows(self, element: Row, timestamp: int, context: WindowAssignerContext) -> Sequence[TimeWindow]:
        return self._windows_at(context.get_current_processing_time())

    def get_default_trigger(self) -> Trigger:
        return ProcessingTimeTrigger.create()

    def is_event_time(self) -> bool:
        return False


class _Tumbling(_Periodic):
    __slots__ = ()

    @classmethod
    def of(cls, size: Duration, offset: Duration = 0) -> Self:
        """Return windows of `size`, shifted by `offset`, which is shorter than the size and may be negative.

        For example, days in China, eight hours ahead of UTC, are `of("1d", offset="-8h")`, which equals `of("1d",
        "16h")`.

        Raises:
            DurationError: size or offset cannot be parsed, or do not fit each other.
        """
        size_ms = positive_duration_ms(size, "window size")
        return cls(size_ms=size_ms, slide_ms=size_ms, offset_ms=_offset_ms(offset, "size", size_ms, size))


class _Sliding(_Periodic):
    __slots__ = ()

    @classmethod
    def of(cls, size: Duration, slide: Duration, offset: Duration = 0) -> Self:
        """Return windows of `size` that begin at every `slide`, shifted by `offset`, which is shorter than the slide
        and may be negative.

        Raises:
            DurationError: size, slide or offset cannot be parsed, or do not fit each other.
        """
        size_ms = positive_duration_ms(size, "window size")
        slide_ms = positive_duration_ms(slide, "window slide")
        return cls(size_ms=size_ms, slide_ms=slide_ms, offset_ms=_offset_ms(offset, "slide", slide_ms, slide))


@dataclass(frozen=True, slots=True, kw_only=True)
class TumblingEventTimeWindows(_Tumbling, _EventTime):
    """Adjacent windows of the same size: `[k * size + offset, (k + 1) * size + offset)` since the epoch, in UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingEventTimeWindows(_Sliding, _EventTime):
    """Windows of the same size that begin at every slide: `[k * slide + offset, k * slide + offset + size)`, in UTC.

    If the slide is shorter than the size, a row belongs to several windows. Aggregates of columns still store it only
    once, and assemble each window when it fires; other functions store it in each of its windows. If the slide is
    longer, rows between two windows belong to no window.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class TumblingProcessingTimeWindows(_Tumbling, _ProcessingTime):
    """Tumbling windows like `TumblingEventTimeWindows`, but in processing time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingProcessingTimeWindows(_Sliding, _ProcessingTime):
    """Sliding windows like `SlidingEventTimeWindows`, but in processing time."""


PeriodicEventTimeWindows = TumblingEventTimeWindows | SlidingEventTimeWindows
"""The windows that Spark plans can compute."""


def _offset_ms(offset: Duration, what: str, period_ms: int, period: Duration) -> int:
    offset_ms = signed_duration_ms(offset, "window offset")
    if abs(offset_ms) >= period_ms:
        raise DurationError(f"window offset {offset!r} is not shorter than the window {what} {period!r}")
    return offset_ms % period_ms
