"""The states of a function by name: registered in `open`, bound to the columns of each batch.

With time-to-live, each value, element or entry expires separately, as in Flink, and is removed by the next access.
Times are stored next to the values, for each element of a list and each entry of a map. Values that were written before
their state had a time-to-live have no time, and get a time at the next access that restarts time-to-live.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from flykka.spark_bridge.errors import StateDescriptorError
from flykka.spark_bridge.functions.current_key import NOTHING, CurrentKey
from flykka.spark_bridge.functions.equal_values import entries_of
from flykka.spark_bridge.functions.namespaced_state import NamespacedState, NamespacedStateDescriptor
from flykka.spark_bridge.functions.state import (
    MISSING,
    AddingState,
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    State,
    ValueState,
)
from flykka.spark_bridge.functions.state_clean_up import unexpired_elements, unexpired_entries
from flykka.spark_bridge.functions.state_columns import StateColumns
from flykka.spark_bridge.functions.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from flykka.spark_bridge.functions.state_ttl import StateTtlConfig, StateVisibility, TtlTimeCharacteristic, UpdateType

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class _ExpiringState(State):
    """Stores the time of the last access next to each value."""

    _touched: list[Any] = NOTHING
    _expired_to: int
    _ttl: StateTtlConfig

    def bind(self, columns: StateColumns) -> None:
        super().bind(columns)
        ttl = self.descriptor.ttl
        assert ttl is not None, self.descriptor
        self._ttl = ttl
        self._touched = columns.touched_ms[self.descriptor.name]
        self._expired_to = ttl.expired_to(
            watermark_ms=self._current.watermark_ms, processing_time_ms=self._current.processing_time_ms
        )

    def release(self) -> None:
        super().release()
        self._touched = NOTHING

    def clear(self) -> None:
        super().clear()
        self._touched[self._current.slot] = None

    @property
    def _returns_expired(self) -> bool:
        return self._ttl.state_visibility is StateVisibility.ReturnExpiredIfNotCleanedUp

    @property
    def _is_touched_by_reading(self) -> bool:
        return self._ttl.update_type is UpdateType.OnReadAndWrite

    def _now(self) -> int:
        current = self._current
        if self._ttl.time_characteristic is TtlTimeCharacteristic.ProcessingTime:
            return current.processing_time_ms
        return current.event_time_ms()

    def _later(self, touched: int | None) -> int:
        """Return the time of an access. Rows may be out of order, and a late row must not shorten a value's life."""
        now = self._now()
        return now if touched is None or touched < now else touched

    def _store(self, value: Any, touched: Any) -> None:
        slot = self._current.slot
        self._values[slot] = value
        self._touched[slot] = touched
        self._changed.add(slot)


class _ExpiringValue(_ExpiringState):
    def _read(self) -> Any:
        """Return the value visible to a reader. Remove the value if it has expired, else update its time if reads do
        so.
        """
        slot = self._current.slot
        value, touched = self._values[slot], self._touched[slot]
        if value is None:
            return None
        if touched is not None and touched <= self._expired_to:
            self._store(None, None)
            return value if self._returns_expired else None
        if self._is_touched_by_reading:
            self._store(value, self._later(touched))
        return value


class ExpiringValueState(_ExpiringValue, ValueState[T]):
    def value(self) -> T | None:
        value: T | None = self._readable(self._read())
        return value

    def update(self, value: T | None) -> None:
        super().update(value)
        slot = self._current.slot
        self._touched[slot] = None if value is None else self._later(self._touched[slot])


class _ExpiringAdding(_ExpiringValue, AddingState[IN, OUT]):
    def get(self) -> OUT | None:
        value = self._read()
        return None if value is None else self._result(self._own(value))

    def add(self, value: IN) -> None:
        slot = self._current.slot
        stored, touched = self._values[slot], self._touched[slot]
        if touched is not None and touched <= self._expired_to and not self._returns_expired:
            stored = None
        self._store(self._sum(None if stored is None else self._own(stored), value), self._later(touched))


class ExpiringReducingState(_ExpiringAdding[T, T], ReducingState[T]):
    pass


class ExpiringAggregatingState(_ExpiringAdding[IN, OUT], AggregatingState[IN, OUT]):
    pass


class ExpiringListState(_ExpiringState, ListState[T]):
    def get(self) -> list[T]:
        slot = self._current.slot
        visible = super().get()
        times = self._touched[slot]
        if (
            times is not None
            and (remaining := unexpired_elements(self._values[slot], times, self._expired_to)) is not None
        ):
            self._store(*remaining)
            if not self._returns_expired:
                visible = super().get()
        if self._values[slot] is not None and self._is_touched_by_reading:
            self._store(self._values[slot], [self._later(touched) for touched in self._times(slot)])
        return visible

    def update(self, values: Iterable[T]) -> None:
        super().update(values)
        slot = self._current.slot
        elements = self._values[slot]
        self._touched[slot] = None if elements is None else [self._now()] * len(elements)

    def _append(self, elements: list[Any]) -> None:
        slot = self._current.slot
        self._touched[slot] = self._times(slot) + [self._now()] * len(elements)
        super()._append(elements)

    def _times(self, slot: int) -> list[int]:
        times: list[int] | None = self._touched[slot]
        return [self._now()] * len(self._values[slot] or ()) if times is None else times


class ExpiringMapState(_ExpiringState, MapState[K, V]):
    def remove(self, key: K) -> None:
        times = self._times()
        super().remove(key)
        times.pop(self._normalised(key), None)
        self._touched[self._current.slot] = times or None

    def _read(self, key: K) -> Any:
        key = self._normalised(key)
        value, times = super()._read(key), self._times()
        if (touched := times.get(key)) is None:
            return value
        if touched <= self._expired_to:
            self.remove(key)
            return value if self._returns_expired else MISSING
        if self._is_touched_by_reading:
            times[key] = self._later(touched)
            self._store(self._entries(), times)
        return value

    def _read_all(self) -> Mapping[K, Any]:
        entries, times = self._entries(), self._times()
        visible: Mapping[K, Any] = entries
        if times and (remaining := unexpired_entries(entries, times, self._expired_to)) is not None:
            self._store(*remaining)
            entries, times = remaining[0] or {}, remaining[1] or {}
            if not self._returns_expired:
                visible = entries
        if entries and self._is_touched_by_reading:
            self._store(entries, {key: self._later(touched) for key, touched in times.items()})
        return visible

    def _put(self, stored: dict[Any, Any]) -> None:
        entries, times = self._entries(), self._times()
        for key in stored:
            # The entry moves to the end, as if it had been removed before.
            if key in times and times[key] <= self._expired_to:
                del entries[key], times[key]
        super()._put(stored)
        self._touched[self._current.slot] = times | {key: self._later(times.get(key)) for key in stored}

    def _times(self) -> dict[Any, int]:
        slot = self._current.slot
        times: Any = self._touched[slot]
        if isinstance(times, dict):
            return times
        entries = self._entries()
        if not entries:
            return {}
        of_entries = dict.fromkeys(entries, self._now()) if times is None else entries_of(times, self._normalised_key)
        self._touched[slot] = of_entries
        return of_entries


_STATES: dict[type[StateDescriptor], tuple[type[State], type[State], str]] = {
    ValueStateDescriptor: (ValueState, ExpiringValueState, "get_state"),
    ListStateDescriptor: (ListState, ExpiringListState, "get_list_state"),
    MapStateDescriptor: (MapState, ExpiringMapState, "get_map_state"),
    ReducingStateDescriptor: (ReducingState, ExpiringReducingState, "get_reducing_state"),
    AggregatingStateDescriptor: (AggregatingState, ExpiringAggregatingState, "get_aggregating_state"),
}


class KeyedStates:
    def __init__(self, current: CurrentKey) -> None:
        self._current = current
        self._states: dict[str, State] = {}
        self._is_complete = False

    @property
    def descriptors(self) -> tuple[StateDescriptor, ...]:
        return tuple(state.descriptor for state in self._states.values())

    def complete(self) -> None:
        """Accept no more states, because the columns are fixed."""
        self._is_complete = True

    def get(self, descriptor: StateDescriptor, kind: type[StateDescriptor]) -> State:
        """Return the state of a descriptor, which is registered if it is new. Raises `StateDescriptorError` if the
        state has another type, another state has its name, or `open` has returned.
        """
        if not isinstance(descriptor, kind):
            raise _wrong_kind(descriptor, kind)
        there = self._states.get(descriptor.name)
        if there is None:
            there = self._states[descriptor.name] = self._registered(descriptor, kind)
        elif not there.descriptor.is_same_as(descriptor):
            raise StateDescriptorError(
                f"state {descriptor.name!r} is registered twice: as {there.descriptor} and as {descriptor}; give one"
                " of them another name"
            )
        return there

    def bind(self, columns: StateColumns) -> None:
        for state in self._states.values():
            state.bind(columns)

    def release(self) -> None:
        for state in self._states.values():
            state.release()

    def _registered(self, descriptor: StateDescriptor, kind: type[StateDescriptor]) -> State:
        if self._is_complete:
            raise StateDescriptorError(
                f"state {descriptor.name!r} is registered too late: do it in open(runtime_context)"
            )
        alike = next((name for name in self._states if name.lower() == descriptor.name.lower()), None)
        if alike is not None:
            raise StateDescriptorError(
                f"states {alike!r} and {descriptor.name!r} differ only in upper and lower case, but they"
                " become columns, which may not"
            )
        if isinstance(descriptor, NamespacedStateDescriptor):
            return NamespacedState(descriptor, self._current, _STATES[type(descriptor.of)][0])
        plain, expiring, _ = _STATES[kind]
        made = plain if descriptor.ttl is None else expiring
        return made(descriptor, self._current)


def _wrong_kind(descriptor: object, kind: type[StateDescriptor]) -> StateDescriptorError:
    method = _STATES[kind][2]
    of_it = next((getter for each, (_, _, getter) in _STATES.items() if isinstance(descriptor, each)), None)
    hint = "" if of_it is None else f"; {of_it} takes this one"
    return StateDescriptorError(f"{method} takes a {kind.__name__}, not {descriptor!r}{hint}")
