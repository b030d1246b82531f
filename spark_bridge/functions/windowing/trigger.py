"""Triggers decide when a window fires, by Flink's names: the base of built-in and user-defined ones."""

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
        """True if the contents are dropped, after the function is called if it is."""
        return self.value[1]


class TriggerContext(Protocol):
    """Time, timers and state of the current window. Times are milliseconds since the epoch."""

    def get_current_watermark(self) -> int:
        """Return the watermark; -2^63 before there is one."""

    def get_current_processing_time(self) -> int:
        """Return the processing time."""

    def register_event_time_timer(self, time: int) -> None:
        """Have `on_event_time` called for this window when the watermark reaches a time."""

    def register_processing_time_timer(self, time: int) -> None:
        """Have `on_processing_time` called for this window when processing time reaches a time."""

    def delete_event_time_timer(self, time: int) -> None:
        """Delete the event-time timer of this window at a time, if there is one."""

    def delete_processing_time_timer(self, time: int) -> None:
        """Delete the processing-time timer of this window at a time, if there is one."""

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        """Return the state of this window. Raises `StateDescriptorError` if it is not among the trigger's `states`."""


class OnMergeContext(TriggerContext, Protocol):
    """The context of a window that others have merged into."""

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merge the state of the merged windows into that of this one: a list, reduced or aggregated."""


class Trigger(ABC):
    """Decides when a window fires. It is pickled and has no memory but the state of each window.

    `states` are the descriptors of that state, returned by `ctx.get_partitioned_state`.
    """

    @property
    def states(self) -> Sequence[StateDescriptor]:
        """The states of each window."""
        return ()

    @abstractmethod
    def on_element(self, element: Row, timestamp: int | None, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Decide at a row's arrival in a window; `timestamp` is its event time, or None."""

    @abstractmethod
    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Decide at an event-time timer: one of the trigger's, or the one at which the window is removed."""

    @abstractmethod
    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        """Decide at a processing-time timer, as `on_event_time`."""

    def can_merge(self) -> bool:
        """True if the trigger supports merging windows: then it has `on_merge`."""
        return False

    def on_merge(self, window: Window, ctx: OnMergeContext) -> None:
        """Merge state and register timers of the windows merged into this one; they are cleared afterwards."""
        raise NotImplementedError(f"{type(self).__name__} has no on_merge(window, ctx), which windows that merge need")

    @abstractmethod
    def clear(self, window: Window, ctx: TriggerContext) -> None:
        """Clear state and timers of a window that is removed."""
