"""Base classes that assign rows to windows, with Flink's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.functions.windowing.windows import TimeWindow, Window, merge_windows

if TYPE_CHECKING:
    from flykka.spark_bridge.functions.windowing.trigger import Trigger


class WindowAssignerContext(Protocol):
    """Provides the current processing time to a window assigner."""

    def get_current_processing_time(self) -> int:
        """Return the processing time."""


class WindowAssigner(ABC):
    """Assigns rows to windows. To write an assigner, subclass this class. Assigners are pickled."""

    __slots__ = ()

    @abstractmethod
    def assign_windows(self, element: Row, timestamp: int, context: WindowAssignerContext) -> Sequence[Window]:
        """Return the windows of a row, without duplicates. `timestamp` is its event time.

        If the assigner does not use event time, or the row has none, `timestamp` is the minimum.
        """

    @abstractmethod
    def get_default_trigger(self) -> Trigger:
        """Return the default trigger of the assigner's windows."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Return True if windows end by event time."""


class MergingWindowAssigner(WindowAssigner):
    """Assigns rows to windows that merge, such as sessions."""

    __slots__ = ()

    def merge_windows(self, windows: Iterable[TimeWindow]) -> list[tuple[TimeWindow, list[TimeWindow]]]:
        """Return the merged windows, each with the two or more windows merged into it."""
        return merge_windows(windows)
