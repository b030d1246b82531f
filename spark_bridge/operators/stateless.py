"""Operators without state: functions of a batch, the local part of aggregates, and what reads a side output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from flykka.spark_bridge.operators.operator import Element, Operator, Output
from flykka.spark_bridge.program.accumulated_metrics import AccumulatedMetricGroup
from flykka.spark_bridge.program.applied import applied
from flykka.spark_bridge.program.rich_function import RichFunction, RuntimeContext
from flykka.spark_bridge.program.stored_columns import ROWS
from flykka.spark_bridge.rows.materialise import Slices, counted, is_complete, numbers_of

if TYPE_CHECKING:
    from pyspark.sql import Observation

    from flykka.spark_bridge.operators.bound_chain import OperatorContext
    from flykka.spark_bridge.operators.code import LocalAggregateCode, TransformCode
    from flykka.spark_bridge.operators.side_output_code import SideOutputCode

_HARDLY_FEWER = 0.6
_UNTIL_NEXT_TRY = 32


class TransformOperator(Operator[Slices]):
    """Applies a function to each slice. A rich one is opened, closed, and called for one batch after the other."""

    def __init__(self, context: OperatorContext, code: TransformCode) -> None:
        super().__init__(context.operator_id)
        self.context = context
        self.function = code.function
        self._metrics = AccumulatedMetricGroup(context.accumulator_of_metric)

    @property
    def is_ordered(self) -> bool:
        """A rich function may keep something from batch to batch."""
        return isinstance(self.function, RichFunction)

    def open(self) -> None:
        """Open a rich function. Raises `OperatorFailedError`."""
        if isinstance(self.function, RichFunction):
            with self.context.naming_failures("opening operator"):
                self.function.open(self._runtime_context())

    def process_batch(self, element: Element[Slices]) -> Output[Slices]:
        """Apply the function to the rows. Raises `OperatorFailedError`."""
        with self.context.naming_failures():
            output = Output(rows=tuple(applied(self.function, rows) for rows in element.rows))
            self._metrics.read_gauges()
            return output

    def close(self) -> None:
        """Close a rich function. Raises `OperatorFailedError`."""
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
    """Makes state of rows before the exchange, slice by slice.

    Where hardly two rows of a batch have the same key, the next ones are not aggregated; then it is tried again.
    """

    def __init__(self, context: OperatorContext, code: LocalAggregateCode) -> None:
        super().__init__(context.operator_id)
        self._aggregates = code.of
        self._batches_unaggregated = 0

    def process_batch(self, element: Element[Slices]) -> Output[Slices]:
        aggregates = self._aggregates
        if not aggregates.may_come_unaggregated:
            return Output(rows=tuple(aggregates.local_state(rows) for rows in element.rows))
        if self._batches_unaggregated:
            self._batches_unaggregated -= 1
            return Output(rows=tuple(aggregates.state_row_by_row(rows) for rows in element.rows))
        observed = [counted(aggregates.local_state(rows), {ROWS: F.sum(ROWS)}) for rows in element.rows]
        return Output(
            rows=tuple(rows for _, rows in observed),
            on_emitted=lambda: self._note([observation for observation, _ in observed]),
        )

    def _note(self, observations: list[Observation]) -> None:
        numbers = [numbers_of(observation) for observation in observations if is_complete(observation)]
        made = sum(int(each.get("rows") or 0) for each in numbers)
        if made > _HARDLY_FEWER * sum(int(each.get(ROWS) or 0) for each in numbers):
            self._batches_unaggregated = _UNTIL_NEXT_TRY


class SideOutputOperator(Operator[Slices]):
    """Passes on the rows of a side output."""

    def __init__(self, context: OperatorContext, code: SideOutputCode) -> None:
        super().__init__(context.operator_id)

    def process_batch(self, element: Element[Slices]) -> Output[Slices]:
        return Output(rows=element.rows)
