"""The global aggregates of one job: the functions that workers send along with values, and their accumulators."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from flykka.messages.tasks.operator_event import AggregateResult, AggregateUpdate
from flykka.spark_bridge.errors import GlobalAggregateError
from flykka.spark_bridge.functions.aggregate_function import AnyAggregateFunction
from flykka.spark_bridge.functions.event_values import event_from_bytes, event_to_bytes


class JobAggregates:
    """Implements `GlobalAggregateFunctions`. Functions may be bound from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._pickled: dict[str, bytes] = {}
        self._functions: dict[str, tuple[AnyAggregateFunction, str]] = {}
        self._accumulators: dict[str, Any] = {}

    def bind(self, functions: Mapping[str, bytes], operator: str) -> None:
        """Set the functions that an operator has sent along with values; the last function for a name wins."""
        with self._lock:
            for name, pickled in functions.items():
                if self._pickled.get(name) != pickled:
                    self._pickled[name] = pickled
                    self._functions[name] = pickle.loads(pickled), operator

    def update(self, updates: Sequence[AggregateUpdate]) -> tuple[AggregateResult, ...]:
        return tuple(self._updated(name, updates) for name in dict.fromkeys(each.name for each in updates))

    def _updated(self, name: str, updates: Sequence[AggregateUpdate]) -> AggregateResult:
        with self._lock:
            function, operator = self._functions[name]
        try:
            if name not in self._accumulators:
                self._accumulators[name] = function.create_accumulator()
            for update in updates:
                if update.name == name:
                    value = event_from_bytes(update.value)
                    self._accumulators[name] = function.add(value, self._accumulators[name])
            result = function.get_result(self._accumulators[name])
            return AggregateResult(name=name, result=event_to_bytes(result, "its result"))
        except Exception as raised:
            raise GlobalAggregateError(
                f"the global aggregate {name!r} of operator {operator} cannot be updated:"
                f" {type(raised).__name__}: {raised}"
            ) from raised
