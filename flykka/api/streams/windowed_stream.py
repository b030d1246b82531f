"""The rows of a keyed stream in windows: when these fire, and what is made of them then."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

from flykka.api.foreign_names import NamesElsewhere
from flykka.api.streams.output_tag import OutputTag
from flykka.api.streams.program import tried
from flykka.api.streams.window_functions import WindowFunctions
from flykka.errors import ProgramError
from flykka.runtime.durations import Duration, duration_ms
from flykka.spark_bridge.functions.aggregate_function import AggregateFunction, AnyAggregateFunction, ReduceFunction
from flykka.spark_bridge.functions.event_time import OF_WINDOWS, WINDOW_END
from flykka.spark_bridge.functions.windowing.evictors import Evictor
from flykka.spark_bridge.functions.windowing.session_windows import EventTimeSessionWindows, GlobalWindows
from flykka.spark_bridge.functions.windowing.time_windows import PeriodicEventTimeWindows
from flykka.spark_bridge.functions.windowing.trigger import Trigger
from flykka.spark_bridge.functions.windowing.window_assigner import MergingWindowAssigner, WindowAssigner
from flykka.spark_bridge.functions.windowing.window_contents import Aggregated, AllRows, Combination, Reduced
from flykka.spark_bridge.functions.windowing.window_function import EmitElements, ProcessWindowFunction
from flykka.spark_bridge.functions.windowing.window_operator import Windowing, WindowOperator
from flykka.spark_bridge.operators.process_functions import keyed_process_code
from flykka.spark_bridge.program.prototype import has_event_time, row_type

if TYPE_CHECKING:
    from flykka.api.streams.all_windows import MakeStream
    from flykka.api.streams.data_stream import DataStream
    from flykka.api.streams.program import Program
    from flykka.api.streams.side_outputs import LateData
    from flykka.api.streams.stream_type import StreamType
    from flykka.api.streams.transformation import Transformation
    from flykka.api.streams.window_aggregation import WindowAggregation
    from flykka.spark_bridge.functions.event_time import EventTime
    from flykka.spark_bridge.operators.process_code import KeyedProcessCode, ProcessCode
    from flykka.spark_bridge.program.prototype import Column, DataFrame, StructType

Row = dict[str, Any]

_AGGREGATES = "aggregates columns"


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSettings:
    """Windows, before it is said what is made of them. Without a trigger they have that of their assigner."""

    assigner: WindowAssigner
    trigger: Trigger | None = None
    evictor: Evictor | None = None
    allowed_lateness_ms: int = 0
    late_data_tag: OutputTag | None = None


class ColumnWindows(WindowFunctions):
    """Keyed rows in windows that Spark's plans compute."""

    def __init__(
        self, program: Program, row_type: StreamType, aggregation: WindowAggregation, make: MakeStream
    ) -> None:
        super().__init__(program, row_type, aggregation)
        self._make = make

    def aggregate(self, columns: tuple[Column, ...]) -> DataStream:
        """Compute aggregates per key and window."""
        return self._results(*self._aggregation.add_to(self._program, columns))

    def _emitted(self, made: Transformation, row_type: StreamType, late_data: LateData | None) -> DataStream:
        return self._make(made, row_type, late_data)


class KeyedRows(ABC):
    """Keyed rows that are cut into windows, and become streams again."""

    _type: StreamType
    _keys: tuple[Column | str, ...]

    @property
    @abstractmethod
    def _origins(self) -> str:
        """The origins of the rows, for messages."""

    @abstractmethod
    def _column_windows(
        self,
        windows: PeriodicEventTimeWindows | EventTimeSessionWindows,
        late_data_tag: OutputTag | None = None,
        allowed_lateness_ms: int = 0,
    ) -> ColumnWindows:
        """Return the rows in windows that Spark's plans compute."""

    @abstractmethod
    def _processed(
        self,
        name: str,
        code: ProcessCode,
        prototype: DataFrame,
        late_data_tag: OutputTag | None = None,
        event_time: EventTime | None = None,
    ) -> DataStream:
        """Add the operator of this name that calls functions; its rows have that event time, else the stream's."""


class WindowedStream(NamesElsewhere):
    """The rows of a keyed stream, cut into windows."""

    _foreign_names = ("windowed_stream", "behind_windows")

    def __init__(self, keyed: KeyedRows, settings: WindowSettings) -> None:
        self._keyed = keyed
        self._settings = settings

    def trigger(self, trigger: Trigger) -> WindowedStream:
        """Let windows fire when a trigger says so, in place of the end of the window.

        Raises:
            ProgramError: `trigger` is none, or cannot be used for windows that merge, as sessions do.
        """
        if not isinstance(trigger, Trigger):
            raise ProgramError(
                f"trigger after {self._origins} takes a Trigger such as CountTrigger.of(3), not {trigger!r}"
            )
        assigner = self._settings.assigner
        if isinstance(assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise ProgramError(
                f"trigger after {self._origins}: {type(trigger).__name__} cannot be used for"
                f" {type(assigner).__name__}, which merge: that takes can_merge() and on_merge(window, ctx)"
            )
        return self._with(trigger=trigger)

    def evictor(self, evictor: Evictor) -> WindowedStream:
        """Let an evictor remove rows of a window that fires. All rows of the window are kept for it.

        Raises:
            ProgramError: `evictor` is none.
        """
        if not isinstance(evictor, Evictor):
            raise ProgramError(
                f"evictor after {self._origins} takes an Evictor such as CountEvictor.of(3), not {evictor!r}"
            )
        return self._with(evictor=evictor)

    def allowed_lateness(self, lateness: Duration) -> WindowedStream:
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

    def side_output_late_data(self, tag: OutputTag) -> WindowedStream:
        """Give the rows that come too late to a side output; else they are dropped, and counted.

        A row is too late when every window it belongs to has been closed by the watermark, the allowed lateness
        included. `get_side_output(tag)` of the result gives such rows with all their columns. For that aggregates of
        columns must exchange all rows as they are, which is slower than to aggregate them before. As in Flink none of
        them is counted as dropped, whether or not the side output is read.

        Raises:
            ProgramError: `tag` is no OutputTag, or the windows are not of event time, in which alone rows are late.
        """
        if not isinstance(tag, OutputTag):
            raise ProgramError(f"side_output_late_data takes an OutputTag, such as OutputTag('late'), not {tag!r}")
        self._check_event_time("side_output_late_data")
        return self._with(late_data_tag=tag)

    @overload
    def aggregate(self, *columns: Column) -> DataStream: ...

    @overload
    def aggregate(
        self,
        function: AnyAggregateFunction,
        window_function: ProcessWindowFunction | None = None,
        /,
        *,
        accumulator_type: str,
        output: StructType | str,
    ) -> DataStream: ...

    def aggregate(
        self, *columns: Any, accumulator_type: str | None = None, output: StructType | str | None = None
    ) -> DataStream:
        """Compute one row per key and window: of aggregates of Spark's, or by an `AggregateFunction`.

        `aggregate(*columns)` gives `window_start`, `window_end`, the keys, then these aggregates. Any aggregate of
        Spark's will do. Where all can be put together from parts (count, sum, min, max, avg) the rows are aggregated
        before they are exchanged and kept as parts; else the rows themselves are kept.

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
            raise ProgramError(f"the window aggregation after {self._origins} needs at least one column")
        if isinstance(columns[0], AggregateFunction):
            return self._aggregated(*columns, accumulator_type=accumulator_type, output=output)
        is_sessions = isinstance(self._settings.assigner, EventTimeSessionWindows)
        windows = self._sessions_in_columns() if is_sessions else self._in_columns(_AGGREGATES)
        return windows.aggregate(columns)

    def apply(self, function: Callable[[DataFrame], DataFrame]) -> DataStream:
        """Give all rows of the windows that fire to a function, as one DataFrame: rows in, rows out.

        As `apply` of windows over all rows, in tumbling and sliding windows of event time; the function must group or
        partition by the keys too. Where rows come within an allowed lateness, all rows of their windows and keys are
        given to it again.

        Raises:
            ProgramError: other windows, or a trigger or an evictor.
            StreamTypeError: the function does not fit the rows, returns no DataFrame, is none of DataFrames, or
                computes something of several windows or keys together.
        """
        return self._in_columns("applies functions of DataFrames").apply(function)

    def reduce(
        self,
        function: ReduceFunction[Row] | Callable[[Row, Row], Row],
        window_function: ProcessWindowFunction | None = None,
        output: StructType | str | None = None,
    ) -> DataStream:
        """Reduce the rows of each window to one, two at a time: a row of the columns of this stream.

        A `window_function` makes rows of the columns `output` of it, and knows key and window.

        Raises:
            ProgramError: `function` is none, or only one of the window function and its output is given.
            StreamTypeError: the output is no columns, or a function cannot be pickled.
        """
        try:
            combination = Reduced(function)
        except TypeError as wrong:
            raise ProgramError(f"reduce after {self._origins}: {wrong}") from None
        if (window_function is None) != (output is None):
            raise ProgramError(
                f"reduce after {self._origins} takes a window function together with its output, such as"
                " 'city string, amount double': without both it gives rows of the columns of the stream"
            )
        columns = self._keyed._type.prototype.schema if output is None else output
        return self._processed("reduce", function, combination, window_function, columns)

    def process(self, function: ProcessWindowFunction, output: StructType | str) -> DataStream:
        """Call a function for every window that fires, with all its rows: rows of the columns `output`.

        Where it fills a timestamp `window_end` with the end of its window of event time, the rows have the event time
        of windows: a millisecond before that. Else they have that of the stream where its column is there.

        All columns of the stream are kept until the window is removed: select what is needed before `key_by`.

        Raises:
            ProgramError: `function` is no ProcessWindowFunction.
            StreamTypeError: the output is no columns, or the function cannot be pickled.
        """
        return self._processed("process", function, AllRows(), function, output)

    @property
    def _origins(self) -> str:
        return self._keyed._origins

    def _with(self, **changed: Any) -> WindowedStream:
        return WindowedStream(self._keyed, replace(self._settings, **changed))

    def _check_event_time(self, verb: str) -> None:
        assigner = self._settings.assigner
        if not assigner.is_event_time():
            raise ProgramError(
                f"{verb} after {self._origins}: no row is late for {type(assigner).__name__}, only for windows of event"
                " time, such as TumblingEventTimeWindows and EventTimeSessionWindows"
            )

    def _in_columns(self, does: str) -> ColumnWindows:
        settings = self._settings
        if not isinstance(settings.assigner, PeriodicEventTimeWindows):
            raise self._columns_refused(does, f"in {type(settings.assigner).__name__}")
        self._check_fires_at_end(does)
        return self._keyed._column_windows(settings.assigner, settings.late_data_tag, settings.allowed_lateness_ms)

    def _sessions_in_columns(self) -> ColumnWindows:
        settings = self._settings
        assert isinstance(settings.assigner, EventTimeSessionWindows)
        does = _AGGREGATES
        if settings.assigner.dynamic_gap is not None:
            raise self._columns_refused(does, "in sessions with a dynamic gap")
        self._check_fires_at_end(does)
        if settings.allowed_lateness_ms:
            raise self._columns_refused(does, "in sessions with allowed_lateness(...)")
        if settings.late_data_tag is not None:
            raise self._columns_refused(does, "in sessions with side_output_late_data(...)")
        return self._keyed._column_windows(settings.assigner)

    def _check_fires_at_end(self, does: str) -> None:
        for what in ("trigger", "evictor"):
            if getattr(self._settings, what):
                raise self._columns_refused(does, f"with {what}(...)")

    def _columns_refused(self, does: str, why: str) -> ProgramError:
        sessions = " and in sessions" if does == _AGGREGATES else ""
        return ProgramError(
            f"the window aggregation after {self._origins} {does} in tumbling and sliding windows of event time"
            f"{sessions}, which fire at their end, not {why}: give aggregate(...) an AggregateFunction, or use"
            " reduce(function) or process(ProcessWindowFunction, output)"
        )

    def _aggregated(
        self,
        function: AnyAggregateFunction,
        window_function: ProcessWindowFunction | None = None,
        *,
        accumulator_type: str | None,
        output: StructType | str | None,
    ) -> DataStream:
        if accumulator_type is None or output is None:
            missing = "accumulator_type" if accumulator_type is None else "output"
            raise ProgramError(
                f"aggregate({type(function).__name__}) after {self._origins} needs {missing}=: the accumulator's type,"
                " such as accumulator_type='struct<n:bigint,total:double>', and the columns of the result, such as"
                " output='mean double'"
            )
        return self._processed("aggregate", function, Aggregated(function, accumulator_type), window_function, output)

    def _processed(
        self,
        verb: str,
        function: object,
        combination: Combination,
        window_function: ProcessWindowFunction | None,
        output: StructType | str,
    ) -> DataStream:
        settings, keyed = self._settings, self._keyed
        if window_function is not None and not isinstance(window_function, ProcessWindowFunction):
            raise ProgramError(f"{verb} after {self._origins} takes a ProcessWindowFunction, not {window_function!r}")
        if settings.trigger is None and isinstance(settings.assigner, GlobalWindows):
            raise ProgramError(
                f"{verb} after {self._origins}: GlobalWindows never end, so they need a trigger, as in"
                " .trigger(CountTrigger.of(100))"
            )
        name = f"{verb}({getattr(function, '__name__', type(function).__name__)})"
        rows = keyed._type

        def code() -> tuple[DataFrame, KeyedProcessCode]:
            windowing = Windowing(
                assigner=settings.assigner,
                function=EmitElements() if window_function is None else window_function,
                row_type=row_type(rows.prototype),
                combination=combination,
                trigger=settings.trigger,
                evictor=settings.evictor,
                allowed_lateness_ms=settings.allowed_lateness_ms,
                late_data_tag=settings.late_data_tag,
            )
            operator = WindowOperator(windowing)
            return keyed_process_code(rows.prototype, keyed._keys, operator, output, rows.event_time)

        prototype, made = tried(name, code)
        tells_window = window_function is not None and settings.assigner.is_event_time()
        of_windows = OF_WINDOWS if tells_window and has_event_time(prototype, WINDOW_END) else None
        return keyed._processed(name, made, prototype, settings.late_data_tag, of_windows)
