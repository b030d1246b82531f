"""The verb of windows that gives all their rows to a function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from flykka.api.streams.side_outputs import LateData
from flykka.spark_bridge.functions.event_time import OF_WINDOWS

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.api.streams.program import Program
    from flykka.api.streams.stream_type import StreamType
    from flykka.api.streams.transformation import Transformation
    from flykka.api.streams.window_aggregation import WindowAggregation
    from flykka.spark_bridge.program.prototype import DataFrame


class WindowFunctions(ABC):
    """Rows that are cut into windows, with keys or without."""

    def __init__(self, program: Program, row_type: StreamType, aggregation: WindowAggregation) -> None:
        self._program = program
        self._type = row_type
        self._aggregation = aggregation

    @abstractmethod
    def _emitted(self, made: Transformation, row_type: StreamType, late_data: LateData | None) -> DataStream:
        """The stream of what an operator of windows emits, with the side output for rows that come too late."""

    def apply(self, function: Callable[[DataFrame], DataFrame]) -> DataStream:
        """Give all rows of the windows that fire to a function, as one DataFrame: rows in, rows out.

        The DataFrame has `window_start` and `window_end`, then all columns of the rows; a row is in it once for each of
        its windows. So the three best of each hour are

            best_first = Window.partitionBy("window_start", "window_end").orderBy(F.desc("price"))
            best = bids.window_all(TumblingEventTimeWindows.of("1h")).apply(
                lambda rows: rows.withColumn("place", F.row_number().over(best_first)).where("place <= 3")
            )

        How many windows fire together depends on how the rows came in, and of a keyed stream a subtask has the rows of
        its keys alone. So the function must group or partition by `window_start` or `window_end`, and behind `key_by`
        by the keys too; one that Spark's plan shows to do otherwise is refused. Columns of the rows that are called
        like the bounds of windows give way to them: to keep them, rename them first. The result has the event time of
        its windows while `window_end` is in it. All columns of all rows are kept until their windows fire: what the
        function does not need is best dropped before.

        Raises:
            StreamTypeError: the function does not fit the rows, returns no DataFrame, is none of DataFrames, or
                computes something of several windows or keys together.
        """
        return self._results(*self._aggregation.add_function(self._program, function))

    def _results(self, made: Transformation, prototype: DataFrame) -> DataStream:
        tag = self._aggregation.late_data_tag
        late_data = None if tag is None else LateData(made, tag, self._type)
        return self._emitted(made, replace(self._type, event_time=OF_WINDOWS).of_rows(prototype), late_data)
