"""Operator state of functions that work in Python workers, as these have left it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyspark.sql.types import BinaryType, StructField, StructType

from flykka.spark_bridge.functions.function_runner import KeyedFunctionRunner, ProcessFunctionRunner
from flykka.spark_bridge.functions.operator_states import Lists
from flykka.spark_bridge.operators.lists_at_barriers import ListsAtBarriers, restored_lists
from flykka.spark_bridge.worker.function_spec import OPERATOR_STATE, FunctionSpec, SubtaskState
from flykka.spark_bridge.worker.initialize_state import InitializeState

if TYPE_CHECKING:
    from flykka.messages.state.handles import OperatorSubtaskState
    from flykka.spark_bridge.operators.code import OperatorContext

R = TypeVar("R", KeyedFunctionRunner, ProcessFunctionRunner)
STATE_FIELD = StructField(OPERATOR_STATE, BinaryType())


class FunctionState(Generic[R]):
    """The operator state of a function that works in Python workers: a batch begins with that of the one before."""

    def __init__(self, context: OperatorContext, runner: type[R]) -> None:
        """`runner` is the class that runs the function."""
        self._context = context
        self._runner: type[R] = runner
        self._state = SubtaskState(is_restored=context.descriptor.restored_checkpoint_id is not None)
        self.at_barriers = ListsAtBarriers(context.operator_id)

    @property
    def lists(self) -> Lists:
        return self._state.lists

    def of(self, spec: FunctionSpec) -> FunctionSpec:
        """The function with its state, for the next batch."""
        return replace(spec, operator_state=self._state)

    def restore(self, states: Sequence[OperatorSubtaskState]) -> None:
        """Begin with the lists of a checkpoint."""
        self._state = replace(self._state, lists=restored_lists(states))

    def initialize(self, spec: FunctionSpec) -> None:
        """Let the function take its state, in a worker. A checkpoint may come before the first row does.

        Raises:
            OperatorFailedError: the function has raised, or asks for other state than the checkpoint has.
        """
        with self._context.naming_failures("initializing the state of operator"):
            rows = self._context.scope.session.range(1).coalesce(1)
            made = rows.mapInArrow(InitializeState(spec=self.of(spec), runner=self._runner), StructType([STATE_FIELD]))
            (row,) = made.collect()
            self.take(row.asDict())

    def take(self, numbers: Mapping[str, Any]) -> None:
        """Go on with the state that a worker has given back."""
        self._state = SubtaskState(lists=pickle.loads(numbers[OPERATOR_STATE]), is_restored=True)
