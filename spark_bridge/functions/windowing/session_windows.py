"""Windows whose bounds depend on rows: sessions in event time and processing time, and the global window."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from flykka.messages.tasks.exchange import WATERMARK_MAX
from flykka.runtime.durations import Duration, positive_duration_ms
from flykka.runtime.errors import DurationError
from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.functions.windowing.trigger import Trigger
from flykka.spark_bridge.functions.windowing.triggers import EventTimeTrigger, NeverTrigger, ProcessingTimeTrigger
from flykka.spark_bridge.functions.windowing.window_assigner import (
    MergingWindowAssigner,
    WindowAssigner,
    WindowAssignerContext,
)
from flykka.spark_bridge.functions.windowing.windows import GLOBAL_WINDOW, GlobalWindow, TimeWindow

Gap = Callable[[Row], Duration]


@dataclass(frozen=True, slots=True, kw_only=True)
class _SessionWindows(MergingWindowAssigner):
    gap_ms: int | None = None
    dynamic_gap: Gap | None = None

    @classmethod
    def with_gap(cls, gap: Duration) -> Self:
        """Return session windows that end when no row has arrived for `gap`.

        Raises:
            DurationError: the gap cannot be parsed, or is not positive.
        """
        return cls(gap_ms=positive_duration_ms(gap, "session gap"))

    @classmethod
    def with_dynamic_gap(cls, gap: Gap) -> Self:
        """Return session windows in which `gap` returns the gap after each row, such as `"30s"`.

        Raises:
            DurationError: `gap` is not a function, or (while the job runs) returns no positive duration.
        """
        if not callable(gap):
            raise DurationError(f"with_dynamic_gap takes a function of a row that returns its gap, not {gap!r}")
        return cls(dynamic_gap=gap)

    def _windows_from(self, element: Row, time_ms: int) -> Sequence[TimeWindow]:
        gap_ms = self.gap_ms
        if gap_ms is None:
            assert self.dynamic_gap is not None, "the session has neither a fixed nor a dynamic gap"
            gap_ms = positive_duration_ms(self.dynamic_gap(element), "dynamic session gap")
        return (TimeWindow(time_ms, min(time_ms + gap_ms, WATERMARK_MAX)),)

    @abstractmethod
    def get_default_trigger(self) -> Trigger:
        """Return a trigger that fires once, at the end of a session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTimeSessionWindows(_SessionWindows):
    """Event-time sessions: the rows of a key between which event time has no gap."""

    def assign_windows(self, element: Row, timestamp: int, context: WindowAssignerContext) -> Sequence[TimeWindow]:
        return self._windows_from(element, timestamp)

    def get_default_trigger(self) -> Trigger:
        return EventTimeTrigger.create()

    def is_event_time(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessingTimeSessionWindows(_SessionWindows):
    """Processing-time sessions: the rows of a key that are processed without a gap in processing time."""

    def assign_windows(self, element: Row, timestamp: int, context: WindowAssignerContext) -> Sequence[TimeWindow]:
        return self._windows_from(element, context.get_current_processing_time())

    def get_default_trigger(self) -> Trigger:
        return ProcessingTimeTrigger.create()

    def is_event_time(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class GlobalWindows(WindowAssigner):
    """Assigns all rows of a key to one window, which never ends, so it needs a trigger."""

    @classmethod
    def create(cls) -> Self:
        """Return the assigner."""
        return cls()

    def assign_windows(self, element: Row, timestamp: int, context: WindowAssignerContext) -> Sequence[GlobalWindow]:
        return _GLOBAL

    def get_default_trigger(self) -> Trigger:
        return NeverTrigger()

    def is_event_time(self) -> bool:
        return False


_GLOBAL = (GLOBAL_WINDOW,)
