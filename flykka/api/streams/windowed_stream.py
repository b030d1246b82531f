"""Windowed streams, with or without keys: when their windows fire, and what is computed then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, overload

from flykka.api.migration_hints import MigrationHints
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


class AnyWindowedStream(MigrationHints, Generic[Function]):
    _hint_tables = ("windowed_stream", "behind_windows")
    _window_function: ClassVar[type[AnyWindowFunction]]

    def __init__(self, flow: Dataflow, settings: WindowSettings) -> None:
        self._flow = flow
        self._settings = settings

    def trigger(self, trigger: Trigger) -> Self:
        """Set when windows fire, instead of at the end of the window.

        Raises:
            ProgramError: `trigger` is not a trigger, or does not support merging windows such as sessions.
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
        """Set an evictor, which removes rows from a window that fires. All rows of windows are then stored.

        Raises:
            ProgramError: `evictor` is not an evictor.
        """
        if not isinstance(evictor, Evictor):
            raise ProgramError(
                f"evictor after {self._flow} takes an Evictor such as CountEvictor.of(3), not {evictor!r}"
            )
        return self._with(evictor=evictor)

    def allowed_lateness(self, lateness: Duration) -> Self:
        """Retain windows for some event time after their end: a late row then fires its window again.

        The result is a changelog: a key and window may be emitted several times, each time with the results of all rows
        so far; aggregates of columns are upserts by window and key. All late rows of a batch fire their windows once,
        or once per checkpoint if all sinks publish per checkpoint. As in Flink, downstream event-time operators receive
        such results late.

        Raises:
            DurationError: `lateness` cannot be parsed, or is negative.
            ProgramError: the windows are not event-time windows; only these have late rows.
        """
        lateness_ms = duration_ms(lateness, "allowed lateness")
        self._check_event_time("allowed_lateness")
        return self._with(allowed_lateness_ms=lateness_ms)

    def side_output_late_data(self, tag: OutputTag) -> Self:
        """Emit late rows to a side output; by default they are dropped and counted.

        A row is late if the watermark has passed the end of all its windows plus the allowed lateness.
        `get_side_output(tag)` of the result returns late rows with all their columns. Aggregates of columns then
        exchange all rows unaggregated, which is slower. As in Flink, these rows are not counted as dropped, even if the
        side output is not read.

        Raises:
            ProgramError: `tag` is not an OutputTag, or the windows are not event-time windows; only these have late
                rows.
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
        """Compute one row per key and window, by Spark's aggregates or by an `AggregateFunction`.

        `aggregate(*columns)` emits `window_start`, `window_end`, the keys if any, then these aggregates. All of Spark's
        aggregates work. Aggregates that can be combined from partial aggregates (count, sum, min, max, avg) are
        computed before the exchange, and only the partial aggregates are stored; for other aggregates the rows are
        stored.

        `aggregate(function, window_function, accumulator_type="struct<n:bigint,total:double>", output="mean double")`
        stores an accumulator per key and window, whose type is in Spark's DDL. The function's result is a row with the
        columns `output`, unless a `window_function`, which knows key and window, turns the result into rows.

        Raises:
            ProgramError: no column is given, a type is missing, or columns are aggregated in windows that are not
                tumbling, sliding or session windows of event time, or that have a trigger or an evictor.
            StreamTypeError: a column is not an aggregate, or does not fit this stream; or a function cannot be pickled.
        """
        if not columns:
            raise ProgramError(f"the window aggregation after {self._flow} needs at least one column")
        if isinstance(columns[0], AggregateFunction):
            return self._aggregated(*columns, accumulator_type=accumulator_type, output=output)
        return DataStream(aggregate_windows(self._flow, self._settings, columns))

    def apply(self, function: Callable[[DataFrame], DataFrame]) -> DataStream:
        """Call a function with all rows of the windows that fire, as one DataFrame; it returns the output rows.

        The windows may have any type that fires once and has bounds. The DataFrame has `window_start` and `window_end`,
        then all columns of the rows; a row occurs once for each of its windows. For example, the three highest prices
        of each hour:

            best_first = Window.partitionBy("window_start", "window_end").orderBy(F.desc("price"))
            best = bids.window_all(TumblingEventTimeWindows.of("1h")).apply(
                lambda rows: rows.withColumn("place", F.row_number().over(best_first)).where("place <= 3")
            )

        How many windows fire together depends on the arrival of the rows, and each subtask of a keyed stream only has
        the rows of its own keys. Therefore the function must group or partition by `window_start` or `window_end`, and
        after `key_by` also by the keys; a function is refused if Spark's plan shows that it does not. The bounds
        replace columns of the same names: rename these first to keep them. The result has the event time of its windows
        if it contains `window_end`. All columns of all rows are stored until their windows fire: before the window,
        drop columns that the function does not need. If late rows arrive within the allowed lateness, the function is
        called again with all rows of their windows and keys.

        Raises:
            ProgramError: the windows have no bounds, or may fire several times, because of a trigger or, except for
                tumbling and sliding event-time windows, an allowed lateness.
            StreamTypeError: the function does not fit the rows, returns no DataFrame, expects another argument, or
                combines rows of several windows or keys.
        """
        return DataStream(apply_to_windows(self._flow, self._settings, function))

    def reduce(
        self,
        function: ReduceFunction[Row] | Callable[[Row, Row], Row],
        window_function: Function | None = None,
        output: StructType | str | None = None,
    ) -> DataStream:
        """Reduce the rows of each window to one row, two at a time, with the columns of this stream.

        `window_start` and `window_end` come first, and replace columns of the same names, unless the windows are
        global; event-time windows set the event time of the result. A `window_function`, which knows key and window,
        turns the row into rows with the columns `output`.

        Raises:
            ProgramError: `function` is not a function, or only one of the window function and its output is given.
            StreamTypeError: `output` is invalid, or a function cannot be pickled.
        """
        try:
            combination = Reduced(function)
        except TypeError as wrong:
            raise ProgramError(f"reduce after {self._flow}: {wrong}") from None
        if (window_function is None) != (output is None):
            raise ProgramError(
                f"reduce after {self._flow} takes a window function together with its output, such as"
                " 'city string, amount double': without both the results have the columns of the stream"
            )
        if output is not None:
            self._check_window_function("reduce", window_function)
            return self._processed("reduce", function, combination, window_function, output)
        if isinstance(self._settings.assigner, GlobalWindows):
            return self._processed("reduce", function, combination, None, self._flow.type.prototype.schema)
        return self._processed("reduce", function, combination, EmitRows(), with_bounds(self._flow.type.prototype))

    def process(self, function: Function, output: StructType | str) -> DataStream:
        """Call a function with all rows of each window that fires; it emits rows with the columns `output`.

        If the function sets a timestamp column `window_end` to the end of its event-time window, the rows have the
        event time of windows: one millisecond less. Otherwise the rows have the event time of the stream if they
        contain its column.

        All columns of the stream are stored until the window is removed: before the window, select only the columns
        that you need.

        Raises:
            ProgramError: `function` is not a function of such windows.
            StreamTypeError: `output` is invalid, or the function cannot be pickled.
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

    def _check_window_function(self, verb: str, function: object) -> None:
        expected = self._window_function
        if not isinstance(function, expected):
            raise ProgramError(f"{verb} after {self._flow} takes a {expected.__name__}, not {function!r}")

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
    """A keyed stream whose rows are assigned to windows. Window functions are `ProcessWindowFunction`s."""

    _window_function = ProcessWindowFunction


class AllWindowedStream(AnyWindowedStream[ProcessAllWindowFunction]):
    """A stream without keys whose rows are assigned to windows. Window functions are `ProcessAllWindowFunction`s."""

    _window_function = ProcessAllWindowFunction
