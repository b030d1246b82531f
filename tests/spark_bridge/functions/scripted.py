"""A function that executes the actions in its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from flykka.spark_bridge.functions.contexts import KeyedContext, TimerContext
from flykka.spark_bridge.functions.process_function import KeyedProcessFunction
from flykka.spark_bridge.functions.runtime_context import FunctionRuntimeContext
from flykka.spark_bridge.functions.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tests.spark_bridge.functions.state_table import Row, StateTable

Action = Callable[[Any, Any], object]
"""An action on the states, which are attributes of the first argument, and on the context."""


def registered(context: FunctionRuntimeContext, descriptor: StateDescriptor) -> Any:
    match descriptor:
        case ValueStateDescriptor():
            return context.get_state(descriptor)
        case ListStateDescriptor():
            return context.get_list_state(descriptor)
        case MapStateDescriptor():
            return context.get_map_state(descriptor)
        case ReducingStateDescriptor():
            return context.get_reducing_state(descriptor)
        case AggregatingStateDescriptor():
            return context.get_aggregating_state(descriptor)
    raise AssertionError(descriptor)


class Scripted(KeyedProcessFunction):
    """Calls the action in the column `do` of each row, and emits the result with the key."""

    def __init__(self, *descriptors: StateDescriptor, on_timer: Action | None = None) -> None:
        self._descriptors = descriptors
        self._on_timer = on_timer
        self.states = SimpleNamespace()

    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        for descriptor in self._descriptors:
            setattr(self.states, descriptor.name, registered(runtime_context, descriptor))

    def process_element(self, row: Row, ctx: KeyedContext) -> Iterator[Row]:
        yield {"key": ctx.get_current_key(), "value": row["do"](self.states, ctx)}

    def on_timer(self, timestamp: int, ctx: TimerContext) -> Iterator[Row]:
        value = timestamp if self._on_timer is None else self._on_timer(self.states, ctx)
        yield {"key": ctx.get_current_key(), "value": value}


def scripted_row(key: object, do: Action, time: int | None = None) -> Row:
    return {"key": key, "do": do, "time": time}


def scripted_table(*descriptors: StateDescriptor, on_timer: Action | None = None) -> StateTable:
    return StateTable(Scripted(*descriptors, on_timer=on_timer))


def values_of_rows(rows: list[Row]) -> list[Any]:
    return [row["value"] for row in rows]


def done(table: StateTable, do: Action, time: int | None = None) -> Any:
    """Call an action for the key 'a' in a separate batch, and return the result."""
    (value,) = values_of_rows(table.process(scripted_row("a", do, time)))
    return value
