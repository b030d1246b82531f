"""Windows over all rows of a stream, whatever their keys (Flink's windowAll and AllWindowedStream)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from flykka.api.foreign_names import NamesElsewhere
from flykka.api.streams.transformation import origins, partitioned
from flykka.api.streams.window_aggregation import WindowAggregation
from flykka.api.streams.window_functions import WindowFunctions
from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import ShipStrategy
from flykka.spark_bridge.functions.windowing.time_windows import PeriodicEventTimeWindows

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.api.streams.output_tag import OutputTag
    from flykka.api.streams.program import Program
    from flykka.api.streams.side_outputs import LateData, SideOutputs
    from flykka.api.streams.stream_type import StreamType
    from flykka.api.streams.transformation import Input, Transformation
    from flykka.runtime.durations import Duration
    from flykka.spark_bridge.program.prototype import Column

    MakeStream = Callable[[Transformation, StreamType, LateData | None], DataStream]


class AllWindows(ABC):
    """A stream whose rows can be cut into windows all together."""

    _program: Program
    _inputs: tuple[Input, ...]
    _type: StreamType

    @abstractmethod
    def _emitted(
        self, made: Transformation, row_type: StreamType, side_outputs: SideOutputs | None = None
    ) -> DataStream:
        """The stream of what an operator emits."""

    def window_all(self, assigner: PeriodicEventTimeWindows) -> AllWindowedStream:
        """Cut all rows into windows of event time, tumbling or sliding, without keys.

        As in Flink they are put together in one subtask. Aggregates that are made of parts are computed before, in the
        subtasks that the rows come from, and a window has one row of each batch: that is no bottleneck.

        Raises:
            ProgramError: `assigner` is no such windows.
            StreamTypeError: the stream has no event time, or an operation before has dropped its column.
        """
        if not isinstance(assigner, PeriodicEventTimeWindows):
            raise ProgramError(
                f"window_all after {origins(self._inputs)} takes TumblingEventTimeWindows.of(...) or"
                f" SlidingEventTimeWindows.of(...), not {assigner!r}; key_by(F.lit(1)).window(...) has all windows"
            )
        inputs = partitioned(self._inputs, ShipStrategy.GLOBAL)
        aggregation = WindowAggregation.of(inputs, self._type, (), assigner)
        return AllWindowedStream(self._program, self._type, aggregation, self._emitted)


class AllWindowedStream(WindowFunctions, NamesElsewhere):
    """The rows of a stream, cut into windows without keys."""

    _foreign_names = ("windowed_stream", "behind_windows")

    def __init__(
        self, program: Program, row_type: StreamType, aggregation: WindowAggregation, make: MakeStream
    ) -> None:
        super().__init__(program, row_type, aggregation)
        self._make = make

    def allowed_lateness(self, lateness: Duration) -> AllWindowedStream:
        """Keep windows for a while behind their end, as those of a `WindowedStream`: a row that comes then fires again.

        Raises:
            DurationError: it cannot be read, or is negative.
        """
        aggregation = self._aggregation.with_allowed_lateness(lateness)
        return AllWindowedStream(self._program, self._type, aggregation, self._make)

    def side_output_late_data(self, tag: OutputTag) -> AllWindowedStream:
        """Give the rows that come too late to a side output, as those of a `WindowedStream`.

        Raises:
            ProgramError: `tag` is no OutputTag.
        """
        aggregation = self._aggregation.with_late_data_tag(tag)
        return AllWindowedStream(self._program, self._type, aggregation, self._make)

    def aggregate(self, *columns: Column) -> DataStream:
        """Compute one row per window: `window_start`, `window_end`, then these aggregates, any of Spark's.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column is no aggregate, or does not fit this stream.
        """
        return self._results(*self._aggregation.add_to(self._program, columns))

    def _emitted(self, made: Transformation, row_type: StreamType, late_data: LateData | None) -> DataStream:
        return self._make(made, row_type, late_data)
