"""Assigns event times in the middle of a stream (Flink's TimestampsAndWatermarksOperator): the part of the data plane.

Rows pass unchanged. Their event times are observed before all operators of the chain, like those of a source, and the
Task actor creates watermarks from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.operators.code import OperatorCode
from flykka.spark_bridge.operators.operator import Element, Operator, Output
from flykka.spark_bridge.operators.source_reader import SourceNumbers, observed_rows
from flykka.spark_bridge.program.event_time import times_of_watermarks
from flykka.spark_bridge.rows.materialise import Slices

if TYPE_CHECKING:
    from pyspark.sql import Column

    from flykka.spark_bridge.functions.event_time import EventTime
    from flykka.spark_bridge.operators.code import OperatorContext


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampsAndWatermarksCode(OperatorCode):
    """Creates watermarks from the rows that it reads. `watches_order` and `punctuation` have the same meaning as in
    `SourceCode`.

    Without `event_time` it creates no watermarks.
    """

    kind = OperatorKind.TIMESTAMPS_AND_WATERMARKS
    is_head = True
    is_computed = True

    event_time: EventTime | None
    watches_order: bool = False
    punctuation: Column | str | None = None

    def needs_order(self, *, readers_do: bool) -> bool:
        return readers_do

    @property
    def fingerprint(self) -> str:
        return "timestamps_and_watermarks"

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        return TimestampsAndWatermarksOperator(context, self)


class TimestampsAndWatermarksOperator(Operator[Slices]):
    def __init__(self, context: OperatorContext, code: TimestampsAndWatermarksCode) -> None:
        super().__init__(context.operator_id)
        self._code = code

    def process_batch(self, element: Element[Slices]) -> Output[Slices]:
        """Return the rows unchanged. Their event times are known once they have been computed."""
        code = self._code
        if code.event_time is None:
            return Output(rows=element.rows)
        aggregates = times_of_watermarks(code.event_time, code.punctuation, watches_order=code.watches_order)
        read = observed_rows(element.rows, aggregates, SourceNumbers(rows=0, event_time_max=None))

        def event_times() -> tuple[int | None, int | None]:
            numbers = read.numbers()
            return numbers.event_time_min, numbers.event_time_max

        return Output(rows=read.slices, event_times=event_times)
