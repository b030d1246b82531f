"""Operators without state: functions of a batch, the local part of aggregates, and what reads a side output."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flykka.spark_bridge.errors import OperatorFailedError
from flykka.spark_bridge.operators.operator import Element, Operator, Output
from flykka.spark_bridge.program.applied import applied
from flykka.spark_bridge.program.rich_function import RichFunction, RuntimeContext
from flykka.spark_bridge.rows.materialise import Slices

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.messages.wire.ids import OperatorId
    from flykka.spark_bridge.operators.chain import OperatorContext
    from flykka.spark_bridge.program.code import AggregateCode


class TransformOperator(Operator[Slices]):
    """Applies a function to each slice."""

    def __init__(self, context: OperatorContext, function: Callable[[DataFrame], DataFrame]) -> None:
        super().__init__(context.operator_id)
        self._function = function
        self._registry = context.services.registry
        self._uid = context.link.uid

    def process(self, element: Element[Slices]) -> Output[Slices]:
        """What the function makes of the rows. Raises `OperatorFailedError`."""
        try:
            return Output(rows=tuple(applied(self._function, rows) for rows in element.rows))
        except (Exception, SystemExit) as raised:
            raise self.failed("") from raised

    def failed(self, doing: str) -> OperatorFailedError:
        """The error that names the operator, and what it was `doing` (empty: processing)."""
        what = f"{doing} operator {self._registry.describe(self._uid)}".lstrip()
        return OperatorFailedError(what, self._registry.written(self._uid))


class RichFunctionOperator(TransformOperator):
    """A function that is opened and closed, and is called for one batch after the other."""

    def __init__(self, context: OperatorContext, function: RichFunction) -> None:
        super().__init__(context, function)
        self._rich = function
        vertex = context.descriptor.vertex
        self._context = RuntimeContext(
            uid=context.link.uid,
            task_name=vertex.name,
            session=context.scope.session,
            job_id=context.descriptor.job_id,
            index_of_this_subtask=context.descriptor.subtask,
            number_of_parallel_subtasks=vertex.parallelism,
            max_number_of_parallel_subtasks=vertex.max_parallelism,
            attempt_number=context.descriptor.attempt_number,
            _accumulators=context.accumulators,
        )

    @property
    def is_ordered(self) -> bool:
        """A rich function may keep something from batch to batch."""
        return True

    def open(self) -> None:
        """Open the function. Raises `OperatorFailedError`."""
        try:
            self._rich.open(self._context)
        except (Exception, SystemExit) as raised:
            raise self.failed("opening") from raised

    def close(self) -> None:
        """Close the function. Raises `OperatorFailedError`."""
        try:
            self._rich.close()
        except (Exception, SystemExit) as raised:
            raise self.failed("closing") from raised


class LocalAggregateOperator(Operator[Slices]):
    """Makes state of rows before the exchange, slice by slice."""

    def __init__(self, operator_id: OperatorId, aggregates: AggregateCode) -> None:
        super().__init__(operator_id)
        self._aggregates = aggregates

    def process(self, element: Element[Slices]) -> Output[Slices]:
        """The state of each slice."""
        return Output(rows=tuple(self._aggregates.local_state(rows) for rows in element.rows))


class LateRowsOperator(Operator[Slices]):
    """Passes on the rows of a side output."""

    def process(self, element: Element[Slices]) -> Output[Slices]:
        """The rows as they are."""
        return Output(rows=element.rows)
