"""How a keyed stream is cut into windows, by Flink's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from flykka.errors import DurationError
from flykka.runtime.durations import Duration, duration_ms, positive_duration_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class TumblingEventTimeWindows:
    """Windows of one size, side by side: `[k * size + offset, (k + 1) * size + offset)` since the epoch, in UTC."""

    size_ms: int
    offset_ms: int = 0

    @classmethod
    def of(cls, size: Duration, offset: Duration = 0) -> Self:
        """Windows of `size`, moved by `offset`, which is shorter than the size.

        Raises:
            DurationError: size or offset cannot be read, or do not fit each other.
        """
        size_ms = positive_duration_ms(size, "window size")
        offset_ms = duration_ms(offset, "window offset")
        if offset_ms >= size_ms:
            raise DurationError(f"window offset {offset!r} is not shorter than the window size {size!r}")
        return cls(size_ms=size_ms, offset_ms=offset_ms)
