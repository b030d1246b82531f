"""Bases of the assigners of rows to windows, by Flink's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.functions.windowing.windows import TimeWindow, Window, merge_windows

if TYPE_CHECKING:
    from flykka.spark_bridge.functions.windowing.trigger import Trigger


class WindowAssignerContext(Protocol):
    """Tells an assigner the time."""

    def get_current_processing_time(self) -> int:
        """Return the processing time."""


class WindowAssigner(ABC):
    """Assigns rows to windows. An assigner of the user's own is a subclass, and is pickled."""

    __slots__ = ()

    @abstractmethod
    def assign_windows(self, element: Row, timestamp: int, context: WindowAssignerContext) -> Sequence[Window]:
        """Return the windows of a row, each once; `timestamp` is its event time.

        Where the assigner is not of event time, and rows have none, it is the least time there is.
        """

    @abstractmethod
    def get_default_trigger(self) -> Trigger:
        """Return the trigger of windows for which no other is given."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """True if windows end by event time."""


class MergingWindowAssigner(WindowAssigner):
    """Assigns rows to windows that merge, as sessions do."""

    __slots__ = ()

    def merge_windows(self, windows: Iterable[TimeWindow]) -> list[tuple[TimeWindow, list[TimeWindow]]]:
        """Return the windows that are to be one, with those that it is made of, at least two for each."""
        return merge_windows(windows)
