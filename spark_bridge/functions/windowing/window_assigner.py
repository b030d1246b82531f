"""Base classes that assign rows to windows, by Flink's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.functions.windowing.windows import TimeWindow, Window, merge_windows

if TYPE_CHECKING:
    from flykka.spark_bridge.functions.windowing.trigger import Trigger


class WindowAssignerContext(Protocol):
    """Gives a window assigner the current processing time."""

    def get_current_processing_time(self) -> int:
        """Return the processing time."""


class WindowAssigner(ABC):
    """Assigns rows to windows. To write an assigner, subclass this; assigners are pickled."""

    __slots__ = ()

    @abstractmethod
    def assign_windows(self, element: Row, timestamp: int, context: WindowAssignerContext) -> Sequence[Window]:
        """Return the windows of a row, each once; `timestamp` is its event time.

        If the assigner does not use event time, or the row has none, `timestamp` is the minimum.
        """

    @abstractmethod
    def get_default_trigger(self) -> Trigger:
        """Return the default trigger of these windows."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """True if windows end by event time."""


class MergingWindowAssigner(WindowAssigner):
    """Assigns rows to windows that merge, as sessions do."""

    __slots__ = ()

    def merge_windows(self, windows: Iterable[TimeWindow]) -> list[tuple[TimeWindow, list[TimeWindow]]]:
        """Return the merged windows, each with the windows merged into it, at least two."""
        return merge_windows(windows)
