"""The methods of a function that are called for rows: one for each of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from flykka.spark_bridge.functions.broadcast_functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from flykka.spark_bridge.functions.co_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from flykka.spark_bridge.functions.emission import Row
from flykka.spark_bridge.functions.process_function import KeyedProcessFunction, ProcessFunction, Rows

FunctionWithoutKeys = ProcessFunction | CoProcessFunction | CoMapFunction | CoFlatMapFunction | BroadcastProcessFunction
FunctionWithKeys = (
    KeyedProcessFunction | KeyedCoProcessFunction | CoMapFunction | CoFlatMapFunction | KeyedBroadcastProcessFunction
)
Call = Callable[[Row, Any], Rows]
NewContext = Callable[[], Any]


class RowCall(NamedTuple):
    """The method that is called for the rows of an input: its name, and what makes a context of each call."""

    name: str
    call: Call
    new_context: NewContext


def row_calls(function: FunctionWithoutKeys | FunctionWithKeys, contexts: Sequence[NewContext]) -> tuple[RowCall, ...]:
    """The method for each input of a function; `contexts` are those of a first and of a second input."""
    methods = zip(_methods(function), contexts, strict=False)
    return tuple(RowCall(name, call, new_context) for (name, call), new_context in methods)


def _methods(function: FunctionWithoutKeys | FunctionWithKeys) -> tuple[tuple[str, Call], ...]:
    match function:
        case CoProcessFunction() | KeyedCoProcessFunction():
            return ("process_element1", function.process_element1), ("process_element2", function.process_element2)
        case BroadcastProcessFunction() | KeyedBroadcastProcessFunction():
            of_broadcast = function.process_broadcast_element
            return ("process_element", function.process_element), ("process_broadcast_element", of_broadcast)
        case CoMapFunction():
            return ("map1", _mapping(function.map1)), ("map2", _mapping(function.map2))
        case CoFlatMapFunction():
            return ("flat_map1", _without_context(function.flat_map1)), (
                "flat_map2",
                _without_context(function.flat_map2),
            )
        case ProcessFunction() | KeyedProcessFunction():
            return (("process_element", function.process_element),)


def _mapping(method: Callable[[Row], Row]) -> Call:
    return lambda row, _: (method(row),)


def _without_context(method: Callable[[Row], Rows]) -> Call:
    return lambda row, _: method(row)
