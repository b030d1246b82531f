"""State by key and namespace, for windows: a map for each key, whose entries are used like other state."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from flykka.spark_bridge.errors import StateDescriptorError
from flykka.spark_bridge.functions.column_types import ColumnType, map_of
from flykka.spark_bridge.functions.current_key import NOTHING, CurrentKey
from flykka.spark_bridge.functions.state import State
from flykka.spark_bridge.functions.state_columns import StateColumns
from flykka.spark_bridge.functions.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)


class Namespace:
    """The current namespace of all states that share this object."""

    __slots__ = ("name",)

    def __init__(self) -> None:
        self.name = ""


class NamespacedStateDescriptor(StateDescriptor):
    """A state with a value for each namespace: its column maps namespace names to values.

    Raises `StateDescriptorError` for a state with time-to-live, since namespaces are cleared when they end.
    """

    def __init__(self, of: StateDescriptor, namespace: Namespace) -> None:
        if of.ttl is not None:
            raise StateDescriptorError(
                f"state {of.name!r} of a window cannot have a time-to-live: it is cleared with the window"
            )
        super().__init__(of.name, map_of(ColumnType("string"), of.column))
        self.of = of
        self.namespace = namespace


class NamespacedState(State):
    """The state of the current key and namespace, which is accessed through `state`."""

    __slots__ = ("_of", "_view", "state")

    def __init__(self, descriptor: NamespacedStateDescriptor, current: CurrentKey, plain: type[State]) -> None:
        super().__init__(descriptor, current)
        self._of = descriptor.of
        self._view = _NamespaceView(descriptor.namespace)
        self.state = plain(descriptor.of, current)

    def bind(self, columns: StateColumns) -> None:
        super().bind(columns)
        self._view.maps = self._values
        # The state uses the view as its column, which contains each key's value in the current namespace.
        of_state = StateColumns(
            values={self._of.name: self._view},
            touched_ms={},
            event_timers=[],
            processing_timers=[],
            changed=columns.changed,
        )
        self.state.bind(of_state)

    def release(self) -> None:
        super().release()
        self._view.maps = self._values
        self.state.release()

    def namespaces(self) -> dict[str, Any]:
        """Return the key's values by namespace, as stored. They must not be changed."""
        return self._view.entries(self._current.slot) or {}

    def merge(self, target: str, sources: Sequence[str]) -> None:
        """Merge the values of the source namespaces into the target's, and remove the sources.

        Raises `StateDescriptorError` for a state that is neither a list nor reduced nor aggregated.
        """
        entries = self.namespaces()
        parts = [entries[name] for name in (target, *sources) if name in entries]
        for name in sources:
            entries.pop(name, None)
        if parts:
            slot = self._current.slot
            self._view.maps[slot] = {**entries, target: self._merged(parts)}
            self._changed.add(slot)

    def _merged(self, parts: list[Any]) -> Any:
        match self._of:
            case ListStateDescriptor():
                return [element for part in parts for element in part]
            case (
                ReducingStateDescriptor(reduce=function, form=form)
                | AggregatingStateDescriptor(merge=function, form=form)
            ):
                own = parts if form.copied is None else list(map(form.copied, parts))
                return form.stored(reduce(function, own))
        raise StateDescriptorError(
            f"state {self._of.name!r} cannot be merged when windows merge: make it a ListState, ReducingState or"
            " AggregatingState"
        )


class _NamespaceView(list[Any]):
    """The column of a state, reduced to the values of the current namespace."""

    def __init__(self, namespace: Namespace) -> None:
        super().__init__()
        self.maps = NOTHING
        self._namespace = namespace

    def __getitem__(self, slot: Any) -> Any:
        entries = self.entries(slot)
        return None if entries is None else entries.get(self._namespace.name)

    def __setitem__(self, slot: Any, value: Any) -> None:
        entries = self.entries(slot)
        if value is not None:
            if entries is None:
                self.maps[slot] = {self._namespace.name: value}
            else:
                entries[self._namespace.name] = value
        elif entries is not None:
            entries.pop(self._namespace.name, None)
            if not entries:
                self.maps[slot] = None

    def entries(self, slot: int) -> dict[str, Any] | None:
        entries = self.maps[slot]
        if entries is None or entries.__class__ is dict:
            return entries
        of_pairs: dict[str, Any] = dict(entries)
        self.maps[slot] = of_pairs
        return of_pairs
