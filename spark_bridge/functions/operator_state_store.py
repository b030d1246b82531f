"""The states of a subtask by name, by Flink's names: the OperatorStateStore."""

from __future__ import annotations

from typing import Any, cast

from flykka.messages.state.handles import OperatorStateMode
from flykka.spark_bridge.functions.operator_states import OperatorStates
from flykka.spark_bridge.functions.state import ListState, MapState
from flykka.spark_bridge.functions.state_descriptors import ListStateDescriptor, MapStateDescriptor


class OperatorStateStore:
    """States of a subtask; they differ in what becomes of them where the parallelism changes.

    All raise `StateDescriptorError` for a descriptor of another kind or with a time-to-live, for a name that another
    state has, and when `initialize_state` is over; `StateValueError` where what a checkpoint holds is of a type that
    does not fit.
    """

    def __init__(self, states: OperatorStates) -> None:
        self._states = states

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a list whose elements are divided among the subtasks: each goes to one of them."""
        return self._list(state_descriptor, OperatorStateMode.SPLIT_DISTRIBUTE)

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a list of which every subtask gets the elements of all, whenever a job goes on from a checkpoint."""
        return self._list(state_descriptor, OperatorStateMode.UNION)

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return a map that is the same in all subtasks: a new one gets that of another."""
        state = self._states.get(state_descriptor, MapStateDescriptor, OperatorStateMode.BROADCAST)
        return cast("MapState[Any, Any]", state)

    def _list(self, descriptor: ListStateDescriptor, mode: OperatorStateMode) -> ListState[Any]:
        return cast("ListState[Any]", self._states.get(descriptor, ListStateDescriptor, mode))
