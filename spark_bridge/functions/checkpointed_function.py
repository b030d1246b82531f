"""Functions with state of their subtask, by Flink's names: CheckpointedFunction and its OperatorStateStore."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import Any, cast

from flykka.messages.state.handles import OperatorStateMode, OperatorStateSchema
from flykka.spark_bridge.functions.operator_states import Lists, OperatorStates
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


class FunctionInitializationContext:
    """Given to `initialize_state`: the state of the subtask, as a checkpoint or an earlier batch has left it."""

    def __init__(self, states: OperatorStates) -> None:
        self._states = states

    def is_restored(self) -> bool:
        """True if there was state before: the job goes on from a checkpoint, or the function from an earlier batch."""
        return self._states.is_restored

    def get_operator_state_store(self) -> OperatorStateStore:
        """Return what has the states of the subtask by name."""
        return OperatorStateStore(self._states)


class FunctionSnapshotContext:
    """Given to `snapshot_state`."""

    def __init__(self, checkpoint_id: int | None) -> None:
        self._checkpoint_id = checkpoint_id

    def get_checkpoint_id(self) -> int | None:
        """Return the checkpoint that the state is for; None behind a batch, for whichever checkpoint comes next."""
        return self._checkpoint_id


class CheckpointedFunction(ABC):
    """Keeps state of a subtask, whatever the keys of its rows: a base beside that of the function.

    `initialize_state` comes before `open`. A function of rows works in Spark's Python workers, and each of its batches
    may come to another one. So there `snapshot_state` is called behind every batch, and `initialize_state` wherever a
    copy of the function has to begin with what another has left; a subtask has one copy at work at a time. For a
    `RichFunction`, which works in the driver, they are called as in Flink: once when an attempt begins, and at each
    checkpoint.
    """

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Register states, and take from them what the function keeps in itself."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Write to the states what the function keeps in itself; nothing, where it works on them directly."""


def initialize_state(function: object, states: OperatorStates) -> None:
    """Let a function register its states, where it is a `CheckpointedFunction`; for operators."""
    if isinstance(function, CheckpointedFunction):
        function.initialize_state(FunctionInitializationContext(states))
        states.complete()


def snapshot_state(function: object, states: OperatorStates, checkpoint_id: int | None = None) -> Lists:
    """Return what a checkpoint is to hold of a function's states: nothing where it is none; for operators."""
    if isinstance(function, CheckpointedFunction):
        function.snapshot_state(FunctionSnapshotContext(checkpoint_id))
    return states.lists()


def operator_state_of(function: object) -> tuple[OperatorStateSchema, ...]:
    """The states that a function registers for its subtask, of which a copy is asked. What it raises is passed on."""
    states = OperatorStates()
    initialize_state(copy(function), states)
    return states.schema
