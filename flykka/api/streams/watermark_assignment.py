"""Event time that is assigned in the middle of a stream, by Flink's name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING

from flykka.actors.machines.job_graph.stream_graph import ChainingStrategy
from flykka.api.streams.program import tried
from flykka.api.streams.transformation import Transformation, origins
from flykka.api.streams.watermark_strategy import WatermarkStrategy, checked_strategy, set_watermarks, watches_order
from flykka.errors import ProgramError, StreamTypeError
from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.functions.event_time import EventTime
from flykka.spark_bridge.operators.timestamps import TimestampsAndWatermarksCode
from flykka.spark_bridge.program.prototype import check_condition, event_time_column

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.api.streams.program import Program
    from flykka.api.streams.side_outputs import SideOutputs
    from flykka.api.streams.stream_type import StreamType
    from flykka.api.streams.transformation import Input


class WatermarkAssignment(ABC):
    """A stream whose rows can be given an event time."""

    _program: Program
    _inputs: tuple[Input, ...]
    _type: StreamType

    @abstractmethod
    def _emitted(
        self, made: Transformation, row_type: StreamType, side_outputs: SideOutputs | None = None
    ) -> DataStream:
        """The stream of what an operator emits."""

    def assign_timestamps_and_watermarks(self, strategy: WatermarkStrategy) -> DataStream:
        """Give the rows the event time that the strategy says, and make watermarks of it here.

        For an event time that is computed, or read from a column that a source does not declare. Its column is that of
        `with_timestamp_column(...)`, else the one that is the event time already. Watermarks from before end here, as
        in Flink, but for the end of the input. The operator begins a task of its own, which sees batches as they were
        made: where a source can say its event time itself, that costs a step less.

        Raises:
            ProgramError: `strategy` is no watermark strategy, or aligns sources, which this is not.
            StreamTypeError: there is no such column, it is no timestamp, or none is named where there is no event time;
                or the condition of punctuated watermarks does not fit the rows.
        """
        event_time = self._event_time_of(checked_strategy(strategy))
        if strategy.alignment is not None:
            raise ProgramError(
                "with_watermark_alignment(...) holds back what is read, so it is for the watermarks of sources: give"
                " from_source(...) the strategy"
            )
        made = Transformation(
            kind=OperatorKind.TIMESTAMPS_AND_WATERMARKS,
            position=self._program.next_position,
            name=f"assign_timestamps_and_watermarks({event_time or 'none'})",
            code=TimestampsAndWatermarksCode(
                event_time=event_time, watches_order=watches_order(strategy), punctuation=strategy.punctuation
            ),
            inputs=self._inputs,
            chaining=ChainingStrategy.HEAD,
        )
        set_watermarks(made, strategy)
        tried(made, lambda: check_condition(self._type.prototype, strategy.punctuation))
        self._program.add(made)
        return self._emitted(made, replace(self._type, event_time=event_time))

    def _event_time_of(self, strategy: WatermarkStrategy) -> EventTime | None:
        if strategy.delay_ms is None:
            return None
        if strategy.timestamp_column is not None:
            name = strategy.timestamp_column
            where = f"assign_timestamps_and_watermarks({name})"
            return EventTime(column=tried(where, lambda: event_time_column(self._type.prototype, name)))
        if self._type.event_time is None:
            raise StreamTypeError(
                f"assign_timestamps_and_watermarks after {origins(self._inputs)}: watermarks need an event time:"
                " with_timestamp_column(...) names its column"
            )
        return self._type.event_time
