"""Builders for joins of two streams, until `select` or `apply` defines the output.

Streams are joined by window (`join`, `co_group`). Keyed streams are joined by interval (`interval_join`), without a
time bound (`regular_join`), or with the version of a key (`temporal_join`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar

from flykka.actors.machines.joins.interval_segments import Interval
from flykka.api.migration_hints import MigrationHints
from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.join_operators import (
    IntervalJoinSettings,
    RegularJoinSettings,
    Sides,
    TemporalJoinSettings,
    WindowJoinSettings,
    co_group,
    interval_join,
    regular_join,
    temporal_join,
    window_join,
)
from flykka.api.streams.side_outputs import OutputTag, check_tag
from flykka.errors import ProgramError
from flykka.runtime.durations import Duration, duration_ms, signed_duration_ms
from flykka.spark_bridge.functions.windowing.time_windows import PeriodicEventTimeWindows
from flykka.spark_bridge.operators.join import Side

if TYPE_CHECKING:
    from flykka.api.streams.dataflow import Dataflow
    from flykka.spark_bridge.operators.join_code import CoGroupFunction
    from flykka.spark_bridge.program.prototype import Column, StructType

W = TypeVar("W")
Settings = TypeVar(
    "Settings", bound=WindowJoinSettings | IntervalJoinSettings | RegularJoinSettings | TemporalJoinSettings
)

Windowed: TypeAlias = Callable[[Sides, PeriodicEventTimeWindows], W]
"""Creates the builder that `window(...)` returns."""


class JoinedStreams(MigrationHints, Generic[W]):
    """Two streams to be joined by window; `where` is next."""

    _hint_tables = ("window_join",)

    def __init__(self, left: Dataflow, right: Dataflow, windowed: Windowed[W]) -> None:
        self._left = left
        self._right = right
        self._windowed = windowed

    def where(self, *keys: Column | str) -> Where[W]:
        """Set the join keys of the left stream.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column does not fit the left stream.
        """
        return Where(self._left.keyed(keys), self._right, self._windowed)


class Where(MigrationHints, Generic[W]):
    """Two streams to be joined by window; `equal_to` is next."""

    _hint_tables = ("window_join",)

    def __init__(self, left: Dataflow, right: Dataflow, windowed: Windowed[W]) -> None:
        self._left = left
        self._right = right
        self._windowed = windowed

    def equal_to(self, *keys: Column | str) -> EqualTo[W]:
        """Set the join keys of the right stream: as many as for the left stream, with the same types.

        Raises:
            ProgramError: no column is given, or the streams belong to different environments or jobs.
            StreamTypeError: a column does not fit the right stream, or one of the two streams has no event time.
        """
        sides = Sides(left=self._left, right=self._right.keyed(keys))
        sides.check_timed("join by window")
        return EqualTo(sides, self._windowed)


class EqualTo(MigrationHints, Generic[W]):
    """Two keyed streams to be joined by window; `window` is next."""

    _hint_tables = ("window_join",)

    def __init__(self, sides: Sides, windowed: Windowed[W]) -> None:
        self._sides = sides
        self._windowed = windowed

    def window(self, windows: PeriodicEventTimeWindows) -> W:
        """Join rows that are in the same tumbling or sliding event-time window.

        Raises:
            ProgramError: the windows have another type.
        """
        if not isinstance(windows, PeriodicEventTimeWindows):
            raise ProgramError(
                f"the join of {self._sides} takes tumbling or sliding windows of event time, such as"
                f" TumblingEventTimeWindows.of('1h'), not {type(windows).__name__}"
            )
        return self._windowed(self._sides, windows)


class Joined(MigrationHints, Generic[Settings]):
    """A join of two keyed streams; `select` defines its output."""

    def __init__(self, sides: Sides, settings: Settings) -> None:
        self._sides = sides
        self._settings = settings

    def on(self, condition: Column | str) -> Self:
        """Join only rows for which this condition on `left.` and `right.` columns is true as well."""
        return self._with(condition=condition)

    def _with(self, **settings: Any) -> Self:
        return type(self)(self._sides, replace(self._settings, **settings))


class OuterJoined(Joined[Settings]):
    """A join of two keyed streams that may be an outer join."""

    def left_outer(self) -> Self:
        """Also emit left rows without a match, with nulls for the right side.

        Such a row is emitted when the watermark has passed all rows that could match it.
        """
        return self._with(outer=frozenset([Side.LEFT]))

    def right_outer(self) -> Self:
        """Also emit right rows without a match; see `left_outer`."""
        return self._with(outer=frozenset([Side.RIGHT]))

    def full_outer(self) -> Self:
        """Also emit rows of both sides without a match; see `left_outer`."""
        return self._with(outer=frozenset(Side))


class WindowJoined(OuterJoined[WindowJoinSettings]):
    """A join of two streams by window; `select` defines its output."""

    _hint_tables = ("window_join",)

    @classmethod
    def of(cls, sides: Sides, windows: PeriodicEventTimeWindows) -> Self:
        return cls(sides, WindowJoinSettings(windows=windows))

    def select(self, *columns: Column | str) -> DataStream:
        """Join two matching rows into a row with `window_start`, `window_end` and these columns.

        `left.name` and `right.name` are columns of the two sides, `name` alone is a column that only one side has, and
        `left.*` are all columns of a side. A row is emitted as soon as both rows have arrived, once for each window
        that contains both.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column does not fit the streams, is ambiguous, or occurs twice in the result; or the
                keys differ in number or type.
        """
        return DataStream(window_join(self._sides, self._settings, columns))


class CoGrouped(MigrationHints):
    """A co-group of two streams by window; `apply` defines its output."""

    _hint_tables = ("window_join",)

    def __init__(self, sides: Sides, windows: PeriodicEventTimeWindows) -> None:
        self._sides = sides
        self._windows = windows

    def apply(self, function: CoGroupFunction, output: StructType | str) -> DataStream:
        """Call `function(left, right)` for each key and window when the window ends; it returns the output rows.

        `left`, `right` and the result are pandas DataFrames, with the types of `map_in_pandas`. Each side has
        `window_start` and `window_end`, then its own columns; it may be empty. Results have the columns of `output`,
        and an event time if `window_end` is one of them.

        Raises:
            StreamTypeError: `output` is invalid, the function cannot run in Spark's Python workers, or the keys of the
                streams differ in number or type.
        """
        return DataStream(co_group(self._sides, self._windows, function, output))


class IntervalJoin(MigrationHints):
    """An interval join of two keyed streams; `between` is next."""

    _hint_tables = ("interval_join",)

    def __init__(self, sides: Sides) -> None:
        self._sides = sides

    def between(self, lower: Duration, upper: Duration) -> IntervalJoined:
        """Join rows if the right row is between `lower` and `upper` later than the left row, both inclusive.

        A bound may be negative: `between("-10min", "0s")` joins a click with the rows of the ten minutes before it.

        Raises:
            DurationError: a bound cannot be parsed.
            ProgramError: `lower` is after `upper`.
        """
        lower_ms, upper_ms = signed_duration_ms(lower, "lower bound"), signed_duration_ms(upper, "upper bound")
        if lower_ms > upper_ms:
            raise ProgramError(
                f"between({lower!r}, {upper!r}): the lower bound is after the upper one, so no rows would match"
            )
        return IntervalJoined(
            self._sides, IntervalJoinSettings(interval=Interval(lower_ms=lower_ms, upper_ms=upper_ms))
        )


class IntervalJoined(OuterJoined[IntervalJoinSettings]):
    """An interval join of two keyed streams; `select` defines its output."""

    _hint_tables = ("interval_join",)

    def lower_bound_exclusive(self) -> IntervalJoined:
        """Exclude pairs of rows that are exactly `lower` apart."""
        return self._with(interval=replace(self._settings.interval, is_lower_inclusive=False))

    def upper_bound_exclusive(self) -> IntervalJoined:
        """Exclude pairs of rows that are exactly `upper` apart."""
        return self._with(interval=replace(self._settings.interval, is_upper_inclusive=False))

    def with_timestamp_column(self, name: str) -> IntervalJoined:
        """Add the later of the two event times as a column, which is the event time of the results.

        Without this column results have no event time, so windows cannot follow.
        """
        return self._with(time_column=name)

    def side_output_left_late_data(self, tag: OutputTag) -> IntervalJoined:
        """Emit late left rows to a side output; by default they are dropped and counted.

        `get_side_output(tag)` of the result returns them with all columns, which must then all be exchanged and stored.

        Raises:
            ProgramError: `tag` is not an OutputTag.
        """
        return self._with_late_data(Side.LEFT, tag)

    def side_output_right_late_data(self, tag: OutputTag) -> IntervalJoined:
        """Emit late right rows to a side output; see `side_output_left_late_data`.

        Raises:
            ProgramError: `tag` is not an OutputTag.
        """
        return self._with_late_data(Side.RIGHT, tag)

    def select(self, *columns: Column | str) -> DataStream:
        """Join two matching rows into a row of these columns.

        `left.name` and `right.name` are columns of the two sides, in strings and in `F.col(...)`; `name` alone is a
        column that only one side has, and `left.*` are all columns of a side. Only columns that are used are exchanged
        and stored.

        Raises:
            ProgramError: no column is given, the interval is empty, or an outer join has a timestamp column.
            StreamTypeError: a column does not fit the streams, is ambiguous, or occurs twice in the result; or the
                keys differ in number or type.
        """
        return DataStream(interval_join(self._sides, self._settings, columns))

    def _with_late_data(self, side: Side, tag: OutputTag) -> IntervalJoined:
        check_tag(f"side_output_{side}_late_data", tag)
        return self._with(tags={**self._settings.tags, side: tag})


class RegularJoined(Joined[RegularJoinSettings]):
    """A regular join of two keyed streams; rows match whenever they arrive."""

    _hint_tables = ("regular_join",)

    def time_to_live(self, duration: Duration) -> RegularJoined:
        """Keep rows in state for `duration` after their arrival, in processing time: later rows do not match them.

        The result then depends on arrival times and may differ between runs. Use `interval_join(...)` to join by event
        time.

        Raises:
            DurationError: `duration` cannot be parsed.
        """
        return self._with(time_to_live_ms=duration_ms(duration, "time-to-live"))

    def select(self, *columns: Column | str) -> DataStream:
        """Join two matching rows into a row of these columns, as soon as both have arrived; results have no event time.

        `left.name` and `right.name` are columns of the two sides, in strings and in `F.col(...)`; `name` alone is a
        column that only one side has, and `left.*` are all columns of a side. Only columns that are used are exchanged
        and stored.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column does not fit the streams, is ambiguous, or occurs twice in the result; or the
                keys differ in number or type.
        """
        return DataStream(regular_join(self._sides, self._settings, columns))


class TemporalJoined(Joined[TemporalJoinSettings]):
    """A temporal join: rows of a keyed stream match the version of their key in another stream."""

    _hint_tables = ("temporal_join",)

    def left_outer(self) -> TemporalJoined:
        """Also emit left rows without a version, with nulls for the right side."""
        return self._with(is_outer=True)

    def on(self, condition: Column | str) -> Self:
        """Join a row with its version only if this condition on `left.` and `right.` columns is true as well.

        The condition does not select another version: a row whose version does not satisfy it has no match.
        """
        return super().on(condition)

    def side_output_late_data(self, tag: OutputTag) -> TemporalJoined:
        """Emit late left rows to a side output; by default they are dropped and counted.

        `get_side_output(tag)` of the result returns them with all columns, which must then all be exchanged and stored.

        Raises:
            ProgramError: `tag` is not an OutputTag.
        """
        check_tag("side_output_late_data", tag)
        return self._with(tag=tag)

    def select(self, *columns: Column | str) -> DataStream:
        """Join a left row and its version into a row of these columns.

        The result has the event time of the left row, if it contains the event-time column under its own name.
        `left.name` and `right.name` are columns of the two sides, in strings and in `F.col(...)`; `name` alone is a
        column that only one side has, and `left.*` are all columns of a side. Only columns that are used are exchanged
        and stored.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column does not fit the streams, is ambiguous, or occurs twice in the result; or the
                keys differ in number or type.
        """
        return DataStream(temporal_join(self._sides, self._settings, columns))
