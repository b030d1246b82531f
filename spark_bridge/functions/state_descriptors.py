"""Descriptors of keyed state, by Flink's names: what a function asks for in `open`.

Types are DDL texts as Spark reads them: `"bigint"`, `"array<string>"`, `"struct<name: string, seen: timestamp>"`. The
value of a struct is a dict of its fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flykka.spark_bridge.errors import StateDescriptorError
from flykka.spark_bridge.functions.aggregate_function import AnyAggregateFunction, ReduceFunction, reducer
from flykka.spark_bridge.functions.column_types import ColumnType, array_of, column_type, map_of
from flykka.spark_bridge.functions.equal_values import normalised_value
from flykka.spark_bridge.functions.state_ttl import StateTtlConfig
from flykka.spark_bridge.functions.stored_values import StoredForm, stored_form

_BIGINT = ColumnType("bigint")


class StateDescriptor:
    """Name and type of a state. Raises `StateDescriptorError` for a name or type that no state can have."""

    def __init__(self, name: str, column: ColumnType) -> None:
        self.name = name
        self.ttl: StateTtlConfig | None = None
        self._column = column

    def enable_time_to_live(self, ttl: StateTtlConfig) -> None:
        """Let values expire. Raises `StateDescriptorError` where `ttl` is no `StateTtlConfig`."""
        if not isinstance(ttl, StateTtlConfig):
            raise StateDescriptorError(
                f"the time-to-live of state {self.name!r} is {ttl!r}:"
                " make one by StateTtlConfig.new_builder('1 day').build()"
            )
        self.ttl = ttl

    @property
    def column(self) -> ColumnType:
        """Type of the state's column."""
        return self._column

    @property
    def column_type(self) -> str:
        """Type of the state's column, as DDL."""
        return str(self._column)

    @property
    def touched_type(self) -> str | None:
        """Type of the column of the times from which values live, as DDL; None without time-to-live."""
        return None if self.ttl is None else str(self._touched())

    def is_same_as(self, other: StateDescriptor) -> bool:
        """True if both are of one kind and type, and live as long. Functions are not compared."""
        return type(self) is type(other) and (self.column_type, self.ttl) == (other.column_type, other.ttl)

    def __repr__(self) -> str:
        lives = "" if self.ttl is None else f", time-to-live {self.ttl.ttl_ms} ms"
        return f"{type(self).__name__}({self.name!r}, {self.column_type!r}{self._more()}{lives})"

    def _more(self) -> str:
        return ""

    def _touched(self) -> ColumnType:
        return _BIGINT

    def _form_of(self, type_: ColumnType) -> StoredForm:
        return stored_form(type_, self.name)


class ValueStateDescriptor(StateDescriptor):
    """Single value for each key; `default` is returned where there is none."""

    def __init__(self, name: str, type: str, default: Any = None) -> None:  # noqa: A002 - the word for it
        super().__init__(checked_name(name), column_type(type, name))
        self.form = self._form_of(self._column)
        self.default = None if default is None else self.form.stored(default)

    def is_same_as(self, other: StateDescriptor) -> bool:
        """True if the default is the same, too."""
        return super().is_same_as(other) and isinstance(other, ValueStateDescriptor) and self.default == other.default

    def _more(self) -> str:
        return "" if self.default is None else f", default {self.default!r}"


class ListStateDescriptor(StateDescriptor):
    """A list of elements for each key."""

    def __init__(self, name: str, element_type: str) -> None:
        element = column_type(element_type, checked_name(name))
        super().__init__(name, array_of(element))
        self.element_form = self._form_of(element)

    def _touched(self) -> ColumnType:
        return array_of(_BIGINT)


class MapStateDescriptor(StateDescriptor):
    """A map for each key."""

    def __init__(self, name: str, key_type: str, value_type: str) -> None:
        key, value = column_type(key_type, checked_name(name)), column_type(value_type, name)
        if key.parts or key.name == "float":
            raise StateDescriptorError(
                f"the keys of state {name!r} are of type {key}, by which none is found again: take a simple type,"
                " and double for numbers"
            )
        super().__init__(name, map_of(key, value))
        self._key = key
        self.key_form = stored_form(key, name, is_key=True)
        self.value_form = self._form_of(value)
        self.normalised_key: Callable[[Any], Any] | None = normalised_value if key.name == "double" else None

    def _touched(self) -> ColumnType:
        return map_of(self._key, _BIGINT)


class ReducingStateDescriptor(StateDescriptor):
    """Single value for each key, to which others are added by a function of two values."""

    def __init__(
        self,
        name: str,
        reduce_function: ReduceFunction[Any] | Callable[[Any, Any], Any],
        type: str,  # noqa: A002 - the word for it
    ) -> None:
        super().__init__(checked_name(name), column_type(type, name))
        self.form = self._form_of(self._column)
        try:
            self.reduce = reducer(reduce_function)
        except TypeError as wrong:
            raise StateDescriptorError(f"state {name!r}: {wrong}") from None


class AggregatingStateDescriptor(StateDescriptor):
    """An accumulator for each key, to which values are added by an `AggregateFunction`."""

    def __init__(self, name: str, aggregate_function: AnyAggregateFunction, accumulator_type: str) -> None:
        super().__init__(checked_name(name), column_type(accumulator_type, name))
        self.form = self._form_of(self._column)
        if not all(callable(getattr(aggregate_function, each, None)) for each in _AGGREGATES):
            raise StateDescriptorError(
                f"state {name!r}: an AggregateFunction is needed, with {', '.join(_AGGREGATES)},"
                f" not {aggregate_function!r}"
            )
        self.aggregate_function = aggregate_function

    @property
    def merge(self) -> Callable[[Any, Any], Any]:
        """Merges two accumulators."""
        return self.aggregate_function.merge


_AGGREGATES = ("create_accumulator", "add", "get_result")


def checked_name(name: str) -> str:
    """Return the name of a state. Raises `StateDescriptorError` where it cannot be that of a column."""
    if not isinstance(name, str) or not name:
        raise StateDescriptorError(f"the name of a state must be a text that is not empty, not {name!r}")
    if name.startswith("__"):
        raise StateDescriptorError(f"the name of state {name!r} may not begin with two underscores: those are flykka's")
    return name
