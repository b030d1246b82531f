"""The broadcast states of a subtask: maps with the same content in every subtask, with Flink's names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, NoReturn, TypeVar, cast

from flykka.messages.state.handles import OperatorStateMode
from flykka.spark_bridge.errors import KeyContextError, StateDescriptorError
from flykka.spark_bridge.functions.operator_states import OperatorStates
from flykka.spark_bridge.functions.state import MapState
from flykka.spark_bridge.functions.state_descriptors import MapStateDescriptor

K = TypeVar("K")
V = TypeVar("V")


class ReadOnlyBroadcastState(Generic[K, V]):
    """A read-only broadcast map. Values are returned as copies, as from a map of keyed state."""

    __slots__ = ("_state",)

    def __init__(self, state: MapState[K, V]) -> None:
        self._state = state

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None."""
        return self._state.get(key)

    def contains(self, key: K) -> bool:
        """True if the map has the key."""
        return self._state.contains(key)

    def keys(self) -> list[K]:
        """Return the keys."""
        return self._state.keys()

    def values(self) -> list[V]:
        """Return the values."""
        return self._state.values()

    def items(self) -> list[tuple[K, V]]:
        """Return pairs of key and value."""
        return self._state.items()

    def is_empty(self) -> bool:
        """True if the map has no key."""
        return self._state.is_empty()

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())

    def __getattr__(self, name: str) -> NoReturn:
        if hasattr(MapState, name):
            raise KeyContextError(
                f"{name}(...) would change broadcast state in this subtask only: only process_broadcast_element may"
                " change it, because every subtask calls it with the same rows"
            )
        raise AttributeError(f"broadcast state has no attribute {name!r}")


class BroadcastStates:
    def __init__(self, descriptors: Sequence[MapStateDescriptor], states: OperatorStates) -> None:
        self._states = {
            each.name: cast("MapState[Any, Any]", states.get(each, MapStateDescriptor, OperatorStateMode.BROADCAST))
            for each in descriptors
        }
        self._read_only = {name: ReadOnlyBroadcastState(state) for name, state in self._states.items()}

    def writable(self, descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        return self._states[self._name(descriptor)]

    def readable(self, descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        return self._read_only[self._name(descriptor)]

    def _name(self, descriptor: MapStateDescriptor) -> str:
        if not isinstance(descriptor, MapStateDescriptor):
            raise StateDescriptorError(f"get_broadcast_state takes a MapStateDescriptor, not {descriptor!r}")
        there = self._states.get(descriptor.name)
        if there is None:
            names = ", ".join(map(repr, self._states))
            raise StateDescriptorError(
                f"there is no broadcast state {descriptor.name!r}, only {names}: name its descriptor in broadcast(...)"
            )
        if not there.descriptor.is_same_as(descriptor):
            raise StateDescriptorError(
                f"broadcast state {descriptor.name!r} is {there.descriptor}, not {descriptor}: use the descriptor that"
                " was passed to broadcast(...)"
            )
        return descriptor.name
