"""Operators without keyed state: functions of a batch, the local part of aggregates, and readers of a side output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql import functions as F

from flykka.actors.machines.state.schema_evolution import operator_state_text
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.state.handles import OperatorStateSchema, StateSchema
from flykka.spark_bridge.functions.checkpointed_function import initialize_state, snapshot_state
from flykka.spark_bridge.functions.operator_states import OperatorStates
from flykka.spark_bridge.operators.code import LocalCode, OperatorCode
from flykka.spark_bridge.operators.operator import (
    Element,
    ListsAtBarriers,
    MapOperator,
    Operator,
    OperatorSnapshot,
    Output,
    restored_lists,
)
from flykka.spark_bridge.program.accumulated_metrics import AccumulatedMetricGroup
from flykka.spark_bridge.program.applied import applied
from flykka.spark_bridge.program.rich_function import RichFunction, RuntimeContext
from flykka.spark_bridge.program.stored_columns import ROWS
from flykka.spark_bridge.rows.local_rows import are_local
from flykka.spark_bridge.rows.materialise import Slices, counted, is_complete, numbers_of
from flykka.spark_bridge.rows.prepared import Prepared, is_of_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

    from flykka.messages.state.handles import OperatorSubtaskState
    from flykka.spark_bridge.operators.code import AggregateCode, OperatorContext

_HARDLY_FEWER = 0.6
_UNTIL_NEXT_TRY = 32


def unchanged(rows: DataFrame) -> DataFrame:
    """Return the rows unchanged, for a side output or a cached stream."""
    return rows


class TransformOperator(Operator[Slices]):
    """Applies a function to each slice. A rich function is opened and closed, and called for one batch at a time."""

    def __init__(self, context: OperatorContext, code: TransformCode) -> None:
        super().__init__(context.operator_id)
        self.context = context
        self.function = code.function
        self._applied = Prepared(code.function) if is_of_columns(code.function) else code.function
        self._metrics = AccumulatedMetricGroup(context.accumulator_of_metric)

    @property
    def is_ordered(self) -> bool:
        """A rich function may keep attributes from batch to batch."""
        return isinstance(self.function, RichFunction)

    def open(self) -> None:
        if isinstance(self.function, RichFunction):
            with self.context.naming_failures("opening operator"):
                self.function.open(self._runtime_context())

    def process_batch(self, element: Element[Slices]) -> Output[Slices]:
        with self.context.naming_failures():
            output = Output(rows=tuple(applied(self._applied, rows) for rows in element.rows))
            self._metrics.read_gauges()
            return output

    def close(self) -> None:
        if isinstance(self.function, RichFunction):
            with self.context.naming_failures("closing operator"):
                self.function.close()

    def _runtime_context(self) -> RuntimeContext:
        descriptor = self.context.descriptor
        vertex = descriptor.vertex
        return RuntimeContext(
            uid=self.context.link.uid,
            task_name=vertex.name,
            session=self.context.scope.session,
            job_id=descriptor.job_id,
            index_of_this_subtask=descriptor.subtask,
            number_of_parallel_subtasks=vertex.parallelism,
            max_number_of_parallel_subtasks=vertex.max_parallelism,
            attempt_number=descriptor.attempt_number,
            _accumulators=self.context.accumulators,
            _metrics=self._metrics,
            _resources=self.context.resources,
        )


class LocalAggregateOperator(Operator[Slices]):
    """Aggregates rows into state before the exchange, slice by slice.

    If hardly any two rows of a batch have the same key, the next few batches are not aggregated. Then it tries again.
    """

    def __init__(self, context: OperatorContext, code: LocalAggregateCode) -> None:
        super().__init__(context.operator_id)
        self._aggregates = code.of
        self._local_state = Prepared(code.of.local_state)
        self._row_by_row = Prepared(code.of.state_row_by_row)
        self._batches_unaggregated = 0

    def process_batch(self, element: Element[Slices]) -> Output[Slices]:
        aggregates = self._aggregates
        if not aggregates.may_come_unaggregated:
            return Output(rows=tuple(map(self._local_state, element.rows)))
        if all(map(are_local, element.rows)):
            # Aggregating takes a job, and the operator that reads them aggregates them anyway.
            return Output(rows=tuple(map(self._row_by_row, element.rows)))
        if self._batches_unaggregated:
            self._batches_unaggregated -= 1
            return Output(rows=tuple(map(self._row_by_row, element.rows)))
        observed = [counted(self._local_state(rows), {ROWS: F.sum(ROWS)}) for rows in element.rows]
        return Output(
            rows=tuple(rows for _, rows in observed),
            on_emitted=lambda: self._record_counts([observation for observation, _ in observed]),
        )

    def _record_counts(self, observations: list[Observation]) -> None:
        numbers = [numbers_of(observation) for observation in observations if is_complete(observation)]
        state_rows = sum(int(each.get("rows") or 0) for each in numbers)
        if state_rows > _HARDLY_FEWER * sum(int(each.get(ROWS) or 0) for each in numbers):
            self._batches_unaggregated = _UNTIL_NEXT_TRY


class CheckpointedTransformOperator(TransformOperator):
    """The operator of a rich function with operator state, which runs in the driver like Flink's functions in a task.

    It initializes the function's state before it opens the function, and takes a snapshot of the state at each barrier.
    """

    keeps_state: ClassVar[bool] = True

    def __init__(self, context: OperatorContext, code: TransformCode) -> None:
        super().__init__(context, code)
        self._states = OperatorStates()
        self._at_barriers = ListsAtBarriers(context.operator_id)

    def restore(self, states: Sequence[OperatorSubtaskState]) -> None:
        is_restored = self.context.descriptor.restored_checkpoint_id is not None
        self._states = OperatorStates(restored_lists(states), is_restored=is_restored)

    def open(self) -> None:
        with self.context.naming_failures("initializing the state of operator"):
            initialize_state(self.function, self._states)
        super().open()

    def snapshot_state(self, checkpoint_id: int, *, everything: bool) -> None:
        with self.context.naming_failures("snapshotting the state of operator"):
            self._at_barriers.record(checkpoint_id, snapshot_state(self.function, self._states, checkpoint_id))

    def write_snapshot(self, checkpoint_id: int, savepoint: str | None) -> OperatorSnapshot:
        return self._at_barriers.write(checkpoint_id)

    def discard_snapshot(self, checkpoint_id: int) -> None:
        self._at_barriers.discard(checkpoint_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformCode(OperatorCode):
    """A function of batches. It has no state, except the `operator_state` of a rich function."""

    kind = OperatorKind.STATELESS
    is_computed = True

    function: Callable[[DataFrame], DataFrame]
    operator_state: tuple[OperatorStateSchema, ...] = ()

    def needs_order(self, *, readers_do: bool) -> bool:
        return readers_do or isinstance(self.function, RichFunction)

    @property
    def state_schema(self) -> StateSchema | None:
        return StateSchema(operator_state=self.operator_state) if self.operator_state else None

    @property
    def fingerprint(self) -> str:
        """The operator state. A function without operator state may be replaced by another function."""
        return f"transform({operator_state_text(self.operator_state)})" if self.operator_state else "transform"

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        return (CheckpointedTransformOperator if self.operator_state else TransformOperator)(context, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalAggregateCode(LocalCode):
    kind = OperatorKind.STATELESS
    is_computed = True
    aggregates_slices = True

    of: AggregateCode

    @property
    def local_kind(self) -> OperatorKind:
        return self.of.local_kind

    @property
    def is_stored_by_reader(self) -> bool:
        return not self.of.kind.coalesces

    @property
    def fingerprint(self) -> str:
        return f"local_{self.of.fingerprint}"

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        return LocalAggregateOperator(context, self)

    def batch_times(self, rows: DataFrame, event_time: str | None) -> Mapping[str, Column]:
        return self.of.state_times()


@dataclass(frozen=True, slots=True, kw_only=True)
class SideOutputCode(OperatorCode):
    """Forwards the rows of a side output of the operator to which it is chained."""

    kind = OperatorKind.STATELESS

    tag: str

    def needs_order(self, *, readers_do: bool) -> bool:
        return readers_do

    @property
    def reads_side_output(self) -> str:
        return self.tag

    @property
    def fingerprint(self) -> str:
        return "side_output"

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        return MapOperator(context.operator_id, unchanged)
