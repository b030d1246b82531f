"""The contents of windows in state: rows, or the value to which rows are reduced or aggregated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any, cast

from flykka.spark_bridge.functions.aggregate_function import AnyAggregateFunction, ReduceFunction, reducer
from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.functions.namespaced_state import Namespace, NamespacedState
from flykka.spark_bridge.functions.runtime_context import FunctionRuntimeContext
from flykka.spark_bridge.functions.state import AddingState, ListState
from flykka.spark_bridge.functions.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from flykka.spark_bridge.functions.windowing.evictors import Elements, Evictor, EvictorContext, TimestampedValue
from flykka.spark_bridge.functions.windowing.trigger_context import registered
from flykka.spark_bridge.functions.windowing.windows import Window, namespace_of

_CONTENTS = "window_contents"


class Combination(ABC):
    """Converts rows to the elements of a window's function."""

    @abstractmethod
    def descriptor(self, row_type: str) -> StateDescriptor: ...

    @abstractmethod
    def combined(self, rows: list[Row]) -> list[Any]: ...


class AllRows(Combination):
    def descriptor(self, row_type: str) -> StateDescriptor:
        return ListStateDescriptor(_CONTENTS, row_type)

    def combined(self, rows: list[Row]) -> list[Any]:
        return rows


class Reduced(Combination):
    def __init__(self, function: ReduceFunction[Row] | Any) -> None:
        self._reduce = reducer(function)

    def descriptor(self, row_type: str) -> StateDescriptor:
        return ReducingStateDescriptor(_CONTENTS, self._reduce, row_type)

    def combined(self, rows: list[Row]) -> list[Any]:
        return [reduce(self._reduce, rows)] if rows else []


class Aggregated(Combination):
    """Adds rows to an accumulator, whose result is the only element."""

    def __init__(self, function: AnyAggregateFunction, accumulator_type: str) -> None:
        self._function = function
        self._accumulator_type = accumulator_type

    def descriptor(self, row_type: str) -> StateDescriptor:
        return AggregatingStateDescriptor(_CONTENTS, self._function, self._accumulator_type)

    def combined(self, rows: list[Row]) -> list[Any]:
        accumulator = self._function.create_accumulator()
        for row in rows:
            accumulator = self._function.add(row, accumulator)
        return [self._function.get_result(accumulator)] if rows else []


@dataclass(slots=True)
class Fired:
    """Elements of a firing window, and the contents that an evictor has retained before the function was called."""

    elements: list[Any]
    retained: Elements | None = None


class WindowContents:
    """The contents of the current key's windows, stored under the name of the window that `at` has set."""

    def __init__(self, combination: Combination, row_type: str, context: FunctionRuntimeContext) -> None:
        self._namespace = Namespace()
        self._state: NamespacedState = registered(context, combination.descriptor(row_type), self._namespace)
        state = self._state.state
        self._rows = cast("ListState[Row]", state) if isinstance(state, ListState) else None
        self._value = state if isinstance(state, AddingState) else None

    def at(self, window: Window) -> None:
        self._namespace.name = namespace_of(window)

    def add(self, row: Row, timestamp: int | None) -> None:
        if self._rows is not None:
            self._rows.add_stored(row)
        else:
            assert self._value is not None, "the contents have neither a list nor a value"
            self._value.add(row)

    def fired(self, window: Window, ctx: EvictorContext) -> Fired | None:
        if self._rows is not None:
            rows = self._rows.get()
            return Fired(rows) if rows else None
        assert self._value is not None, "the contents have neither a list nor a value"
        # Without state there is no result, but a result may also be None.
        if self._namespace.name not in self._state.namespaces():
            return None
        return Fired([self._value.get()])

    def processed(self, fired: Fired, window: Window, ctx: EvictorContext) -> None:
        """Store the contents that remain after the function was called with the elements."""

    def clear(self) -> None:
        self._state.state.clear()

    def merge(self, window: Window, merged: Iterable[Window]) -> None:
        self._state.merge(namespace_of(window), list(map(namespace_of, merged)))


class EvictedContents(WindowContents):
    """Rows with their times, from which an evictor removes rows. The remaining rows are combined when the window
    fires.
    """

    def __init__(
        self, combination: Combination, row_type: str, context: FunctionRuntimeContext, evictor: Evictor
    ) -> None:
        super().__init__(AllRows(), f"struct<timestamp:bigint,row:{row_type}>", context)
        self._combination = combination
        self._evictor = evictor

    def add(self, row: Row, timestamp: int | None) -> None:
        super().add({"timestamp": timestamp, "row": row}, timestamp)

    def fired(self, window: Window, ctx: EvictorContext) -> Fired | None:
        assert self._rows is not None, "the window keeps no rows for its evictor"
        elements = [TimestampedValue(each["row"], each["timestamp"]) for each in self._rows.get()]
        if not elements:
            return None
        elements = self._evictor.evict_before(elements, window, ctx)
        return Fired(self._combination.combined([dict(each.value) for each in elements]), elements)

    def processed(self, fired: Fired, window: Window, ctx: EvictorContext) -> None:
        assert self._rows is not None, "the window keeps no rows for its evictor"
        assert fired.retained is not None, "the evictor has not returned the retained elements"
        elements = self._evictor.evict_after(fired.retained, window, ctx)
        self._rows.update({"timestamp": each.timestamp, "row": each.value} for each in elements)
