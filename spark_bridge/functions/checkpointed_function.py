"""Functions with operator state, with Flink's names: CheckpointedFunction and its OperatorStateStore."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import Any, cast

from flykka.messages.state.handles import OperatorStateMode, OperatorStateSchema
from flykka.spark_bridge.functions.operator_states import Lists, OperatorStates
from flykka.spark_bridge.functions.state import ListState, MapState
from flykka.spark_bridge.functions.state_descriptors import ListStateDescriptor, MapStateDescriptor


class OperatorStateStore:
    """The operator states of a subtask. Their types differ in how states are redistributed if the parallelism changes.

    All methods raise `StateDescriptorError` for a descriptor of another type or with a time-to-live, for a name that
    another state has, and after `initialize_state`. They raise `StateValueError` if a checkpoint's state has another
    type.
    """

    def __init__(self, states: OperatorStates) -> None:
        self._states = states

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a list whose elements are divided among the subtasks: each element goes to one subtask."""
        return self._list(state_descriptor, OperatorStateMode.SPLIT_DISTRIBUTE)

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a list that every subtask restores with the elements of all subtasks."""
        return self._list(state_descriptor, OperatorStateMode.UNION)

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return a map that is the same in all subtasks: a new subtask gets a copy from another subtask."""
        state = self._states.get(state_descriptor, MapStateDescriptor, OperatorStateMode.BROADCAST)
        return cast("MapState[Any, Any]", state)

    def _list(self, descriptor: ListStateDescriptor, mode: OperatorStateMode) -> ListState[Any]:
        return cast("ListState[Any]", self._states.get(descriptor, ListStateDescriptor, mode))


class FunctionInitializationContext:
    """The argument of `initialize_state`: the state of the subtask after a checkpoint or an earlier batch."""

    def __init__(self, states: OperatorStates) -> None:
        self._states = states

    def is_restored(self) -> bool:
        """True if there is earlier state, from a checkpoint or an earlier batch."""
        return self._states.is_restored

    def get_operator_state_store(self) -> OperatorStateStore:
        """Return the store of the subtask's states."""
        return OperatorStateStore(self._states)


class FunctionSnapshotContext:
    """The argument of `snapshot_state`."""

    def __init__(self, checkpoint_id: int | None) -> None:
        self._checkpoint_id = checkpoint_id

    def get_checkpoint_id(self) -> int | None:
        """Return the id of the snapshot's checkpoint; None after a batch, for the next checkpoint, whatever its id."""
        return self._checkpoint_id


class CheckpointedFunction(ABC):
    """Mixin for functions with operator state: state of a subtask, independent of the keys of its rows.

    `initialize_state` is called before `open`. A function of rows runs in Spark's Python workers, and each of its
    batches may go to another worker. So `snapshot_state` is called after every batch, and `initialize_state` whenever a
    copy of the function continues the work of another copy. Only one copy per subtask runs at a time. A `RichFunction`
    runs in the driver, where they are called as in Flink: once when an attempt begins, and at each checkpoint.
    """

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Register states, and restore the function's attributes from these states."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Write the function's attributes to the states. Not needed if the function only uses the states directly."""


def initialize_state(function: object, states: OperatorStates) -> None:
    """Call `initialize_state` if the function is a `CheckpointedFunction`. Used by operators."""
    if isinstance(function, CheckpointedFunction):
        function.initialize_state(FunctionInitializationContext(states))
        states.complete()


def snapshot_state(function: object, states: OperatorStates, checkpoint_id: int | None = None) -> Lists:
    """Return the content of a function's states for a checkpoint; empty for other functions. Used by operators."""
    if isinstance(function, CheckpointedFunction):
        function.snapshot_state(FunctionSnapshotContext(checkpoint_id))
    return states.lists()


def operator_state_of(function: object) -> tuple[OperatorStateSchema, ...]:
    """Return the operator states that a copy of a function registers. Passes on exceptions of the function."""
    states = OperatorStates()
    initialize_state(copy(function), states)
    return states.schema
