"""Keyed state as functions use it, with Flink's names. It is always the state of the current key.

States read and write the lists of `StateColumns` at the slot of the key. They return copies: changing a copy changes
the state only when it is written back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from flykka.spark_bridge.functions.current_key import NOTHING, CurrentKey
from flykka.spark_bridge.functions.equal_values import entries_of
from flykka.spark_bridge.functions.state_columns import StateColumns
from flykka.spark_bridge.functions.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")

_NO_CHANGES: set[int] = set()
MISSING = object()
"""The value of keys that a map does not contain."""


class State:
    """State of the current key. Raises `KeyContextError` if there is no current key."""

    __slots__ = ("_changed", "_current", "_values", "descriptor")

    def __init__(self, descriptor: StateDescriptor, current: CurrentKey) -> None:
        self.descriptor = descriptor
        self._current = current
        self._values = NOTHING
        self._changed = _NO_CHANGES

    def bind(self, columns: StateColumns) -> None:
        """Set the columns that contain the state. Used by runners."""
        self._values = columns.values[self.descriptor.name]
        self._changed = columns.changed

    def release(self) -> None:
        """Detach from the columns. Used by runners."""
        self._values = NOTHING
        self._changed = _NO_CHANGES

    def clear(self) -> None:
        """Remove the state of the key."""
        slot = self._current.slot
        if self._values[slot] is not None:
            self._values[slot] = None
            self._changed.add(slot)


class ValueState(State, Generic[T]):
    """A single value for each key."""

    __slots__ = ("_copied", "_default", "_plain", "_stored")

    def __init__(self, descriptor: ValueStateDescriptor, current: CurrentKey) -> None:
        super().__init__(descriptor, current)
        self._default = descriptor.default
        self._plain = descriptor.form.plain
        self._stored = descriptor.form.stored
        self._copied = descriptor.form.copied

    def value(self) -> T | None:
        """Return the value, or the descriptor's default."""
        value: T | None = self._values[self._current.slot]
        if value is None or self._copied is not None:
            value = self._readable(value)
        return value

    def update(self, value: T | None) -> None:
        """Replace the value; None clears it. Raises `StateValueError` if it does not fit the state's type."""
        if value.__class__ is not self._plain and value is not None:
            value = self._stored(value)
        slot = self._current.slot
        self._values[slot] = value
        self._changed.add(slot)

    def _readable(self, value: Any) -> Any:
        visible = self._default if value is None else value
        return visible if self._copied is None or visible is None else self._copied(visible)


class ListState(State, Generic[T]):
    """A list of elements for each key."""

    __slots__ = ("_copied", "_stored")

    def __init__(self, descriptor: ListStateDescriptor, current: CurrentKey) -> None:
        super().__init__(descriptor, current)
        self._copied = descriptor.element_form.copied
        self._stored = descriptor.element_form.stored

    def get(self) -> list[T]:
        """Return the elements in insertion order."""
        elements = self._values[self._current.slot]
        if elements is None:
            return []
        return list(elements) if self._copied is None else list(map(self._copied, elements))

    def add(self, value: T) -> None:
        """Append an element. Raises `StateValueError` if it is None or does not fit the element type."""
        self._append([self._stored(value)])

    def add_stored(self, value: T) -> None:
        """Append an element that is in stored form already, like rows of a batch. Used by operators."""
        self._append([value])

    def add_all(self, values: Iterable[T]) -> None:
        """Append elements. Raises like `add`, and then appends nothing."""
        if added := list(map(self._stored, values)):
            self._append(added)

    def update(self, values: Iterable[T]) -> None:
        """Replace all elements. Raises like `add`, and then changes nothing."""
        elements = list(map(self._stored, values))
        slot = self._current.slot
        self._values[slot] = elements or None
        self._changed.add(slot)

    def _append(self, elements: list[Any]) -> None:
        slot = self._current.slot
        there = self._values[slot]
        if there is None:
            self._values[slot] = elements
        else:
            there += elements
        self._changed.add(slot)


class MapState(State, Generic[K, V]):
    """A map for each key, in order of first insertion."""

    __slots__ = ("_copied", "_normalised_key", "_stored_key", "_stored_value")

    def __init__(self, descriptor: MapStateDescriptor, current: CurrentKey) -> None:
        super().__init__(descriptor, current)
        self._normalised_key = descriptor.normalised_key
        self._copied = descriptor.value_schema.copied
        self._stored_key = descriptor.key_form.stored
        self._stored_value = descriptor.value_schema.stored

    def get(self, key: K) -> V | None:
        """Return the value of a key in the map, or None."""
        value: V | None = self._readable(self._read(key))
        return value

    def put(self, key: K, value: V | None) -> None:
        """Set the value of a key. Raises `StateValueError` if the key or the value does not fit its type."""
        self.put_all({key: value})

    def put_all(self, entries: Mapping[K, V | None]) -> None:
        """Set the values of keys. Raises like `put`, and then changes nothing."""
        stored = {
            self._stored_key(key): None if value is None else self._stored_value(value)
            for key, value in entries.items()
        }
        if stored:
            self._put(stored)

    def remove(self, key: K) -> None:
        """Remove a key and its value, if the map has the key."""
        entries, key = self._entries(), self._normalised(key)
        if key in entries:
            del entries[key]
            self._set(entries)

    def contains(self, key: K) -> bool:
        """True if the map has the key."""
        return self._read(key) is not MISSING

    def keys(self) -> list[K]:
        """Return the keys."""
        return list(self._read_all())

    def values(self) -> list[V]:
        """Return the values."""
        return list(map(self._readable, self._read_all().values()))

    def items(self) -> list[tuple[K, V]]:
        """Return pairs of key and value."""
        return [(key, self._readable(value)) for key, value in self._read_all().items()]

    def is_empty(self) -> bool:
        """True if the map has no key."""
        return not self._read_all()

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())

    def _read(self, key: K) -> Any:
        return self._entries().get(self._normalised(key), MISSING)

    def _read_all(self) -> Mapping[K, Any]:
        return self._entries()

    def _readable(self, value: Any) -> Any:
        if value is None or value is MISSING:
            return None
        return value if self._copied is None else self._copied(value)

    def _entries(self) -> dict[Any, Any]:
        """Return the map of the current key, or an empty map that is not stored."""
        entries: Any = self._values[self._current.slot]
        if entries is None:
            return {}
        if isinstance(entries, dict):
            return entries
        of_pairs = self._values[self._current.slot] = entries_of(entries, self._normalised_key)
        return of_pairs

    def _normalised(self, key: Any) -> Any:
        return key if self._normalised_key is None else self._normalised_key(key)

    def _put(self, stored: dict[Any, Any]) -> None:
        entries = self._entries()
        entries.update(stored)
        self._set(entries)

    def _set(self, entries: dict[Any, Any]) -> None:
        slot = self._current.slot
        self._values[slot] = entries or None
        self._changed.add(slot)


class AddingState(State, ABC, Generic[IN, OUT]):
    """State to which values are added."""

    __slots__ = ("_copied", "_plain", "_stored")

    def __init__(self, descriptor: ReducingStateDescriptor | AggregatingStateDescriptor, current: CurrentKey) -> None:
        super().__init__(descriptor, current)
        self._plain = descriptor.form.plain
        self._stored = descriptor.form.stored
        self._copied = descriptor.form.copied

    def get(self) -> OUT | None:
        """Return the result for the added values; None if no value was added."""
        value = self._values[self._current.slot]
        return None if value is None else self._result(self._own(value))

    def add(self, value: IN) -> None:
        """Add a value. Raises `StateValueError` if the result does not fit the state's type."""
        slot = self._current.slot
        stored = self._values[slot]
        self._values[slot] = self._sum(None if stored is None else self._own(stored), value)
        self._changed.add(slot)

    def _own(self, stored: Any) -> Any:
        return stored if self._copied is None else self._copied(stored)

    def _sum(self, stored: Any, value: IN) -> Any:
        added = self._added(stored, value)
        return added if added.__class__ is self._plain else self._stored(added)

    @abstractmethod
    def _added(self, stored: Any, value: IN) -> Any: ...

    @abstractmethod
    def _result(self, stored: Any) -> OUT: ...


class ReducingState(AddingState[T, T]):
    """A single value for each key, which a function combines with added values."""

    __slots__ = ("_reduce",)

    def __init__(self, descriptor: ReducingStateDescriptor, current: CurrentKey) -> None:
        super().__init__(descriptor, current)
        self._reduce: Callable[[Any, Any], Any] = descriptor.reduce

    def _added(self, stored: Any, value: T) -> Any:
        return value if stored is None else self._reduce(stored, value)

    def _result(self, stored: T) -> T:
        return stored


class AggregatingState(AddingState[IN, OUT]):
    """An accumulator for each key, to which values are added by an `AggregateFunction`."""

    __slots__ = ("_function",)

    def __init__(self, descriptor: AggregatingStateDescriptor, current: CurrentKey) -> None:
        super().__init__(descriptor, current)
        self._function = descriptor.aggregate_function

    def _added(self, stored: Any, value: IN) -> Any:
        # A new accumulator is converted to stored form, so that `add` always receives the same form.
        accumulator = self._stored(self._function.create_accumulator()) if stored is None else stored
        return self._function.add(value, accumulator)

    def _result(self, stored: Any) -> OUT:
        result: OUT = self._function.get_result(stored)
        return result
