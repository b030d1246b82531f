"""Rows in windows, of each key or without keys: when these fire, and what is made of them then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, overload

from flykka.api.foreign_names import NamesElsewhere
from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.side_outputs import OutputTag, check_tag
from flykka.api.streams.transformation import function_name
from flykka.api.streams.window_operators import aggregate_windows, apply_to_windows, process_windows
from flykka.errors import ProgramError
from flykka.runtime.durations import Duration, duration_ms
from flykka.spark_bridge.functions.aggregate_function import AggregateFunction, AnyAggregateFunction, ReduceFunction
from flykka.spark_bridge.functions.windowing.evictors import Evictor
from flykka.spark_bridge.functions.windowing.session_windows import GlobalWindows
from flykka.spark_bridge.functions.windowing.trigger import Trigger
from flykka.spark_bridge.functions.windowing.window_assigner import MergingWindowAssigner
from flykka.spark_bridge.functions.windowing.window_contents import Aggregated, AllRows, Combination, Reduced
from flykka.spark_bridge.functions.windowing.window_function import (
    AnyWindowFunction,
    EmitRows,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
)
from flykka.spark_bridge.program.prototype import with_bounds

if TYPE_CHECKING:
    from flykka.api.streams.dataflow import Dataflow
    from flykka.api.streams.window_operators import WindowSettings
    from flykka.spark_bridge.program.prototype import Column, DataFrame, StructType

Row = dict[str, Any]
Function = TypeVar("Function", bound=AnyWindowFunction)
"""The functions of windows, with keys or without."""


class AnyWindowedStream(NamesElsewhere, Generic[Function]):
    """The rows of a stream, cut into windows, with keys or without."""

    _foreign_names = ("windowed_stream", "behind_windows")
    _window_function: ClassVar[type[AnyWindowFunction]]

    def __init__(self, flow: Dataflow, settings: WindowSettings) -> None:
        self._flow = flow
        self._settings = settings

    def trigger(self, trigger: Trigger) -> Self:
        """Let windows fire when a trigger says so, in place of the end of the window.

        Raises:
            ProgramError: `trigger` is none, or cannot be used for windows that merge, as sessions do.
        """
        if not isinstance(trigger, Trigger):
            raise ProgramError(
                f"trigger after {self._flow} takes a Trigger such as CountTrigger.of(3), not {trigger!r}"
            )
        assigner = self._settings.assigner
        if isinstance(assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise ProgramError(
                f"trigger after {self._flow}: {type(trigger).__name__} cannot be used for"
                f" {type(assigner).__name__}, which merge: that takes can_merge() and on_merge(window, ctx)"
            )
        return self._with(trigger=trigger)

    def evictor(self, evictor: Evictor) -> Self:
        """Let an evictor remove rows of a window that fires. All rows of the window are kept for it.

        Raises:
            ProgramError: `evictor` is none.
        """
        if not isinstance(evictor, Evictor):
            raise ProgramError(
                f"evictor after {self._flow} takes an Evictor such as CountEvictor.of(3), not {evictor!r}"
            )
        return self._with(evictor=evictor)

    def allowed_lateness(self, lateness: Duration) -> Self:
        """Keep windows for a while behind their end, in event time: a row that comes then fires its window again.

        So a key and window may come several times, each time with the results of all rows so far, and the newest holds:
        aggregates of columns are upserts by window and key. All late rows of a batch fire their windows once, and where
        all sinks publish per checkpoint it is once per checkpoint. Operators behind that go by event time get such
        results late, as in Flink.

        Raises:
            DurationError: it cannot be read, or is negative.
            ProgramError: the windows are not of event time, in which alone rows are late.
        """
        lateness_ms = duration_ms(lateness, "allowed lateness")
        self._check_event_time("allowed_lateness")
        return self._with(allowed_lateness_ms=lateness_ms)

    def side_output_late_data(self, tag: OutputTag) -> Self:
        """Give the rows that come too late to a side output; else they are dropped, and counted.

        A row is too late when every window it belongs to has been closed by the watermark, the allowed lateness
        included. `get_side_output(tag)` of the result gives such rows with all their columns. For that aggregates of
        columns must exchange all rows as they are, which is slower than to aggregate them before. As in Flink none of
        them is counted as dropped, whether or not the side output is read.

        Raises:
            ProgramError: `tag` is no OutputTag, or the windows are not of event time, in which alone rows are late.
        """
        check_tag("side_output_late_data", tag)
        self._check_event_time("side_output_late_data")
        return self._with(late_data_tag=tag)

    @overload
    def aggregate(self, *columns: Column) -> DataStream: ...

    @overload
    def aggregate(
        self,
        function: AnyAggregateFunction,
        window_function: Function | None = None,
        /,
        *,
        accumulator_type: str,
        output: StructType | str,
    ) -> DataStream: ...

    def aggregate(
        self, *columns: Any, accumulator_type: str | None = None, output: StructType | str | None = None
    ) -> DataStream:
        """Compute one row per key and window: of aggregates of Spark's, or by an `AggregateFunction`.

        `aggregate(*columns)` gives `window_start`, `window_end`, the keys where there are some, then these aggregates.
        Any aggregate of Spark's will do. Where all can be put together from parts (count, sum, min, max, avg) the rows
        are aggregated before they are exchanged and kept as parts; else the rows themselves are kept.

        `aggregate(function, window_function, accumulator_type="struct<n:bigint,total:double>", output="mean double")`
        keeps an accumulator per key and window. Its result is a row of the columns `output`, unless a
        `window_function` makes rows of it, which knows key and window. The accumulator's type is as Spark's DDL
        writes it.

        Raises:
            ProgramError: no column is given, a type is missing, or columns are to be aggregated in other windows than
                tumbling and sliding ones of event time and sessions, or with a trigger or an evictor.
            StreamTypeError: a column is no aggregate, or does not fit this stream; or a function cannot be pickled.
        """
        if not columns:
            raise ProgramError(f"the window aggregation after {self._flow} needs at least one column")
        if isinstance(columns[0], AggregateFunction):
            return self._aggregated(*columns, accumulator_type=accumulator_type, output=output)
        return DataStream(aggregate_windows(self._flow, self._settings, columns))

    def apply(self, function: Callable[[DataFrame], DataFrame]) -> DataStream:
        """Give all rows of the windows that fire to a function, as one DataFrame: rows in, rows out.

        Windows of every kind will do that fire once and have bounds. The DataFrame has `window_start` and `window_end`,
        then all columns of the rows; a row is in it once for each of its windows. So the three best of each hour are

            best_first = Window.partitionBy("window_start", "window_end").orderBy(F.desc("price"))
            best = bids.window_all(TumblingEventTimeWindows.of("1h")).apply(
                lambda rows: rows.withColumn("place", F.row_number().over(best_first)).where("place <= 3")
            )

        How many windows fire together depends on how the rows came in, and of a keyed stream a subtask has the rows of
        its keys alone. So the function must group or partition by `window_start` or `window_end`, and behind `key_by`
        by the keys too; one that Spark's plan shows to do otherwise is refused. Columns of the rows that are called
        like the bounds of windows give way to them: to keep them, rename them first. The result has the event time of
        its windows while `window_end` is in it. All columns of all rows are kept until their windows fire: what the
        function does not need is best dropped before. Where rows come within an allowed lateness, all rows of their
        windows and keys are given to it again.

        Raises:
            ProgramError: the windows may fire several times, by a trigger or (others than tumbling and sliding ones of
                event time) within an allowed lateness, or have no bounds.
            StreamTypeError: the function does not fit the rows, returns no DataFrame, is none of DataFrames, or
                computes something of several windows or keys together.
        """
        return DataStream(apply_to_windows(self._flow, self._settings, function))

    def reduce(
        self,
        function: ReduceFunction[Row] | Callable[[Row, Row], Row],
        window_function: Function | None = None,
        output: StructType | str | None = None,
    ) -> DataStream:
        """Reduce the rows of each window to one, two at a time: a row of the columns of this stream.

        Before these it has `window_start` and `window_end`, unless the windows are global; of event time it has the
        event time of windows. Columns that are called like the bounds give way to them. A `window_function` makes rows
        of the columns `output` of it, and knows key and window.

        Raises:
            ProgramError: `function` is none, or only one of the window function and its output is given.
            StreamTypeError: the output is no columns, or a function cannot be pickled.
        """
        try:
            combination = Reduced(function)
        except TypeError as wrong:
            raise ProgramError(f"reduce after {self._flow}: {wrong}") from None
        if (window_function is None) != (output is None):
            raise ProgramError(
                f"reduce after {self._flow} takes a window function together with its output, such as"
                " 'city string, amount double': without both it gives rows of the columns of the stream"
            )
        if output is not None:
            self._check_window_function("reduce", window_function)
            return self._processed("reduce", function, combination, window_function, output)
        if isinstance(self._settings.assigner, GlobalWindows):
            return self._processed("reduce", function, combination, None, self._flow.type.prototype.schema)
        return self._processed("reduce", function, combination, EmitRows(), with_bounds(self._flow.type.prototype))

    def process(self, function: Function, output: StructType | str) -> DataStream:
        """Call a function for every window that fires, with all its rows: rows of the columns `output`.

        Where it fills a timestamp `window_end` with the end of its window of event time, the rows have the event time
        of windows: a millisecond before that. Else they have that of the stream where its column is there.

        All columns of the stream are kept until the window is removed: select what is needed before it is windowed.

        Raises:
            ProgramError: `function` is no function of such windows.
            StreamTypeError: the output is no columns, or the function cannot be pickled.
        """
        self._check_window_function("process", function)
        return self._processed("process", function, AllRows(), function, output)

    def _with(self, **changed: Any) -> Self:
        return type(self)(self._flow, replace(self._settings, **changed))

    def _check_event_time(self, verb: str) -> None:
        assigner = self._settings.assigner
        if not assigner.is_event_time():
            raise ProgramError(
                f"{verb} after {self._flow}: no row is late for {type(assigner).__name__}, only for windows of event"
                " time, such as TumblingEventTimeWindows and EventTimeSessionWindows"
            )

    def _check_window_function(self, verb: str, given: object) -> None:
        wanted = self._window_function
        if not isinstance(given, wanted):
            raise ProgramError(f"{verb} after {self._flow} takes a {wanted.__name__}, not {given!r}")

    def _aggregated(
        self,
        function: AnyAggregateFunction,
        window_function: Function | None = None,
        *,
        accumulator_type: str | None,
        output: StructType | str | None,
    ) -> DataStream:
        if accumulator_type is None or output is None:
            missing = "accumulator_type" if accumulator_type is None else "output"
            raise ProgramError(
                f"aggregate({type(function).__name__}) after {self._flow} needs {missing}=: the accumulator's type,"
                " such as accumulator_type='struct<n:bigint,total:double>', and the columns of the result, such as"
                " output='mean double'"
            )
        if window_function is not None:
            self._check_window_function("aggregate", window_function)
        return self._processed("aggregate", function, Aggregated(function, accumulator_type), window_function, output)

    def _processed(
        self,
        verb: str,
        function: object,
        combination: Combination,
        window_function: AnyWindowFunction | None,
        output: StructType | str,
    ) -> DataStream:
        name = f"{verb}({function_name(function)})"
        return DataStream(process_windows(self._flow, self._settings, name, combination, window_function, output))


class WindowedStream(AnyWindowedStream[ProcessWindowFunction]):
    """The rows of a keyed stream, cut into windows. Functions of windows are `ProcessWindowFunction`s."""

    _window_function = ProcessWindowFunction


class AllWindowedStream(AnyWindowedStream[ProcessAllWindowFunction]):
    """The rows of a stream, cut into windows without keys. Functions of windows are `ProcessAllWindowFunction`s."""

    _window_function = ProcessAllWindowFunction
