"""Operator state of a function: lists and maps of its subtask, converted from and to the checkpoint format."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from flykka.messages.state.handles import OperatorListState, OperatorStateMode, OperatorStateSchema, StateElement
from flykka.messages.wire.codec import decode, encode
from flykka.spark_bridge.errors import StateDescriptorError
from flykka.spark_bridge.functions.column_types import ColumnType, column_type
from flykka.spark_bridge.functions.current_key import CurrentKey
from flykka.spark_bridge.functions.state import ListState, MapState
from flykka.spark_bridge.functions.state_columns import StateColumns
from flykka.spark_bridge.functions.state_descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from flykka.spark_bridge.functions.stored_bytes import from_bytes, to_bytes

Lists = tuple[OperatorListState, ...]
_GETTERS = {
    OperatorStateMode.SPLIT_DISTRIBUTE: "get_list_state",
    OperatorStateMode.UNION: "get_union_list_state",
    OperatorStateMode.BROADCAST: "get_broadcast_state",
}


@dataclass(slots=True)
class _Registered:
    """`encoded` is the state in checkpoint format, cached until the state changes."""

    state: ListState[Any] | MapState[Any, Any]
    mode: OperatorStateMode
    columns: StateColumns
    encoded: tuple[bytes, ...] | None = None

    @property
    def element(self) -> ColumnType:
        """The type of the elements in a checkpoint: elements of the list, or entries of the map."""
        parts = self.state.descriptor.column.parts
        return parts[0] if isinstance(self.state, ListState) else ColumnType("struct", parts, ("key", "value"))

    def encode(self) -> tuple[bytes, ...]:
        if self.encoded is None or self.columns.changed:
            name, element = str(self.element), self.element
            self.encoded = tuple(
                encode(StateElement(type=name, data=to_bytes(each, element))) for each in self._elements()
            )
            self.columns.changed.clear()
        return self.encoded

    def _elements(self) -> list[Any]:
        if isinstance(self.state, ListState):
            return self.state.get()
        return [{"key": key, "value": value} for key, value in self.state.items()]

    def restore(self, elements: Iterable[Any]) -> None:
        if isinstance(self.state, ListState):
            self.state.update(elements)
        else:
            self.state.put_all({each["key"]: each["value"] for each in elements})


class OperatorStates:
    """The states of one subtask, which initially have the content `restored`."""

    def __init__(self, restored: Lists = (), *, is_restored: bool = False) -> None:
        self.restored = restored
        self.is_restored = is_restored
        self._registered: dict[str, _Registered] = {}
        self._is_complete = False

    @property
    def schema(self) -> tuple[OperatorStateSchema, ...]:
        return tuple(
            OperatorStateSchema(name=name, element=str(each.element), mode=each.mode)
            for name, each in self._registered.items()
        )

    def complete(self) -> None:
        self._is_complete = True

    def lists(self) -> Lists:
        return tuple(
            OperatorListState(name=name, mode=each.mode, elements=each.encode())
            for name, each in self._registered.items()
        )

    def get(
        self, descriptor: StateDescriptor, kind: type[StateDescriptor], mode: OperatorStateMode
    ) -> ListState[Any] | MapState[Any, Any]:
        """Return the state of a descriptor, which is registered if it is new. Raises the errors of
        `OperatorStateStore`.
        """
        if not isinstance(descriptor, kind):
            raise StateDescriptorError(f"{_GETTERS[mode]} takes a {kind.__name__}, not {descriptor!r}")
        if descriptor.ttl is not None:
            raise StateDescriptorError(f"operator state cannot have a time-to-live, but {descriptor!r} has one")
        there = self._registered.get(descriptor.name)
        if there is None:
            there = self._registered[descriptor.name] = self._new(descriptor, mode)
        elif there.mode is not mode or not there.state.descriptor.is_same_as(descriptor):
            raise StateDescriptorError(
                f"operator state {descriptor.name!r} is registered twice: by {_GETTERS[there.mode]} as"
                f" {there.state.descriptor} and by {_GETTERS[mode]} as {descriptor}; give one of them another name"
            )
        return there.state

    def _new(self, descriptor: StateDescriptor, mode: OperatorStateMode) -> _Registered:
        if self._is_complete:
            raise StateDescriptorError(
                f"operator state {descriptor.name!r} is registered too late: do it in initialize_state(context)"
            )
        restored = [each for each in self.restored if each.name == descriptor.name]
        for each in restored:
            if each.mode is not mode:
                raise StateDescriptorError(
                    f"operator state {descriptor.name!r} of the checkpoint was registered by {_GETTERS[each.mode]},"
                    f" but {_GETTERS[mode]} would redistribute it differently: give it another name, or register it as"
                    " before"
                )
        columns = StateColumns.empty(1, [descriptor.name])
        registered = _Registered(_bound(descriptor, columns), mode, columns)
        registered.restore(_element(data) for each in restored for data in each.elements)
        return registered


def _bound(descriptor: StateDescriptor, columns: StateColumns) -> ListState[Any] | MapState[Any, Any]:
    """Return a state whose current key is always the same: the subtask."""
    current = CurrentKey()
    state: ListState[Any] | MapState[Any, Any]
    if isinstance(descriptor, ListStateDescriptor):
        state = ListState(descriptor, current)
    else:
        assert isinstance(descriptor, MapStateDescriptor)
        state = MapState(descriptor, current)
    state.bind(columns)
    return state


def _element(data: bytes) -> Any:
    element = decode(data)
    assert isinstance(element, StateElement), f"an element of a function's state is a {type(element).__name__}"
    return from_bytes(element.data, column_type(element.type, "of a checkpoint"))
