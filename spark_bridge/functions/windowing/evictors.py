"""Evictors, which remove rows of a window that fires, before or after its function is called, with Flink's names."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from typing import NamedTuple, Protocol, Self

from flykka.runtime.durations import Duration, positive_duration_ms
from flykka.spark_bridge.errors import WindowError
from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.functions.windowing.windows import Window


class TimestampedValue(NamedTuple):
    """A row of a window; `timestamp` is its event time, or None."""

    value: Row
    timestamp: int | None


Elements = list[TimestampedValue]


class EvictorContext(Protocol):
    """Provides the current times to an evictor."""

    def get_current_watermark(self) -> int:
        """Return the watermark; -2^63 before the first watermark."""

    def get_current_processing_time(self) -> int:
        """Return the processing time."""


class Evictor(ABC):  # noqa: B024 - either method may keep its default
    """Removes elements of a window that fires. Elements are in arrival order.

    To write an evictor, subclass this class. Evictors are pickled.
    """

    def evict_before(self, elements: Elements, window: Window, ctx: EvictorContext) -> Elements:
        """Return the elements that are passed to the function."""
        return elements

    def evict_after(self, elements: Elements, window: Window, ctx: EvictorContext) -> Elements:
        """Return the elements that stay in the window after the function was called."""
        return elements


class _OnceEvictor(Evictor):
    def __init__(self, do_evict_after: bool) -> None:
        self._does_after = do_evict_after

    def evict_before(self, elements: Elements, window: Window, ctx: EvictorContext) -> Elements:
        return elements if self._does_after or not elements else self._left(elements)

    def evict_after(self, elements: Elements, window: Window, ctx: EvictorContext) -> Elements:
        return self._left(elements) if self._does_after and elements else elements

    def _left(self, elements: Elements) -> Elements:
        raise NotImplementedError


class CountEvictor(_OnceEvictor):
    """Keeps at most the last `max_count` rows of a window."""

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        if not isinstance(max_count, int) or isinstance(max_count, bool) or max_count < 1:
            raise WindowError(f"CountEvictor.of takes the number of rows that stay, at least 1, not {max_count!r}")
        self._max_count = max_count

    @classmethod
    def of(cls, max_count: int, do_evict_after: bool = False) -> Self:
        """Return the evictor. Raises `WindowError` unless the number is a positive integer."""
        return cls(max_count, do_evict_after)

    def _left(self, elements: Elements) -> Elements:
        return elements[-self._max_count :]


class TimeEvictor(_OnceEvictor):
    """Keeps the rows that are less than `window_size` older than the latest row. Rows without event time stay."""

    def __init__(self, window_size_ms: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._window_size_ms = window_size_ms

    @classmethod
    def of(cls, window_size: Duration, do_evict_after: bool = False) -> Self:
        """Return the evictor. Raises `DurationError` if the size is not a positive duration."""
        return cls(positive_duration_ms(window_size, "size of a TimeEvictor"), do_evict_after)

    def _left(self, elements: Elements) -> Elements:
        times = [each.timestamp for each in elements if each.timestamp is not None]
        if not times:
            return elements
        cutoff = max(times) - self._window_size_ms
        return [each for each in elements if each.timestamp is None or each.timestamp > cutoff]


class DeltaEvictor(_OnceEvictor):
    """Keeps the rows that differ from the last row by less than a threshold."""

    def __init__(
        self, threshold: float, delta_function: Callable[[Row, Row], float], do_evict_after: bool = False
    ) -> None:
        super().__init__(do_evict_after)
        if not callable(delta_function):
            raise WindowError(f"DeltaEvictor.of takes a function of two rows, not {delta_function!r}")
        self._threshold = threshold
        self._delta = delta_function

    @classmethod
    def of(cls, threshold: float, delta_function: Callable[[Row, Row], float], do_evict_after: bool = False) -> Self:
        """Return the evictor. `delta_function` gets a row and the last row. Raises `WindowError` if not callable."""
        return cls(threshold, delta_function, do_evict_after)

    def _left(self, elements: Elements) -> Elements:
        last = elements[-1].value
        return [each for each in elements if self._delta(each.value, last) < self._threshold]
