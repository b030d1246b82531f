"""Sends events of a function to the JobMaster (Flink's OperatorEventGateway and GlobalAggregateManager).

Events are buffered and leave the worker when the batch has been processed. Events of a failed batch are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flykka.spark_bridge.errors import FunctionError
from flykka.spark_bridge.functions.aggregate_function import AggregateFunction
from flykka.spark_bridge.functions.event_values import event_from_bytes, event_to_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    events: tuple[bytes, ...]
    updates: tuple[tuple[str, bytes], ...]
    functions: Mapping[str, AggregateFunction[Any, Any, Any]]


class OperatorEventGateway:
    def __init__(self, *, has_coordinator: bool) -> None:
        self._has_coordinator = has_coordinator
        self._events: list[bytes] = []
        self._updates: list[tuple[str, bytes]] = []
        self._functions: dict[str, AggregateFunction[Any, Any, Any]] = {}
        self._results: Mapping[str, bytes] = {}

    def begin_batch(self, results: Mapping[str, bytes]) -> None:
        self.drain()
        self._results = results

    def send_event(self, event: Any) -> None:
        if not self._has_coordinator:
            raise FunctionError(
                "the function has no coordinator to send an event to: make it a CoordinatedFunction too, whose"
                " get_coordinator(context) returns one"
            )
        self._events.append(event_to_bytes(event, "an event"))

    def update_aggregate(self, name: str, value: Any, function: AggregateFunction[Any, Any, Any]) -> Any:
        if not isinstance(name, str) or not name.strip():
            raise FunctionError(f"the name of a global aggregate must be a string, not {name!r}")
        if not isinstance(function, AggregateFunction):
            raise FunctionError(f"the global aggregate {name!r} needs an AggregateFunction, not {function!r}")
        self._updates.append((name, event_to_bytes(value, f"a value for the global aggregate {name!r}")))
        self._functions[name] = function
        result = self._results.get(name)
        return None if result is None else event_from_bytes(result)

    def drain(self) -> Sent | None:
        if not self._events and not self._updates:
            return None
        sent = Sent(events=tuple(self._events), updates=tuple(self._updates), functions=self._functions)
        self._events, self._updates, self._functions = [], [], {}
        return sent
