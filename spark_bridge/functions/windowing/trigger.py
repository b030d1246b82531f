"""Triggers, which decide when a window fires, with Flink's names: the base class of all triggers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import Any, Protocol

from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.functions.state_descriptors import StateDescriptor
from flykka.spark_bridge.functions.windowing.windows import Window


class TriggerResult(Enum):
    """A decision about a window: whether its function is called, and whether its contents are dropped."""

    CONTINUE = (False, False)
    FIRE = (True, False)
    PURGE = (False, True)
    FIRE_AND_PURGE = (True, True)

    def is_fire(self) -> bool:
        """True if the function is called."""
        return self.value[0]

    def is_purge(self) -> bool:
        """True if the contents are dropped, after the function was called if the result fires."""
        return self.value[1]


class TriggerContext(Protocol):
    """Time, timers and state of the current window. Times are milliseconds since the epoch."""

    def get_current_watermark(self) -> int:
        """Return the watermark; -2^63 before the first watermark."""

    def get_current_processing_time(self) -> int:
        """Return the processing time."""

    def register_event_time_timer(self, time: int) -> None:
        """Register a call of `on_event_time` for this window when the watermark reaches a time."""

    def register_processing_time_timer(self, time: int) -> None:
        """Register a call of `on_processing_time` for this window when processing time reaches a time."""

    def delete_event_time_timer(self, time: int) -> None:
        """Delete the event-time timer of this window at a time, if there is one."""

    def delete_processing_time_timer(self, time: int) -> None:
        """Delete the processing-time timer of this window at a time, if there is one."""

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        """Return the state of this window. Raises `StateDescriptorError` if it is not among the trigger's `states`."""


class OnMergeContext(TriggerContext, Protocol):
    """The context of a window into which other windows were merged."""

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merge the state of the merged windows into this window's state, which is a list, reduced or aggregated."""


class Trigger(ABC):
    """Decides when a window fires. A trigger is pickled, and its only memory is the state of each window.

    `states` are the descriptors of that state, which `ctx.get_partitioned_state` returns.
    """

    @property
    def states(self) -> Sequence[StateDescriptor]:
        """The descriptors of the states that each window has."""
        return ()

    @abstractmethod
    def on_element(self, element: Row, timestamp: int | None, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Decide when a row arrives in a window. `timestamp` is its event time, or None."""

    @abstractmethod
    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Decide at an event-time timer, which is the trigger's or the timer that removes the window."""

    @abstractmethod
    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Decide at a processing-time timer, like `on_event_time`."""

    def can_merge(self) -> bool:
        """Return True if the trigger supports merging windows with `on_merge`."""
        return False

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        """Merge the state of windows into this window, and register its timers. Timers of the merged windows are
        cleared.
        """
        raise NotImplementedError(f"{type(self).__name__} has no on_merge(window, ctx), which windows that merge need")

    @abstractmethod
    def clear(self, window: Window, ctx: TriggerContext) -> None:
        """Clear the state and timers of a window that is removed."""
