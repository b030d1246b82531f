"""Functions of windows, with Flink's names: `ProcessWindowFunction`, `ProcessAllWindowFunction` and their context."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from flykka.spark_bridge.functions.contexts import KeyedContext, Tag
from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.functions.event_time import WINDOW_END, WINDOW_START
from flykka.spark_bridge.functions.job_resources import JobResources, WithJobResources
from flykka.spark_bridge.functions.process_function import Rows
from flykka.spark_bridge.functions.runtime_context import FunctionRuntimeContext
from flykka.spark_bridge.functions.state import State
from flykka.spark_bridge.functions.state_descriptors import StateDescriptor
from flykka.spark_bridge.functions.times import time_of_millis
from flykka.spark_bridge.functions.windowing.trigger_context import not_declared
from flykka.spark_bridge.functions.windowing.windows import TimeWindow, Window


class KeyedStateStore:
    """States by descriptor."""

    def __init__(self, where: str, states: Mapping[str, State]) -> None:
        self._where = where
        self._states = states

    def get_state(self, state_descriptor: StateDescriptor) -> Any:
        """Return the state of a descriptor, such as a ValueState or a ListState.

        Raises:
            StateDescriptorError: the state was not declared.
        """
        state = self._states.get(state_descriptor.name)
        if state is None:
            raise not_declared(state_descriptor, self._where, self._states)
        return state

    get_list_state = get_map_state = get_reducing_state = get_aggregating_state = get_state


class ProcessWindowContext(WithJobResources):
    """The context of a window that fires or is cleared. Raises `KeyContextError` if it is used outside of the call."""

    def __init__(
        self, context: KeyedContext, window: Window, window_states: KeyedStateStore, global_states: KeyedStateStore
    ) -> None:
        self._context = context
        self._window = window
        self._window_states = window_states
        self._global_states = global_states

    def window(self) -> Any:
        """Return the `TimeWindow`, with `start` and `end` in milliseconds since the epoch, or the `GlobalWindow`."""
        self._context.ensure_in_use()
        return self._window

    def current_watermark(self) -> int:
        """Return the watermark; -2^63 before the first watermark."""
        return self._context.current_watermark()

    def current_processing_time(self) -> int:
        """Return the processing time."""
        return self._context.timer_service().current_processing_time()

    def window_state(self) -> KeyedStateStore:
        """Return the states of this key and window, which the function must clear in `clear`."""
        self._context.ensure_in_use()
        return self._window_states

    def global_state(self) -> KeyedStateStore:
        """Return the states of this key, which all windows share."""
        self._context.ensure_in_use()
        return self._global_states

    def output(self, tag: Tag, row: Row) -> None:
        """Emit a row to a side output. Raises `FunctionOutputError` if the row does not fit that output."""
        self._context.output(tag, row)

    def _job_resources(self) -> JobResources:
        return self._context._job_resources()


class _WindowFunction:
    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        """Prepare for the first window."""

    def close(self) -> None:
        """Release the resources of `open`."""

    def clear(self, context: ProcessWindowContext) -> None:
        """Clear the state of a window that is removed."""


class AnyWindowFunction(_WindowFunction, ABC):
    """Emits rows for a window that fires. The function is pickled, opened before the first row in a worker, and closed
    after the last.

    `window_states` describes the state kept per key and window; `global_states` describes the state kept per key.
    """

    window_states: Sequence[StateDescriptor] = ()
    global_states: Sequence[StateDescriptor] = ()

    @abstractmethod
    def _process(self, key: Any, context: ProcessWindowContext, elements: list[Any]) -> Rows:
        """Emit rows for a window of a key. Called by the operator."""


class ProcessWindowFunction(AnyWindowFunction):
    """Emits rows for a window of a key."""

    @abstractmethod
    def process(self, key: Any, context: ProcessWindowContext, elements: list[Any]) -> Rows:
        """Emit rows for a window. `elements` are its rows, or the value to which they were reduced or aggregated."""

    def _process(self, key: Any, context: ProcessWindowContext, elements: list[Any]) -> Rows:
        return self.process(key, context, elements)


class ProcessAllWindowFunction(AnyWindowFunction):
    """Emits rows for a window over all rows. All windows share its `global_states`."""

    @abstractmethod
    def process(self, context: ProcessWindowContext, elements: list[Any]) -> Rows:
        """Emit rows for a window. `elements` are its rows, or the value to which they were reduced or aggregated."""

    def _process(self, key: Any, context: ProcessWindowContext, elements: list[Any]) -> Rows:
        return self.process(context, elements)


class EmitElements(AnyWindowFunction):
    """Emits the elements: the results of an aggregate without a window function, or rows of global windows."""

    def _process(self, key: Any, context: ProcessWindowContext, elements: list[Any]) -> Rows:
        return elements


class EmitRows(AnyWindowFunction):
    """Emits the elements, which are rows, with the bounds of their window."""

    def _process(self, key: Any, context: ProcessWindowContext, elements: list[Any]) -> Rows:
        window = context.window()
        start, end = window if isinstance(window, TimeWindow) else (None, None)
        bounds = {WINDOW_START: _time(start), WINDOW_END: _time(end)}
        return [{**row, **bounds} for row in elements]


def _time(ms: int | None) -> datetime | None:
    return None if ms is None else time_of_millis(ms)
