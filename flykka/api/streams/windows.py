"""Assigners of a keyed stream's rows to windows, by Flink's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
from flykka.errors import DurationError
from flykka.runtime.durations import Duration, positive_duration_ms, signed_duration_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class TumblingEventTimeWindows(EventTimeWindows):
    """Windows of one size, side by side: `[k * size + offset, (k + 1) * size + offset)` since the epoch, in UTC."""

    @classmethod
    def of(cls, size: Duration, offset: Duration = 0) -> Self:
        """Windows of `size`, moved by `offset`, which is shorter than the size and may be negative.

        So days of China, eight hours ahead of UTC, are `of("1d", offset="-8h")`, and the same as `of("1d", "16h")`.

        Raises:
            DurationError: size or offset cannot be read, or do not fit each other.
        """
        size_ms = positive_duration_ms(size, "window size")
        offset_ms = signed_duration_ms(offset, "window offset")
        if abs(offset_ms) >= size_ms:
            raise DurationError(f"window offset {offset!r} is not shorter than the window size {size!r}")
        return cls(size_ms=size_ms, slide_ms=size_ms, offset_ms=offset_ms % size_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingEventTimeWindows(EventTimeWindows):
    """Windows of one size that begin at every slide: `[k * slide + offset, k * slide + offset + size)`, in UTC.

    Where the slide is shorter than the size a row belongs to several windows. It is kept once all the same, and every
    window is put together when it fires. Where the slide is longer, rows between two windows belong to none.
    """

    @classmethod
    def of(cls, size: Duration, slide: Duration, offset: Duration = 0) -> Self:
        """Windows of `size` at every `slide`, moved by `offset`, which is shorter than the slide and may be negative.

        Raises:
            DurationError: size, slide or offset cannot be read, or do not fit each other.
        """
        size_ms = positive_duration_ms(size, "window size")
        slide_ms = positive_duration_ms(slide, "window slide")
        offset_ms = signed_duration_ms(offset, "window offset")
        if abs(offset_ms) >= slide_ms:
            raise DurationError(f"window offset {offset!r} is not shorter than the window slide {slide!r}")
        return cls(size_ms=size_ms, slide_ms=slide_ms, offset_ms=offset_ms % slide_ms)


WindowAssigner = TumblingEventTimeWindows | SlidingEventTimeWindows
