"""Operators of functions with operator state: with keys and without (Flink's AbstractUdfStreamOperator).

A subtask has one copy of the function at work: its rows are one partition of Spark's, and its batches come one after
the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flykka.spark_bridge.functions.function_runner import KeyedFunctionRunner, ProcessFunctionRunner
from flykka.spark_bridge.operators.function_state import STATE_FIELD, FunctionState
from flykka.spark_bridge.operators.keyed_process import KeyedProcessOperator
from flykka.spark_bridge.operators.operator import OperatorSnapshot, Output
from flykka.spark_bridge.operators.process import ProcessOperator, WorkOfFunction
from flykka.spark_bridge.rows.materialise import Slices
from flykka.spark_bridge.state.segment_files import StateRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.messages.state.handles import OperatorSubtaskState
    from flykka.messages.tasks.operator_event import AggregateResult
    from flykka.spark_bridge.operators.bound_chain import OperatorContext
    from flykka.spark_bridge.operators.process_code import ProcessCode
    from flykka.spark_bridge.operators.spark_keyed_batches import SparkKeyedFunction


class CheckpointedProcessOperator(ProcessOperator):
    """A function without keys."""

    keeps_state = True
    told_in = (STATE_FIELD,)

    def __init__(self, context: OperatorContext, code: ProcessCode) -> None:
        super().__init__(context, code)
        self._state = FunctionState(context, ProcessFunctionRunner)

    @property
    def is_ordered(self) -> bool:
        """True: a batch begins with the state that the batch before it has left."""
        return True

    def restore(self, states: Sequence[OperatorSubtaskState]) -> None:
        self._state.restore(states)

    def open(self) -> None:
        """Let the function take its state. Raises `OperatorFailedError`."""
        self._state.initialize(self.spec)

    def snapshot_state(self, checkpoint_id: int, *, everything: bool) -> None:
        """Note the state behind the last batch."""
        self._state.at_barriers.note(checkpoint_id, self._state.lists)

    def write_snapshot(self, checkpoint_id: int, savepoint: str | None) -> OperatorSnapshot:
        return self._state.at_barriers.write(checkpoint_id)

    def discard_snapshot(self, checkpoint_id: int) -> None:
        self._state.at_barriers.discard(checkpoint_id)

    def on_told(self, numbers: Mapping[str, Any]) -> None:
        """Go on with the state that the worker has given back."""
        self._state.take(numbers)

    def _emitted(self, rows: DataFrame, work: WorkOfFunction, name: str) -> Output[Slices]:
        return super()._emitted(rows.coalesce(1), replace(work, spec=self._state.of(work.spec)), name)


class SparkKeyedProcessOperator(KeyedProcessOperator[Slices, StateRows]):
    """A function with keys, which may have a coordinator."""

    def __init__(self, context: OperatorContext, function: SparkKeyedFunction) -> None:
        super().__init__(context.operator_id, function, function.backend)
        self._spark_function = function

    def handle_operator_events(
        self, events: tuple[bytes, ...], watermark_ms: int, processing_time_ms: int
    ) -> Output[Slices]:
        """Let the function handle events of its coordinator; keyed state has no part in it."""
        return self._spark_function.handled(events, watermark_ms, processing_time_ms)

    def note_aggregates(self, results: tuple[AggregateResult, ...]) -> None:
        self._spark_function.sends.note_aggregates(results)


class CheckpointedKeyedProcessOperator(SparkKeyedProcessOperator):
    """A function with keys, whose keyed state is beside that of the subtask."""

    def __init__(
        self, context: OperatorContext, function: SparkKeyedFunction, state: FunctionState[KeyedFunctionRunner]
    ) -> None:
        super().__init__(context, function)
        self._state = state

    def restore(self, states: Sequence[OperatorSubtaskState]) -> None:
        super().restore(states)
        self._state.restore(states)

    def open(self) -> None:
        """Let the function take its state. Raises `OperatorFailedError`."""
        self._state.initialize(self._spark_function.spec)

    def snapshot_state(self, checkpoint_id: int, *, everything: bool) -> None:
        super().snapshot_state(checkpoint_id, everything=everything)
        self._state.at_barriers.note(checkpoint_id, self._state.lists)

    def write_snapshot(self, checkpoint_id: int, savepoint: str | None) -> OperatorSnapshot:
        lists, keyed = self._state.at_barriers.write(checkpoint_id), super().write_snapshot(checkpoint_id, savepoint)
        return OperatorSnapshot(
            state=replace(keyed.state, operator_state=lists.state.operator_state),
            incremental_bytes=keyed.incremental_bytes + lists.incremental_bytes,
        )

    def discard_snapshot(self, checkpoint_id: int) -> None:
        super().discard_snapshot(checkpoint_id)
        self._state.at_barriers.discard(checkpoint_id)
