"""Functions of each row without keys (Flink's ProcessOperator)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.spark_bridge.functions.function_runner import ProcessFunctionRunner
from flykka.spark_bridge.operators.emitted_rows import computed_by_reader, computed_once, emitted_type
from flykka.spark_bridge.operators.function_sends import FunctionSends
from flykka.spark_bridge.operators.function_specs import function_spec
from flykka.spark_bridge.operators.operator import Element, Operator, Output
from flykka.spark_bridge.rows.exact_names import exactly_named
from flykka.spark_bridge.rows.materialise import Slices, together
from flykka.spark_bridge.worker.process_rows import HandleOperatorEvents, ProcessRows, TellWatermark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.messages.tasks.operator_event import AggregateResult
    from flykka.spark_bridge.operators.bound_chain import OperatorContext
    from flykka.spark_bridge.operators.process_code import ProcessCode

WorkOfFunction = ProcessRows | TellWatermark | HandleOperatorEvents[ProcessFunctionRunner]
"""Calls of a function in a worker."""


class ProcessOperator(Operator[Slices]):
    """A function without keys, called for the rows of each of Spark's partitions in their order."""

    told_in: ClassVar[tuple[StructField, ...]] = ()
    """Columns in which workers tell more than the rows that the function emits."""

    def __init__(self, context: OperatorContext, code: ProcessCode) -> None:
        super().__init__(context.operator_id)
        self._context = context
        self._side = code.side
        self._sends = FunctionSends(context)
        self.spec = function_spec(context, code)
        self._emitted_type = emitted_type(code.emitted, code.side, self.told_in)

    def process_batch(self, element: Element[Slices]) -> Output[Slices]:
        """Call the function for every row of a batch."""
        work = ProcessRows(
            spec=self._sends.begin(self.spec),
            watermark_ms=element.watermark_ms,
            processing_time_ms=element.processing_time_ms,
        )
        rows = together(element.rows).select(*map(quoted, self.spec.inputs.columns))
        return self._emitted(rows, work, f"stage-{element.stage}")

    def advance_watermark(self, watermark_ms: int, processing_time_ms: int) -> Output[Slices]:
        """Tell a function of the watermark that wants to know."""
        if watermark_ms == WATERMARK_MIN or not self.spec.sees_watermarks:
            return Output()
        work = TellWatermark(
            spec=self._sends.begin(self.spec), watermark_ms=watermark_ms, processing_time_ms=processing_time_ms
        )
        return self._emitted(self._context.scope.session.range(1), work, f"watermark-{watermark_ms}")

    def handle_operator_events(
        self, events: tuple[bytes, ...], watermark_ms: int, processing_time_ms: int
    ) -> Output[Slices]:
        spec = self._sends.begin(self.spec)
        assert spec.call is not None, "events are handled in a call"
        work = HandleOperatorEvents(
            spec=spec,
            runner=ProcessFunctionRunner,
            events=events,
            watermark_ms=watermark_ms,
            processing_time_ms=processing_time_ms,
        )
        return self._emitted(self._context.scope.session.range(1), work, f"events-{spec.call.number}")

    def note_aggregates(self, results: tuple[AggregateResult, ...]) -> None:
        self._sends.note_aggregates(results)

    def on_told(self, numbers: Mapping[str, Any]) -> None:
        """Take what workers have told, when all rows are emitted."""

    def _emitted(self, rows: DataFrame, work: WorkOfFunction, name: str) -> Output[Slices]:
        processed = exactly_named(rows).mapInArrow(work, self._emitted_type)
        names = [field.name for field in self.told_in]
        wanted = {name: F.max(name) for name in names}
        emitted = (
            computed_once(self._context, processed, f"{self._context.descriptor.attempt}/{name}", wanted)
            if self._side
            else computed_by_reader(processed, wanted)
        )
        main, side = emitted.parted(self._side, others=names)
        return Output(
            rows=(main,),
            side=side,
            on_emitted=lambda: self.on_told(emitted.numbers()),
            sent=lambda: self._sends.take(work.spec),
        )
