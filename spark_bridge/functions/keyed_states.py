"""The states of a function by name: registered in `open`, bound to the columns of each batch."""

from __future__ import annotations

from flykka.spark_bridge.errors import StateDescriptorError
from flykka.spark_bridge.functions.current_key import CurrentKey
from flykka.spark_bridge.functions.namespaced_state import NamespacedState, NamespacedStateDescriptor
from flykka.spark_bridge.functions.state import AggregatingState, ListState, MapState, ReducingState, State, ValueState
from flykka.spark_bridge.functions.state_columns import StateColumns
from flykka.spark_bridge.functions.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from flykka.spark_bridge.functions.state_with_ttl import (
    ExpiringAggregatingState,
    ExpiringListState,
    ExpiringMapState,
    ExpiringReducingState,
    ExpiringValueState,
)

_STATES: dict[type[StateDescriptor], tuple[type[State], type[State], str]] = {
    ValueStateDescriptor: (ValueState, ExpiringValueState, "get_state"),
    ListStateDescriptor: (ListState, ExpiringListState, "get_list_state"),
    MapStateDescriptor: (MapState, ExpiringMapState, "get_map_state"),
    ReducingStateDescriptor: (ReducingState, ExpiringReducingState, "get_reducing_state"),
    AggregatingStateDescriptor: (AggregatingState, ExpiringAggregatingState, "get_aggregating_state"),
}


class KeyedStates:
    """The states of one function."""

    def __init__(self, current: CurrentKey) -> None:
        self._current = current
        self._states: dict[str, State] = {}
        self._is_complete = False

    @property
    def descriptors(self) -> tuple[StateDescriptor, ...]:
        """The descriptors, in the order in which they were registered."""
        return tuple(state.descriptor for state in self._states.values())

    def complete(self) -> None:
        """Take no state any more: the columns are known."""
        self._is_complete = True

    def get(self, descriptor: StateDescriptor, kind: type[StateDescriptor]) -> State:
        """Return the state of a descriptor, registered if it is new.

        Raises:
            StateDescriptorError: it is not of this kind, its name is that of another state, or `open` is over.
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
        """Let all states work on columns."""
        for state in self._states.values():
            state.bind(columns)

    def release(self) -> None:
        """Let no state work any more."""
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
                f"states {alike!r} and {descriptor.name!r} differ only in upper and lower case, and columns may not"
            )
        if isinstance(descriptor, NamespacedStateDescriptor):
            return NamespacedState(descriptor, self._current, _STATES[type(descriptor.of)][0])
        plain, expiring, _ = _STATES[kind]
        made = plain if descriptor.ttl is None else expiring
        return made(descriptor, self._current)


def _wrong_kind(descriptor: object, kind: type[StateDescriptor]) -> StateDescriptorError:
    asked = _STATES[kind][2]
    of_it = next((getter for each, (_, _, getter) in _STATES.items() if isinstance(descriptor, each)), None)
    hint = "" if of_it is None else f"; {of_it} takes this one"
    return StateDescriptorError(f"{asked} takes a {kind.__name__}, not {descriptor!r}{hint}")
