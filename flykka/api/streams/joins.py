"""Joins of two streams, before it is said what is made of rows that meet.

By window and co-groups (`join`, `co_group`), of keyed streams by interval (`interval_join`), whenever rows come
(`regular_join`) and with the version of a key (`temporal_join`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar

from flykka.actors.machines.joins.interval_segments import Interval
from flykka.api.foreign_names import NamesElsewhere
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
"""Makes what continues after the windows."""


class JoinedStreams(NamesElsewhere, Generic[W]):
    """Two streams, before it is said which rows of them belong together."""

    _foreign_names = ("window_join",)

    def __init__(self, left: Dataflow, right: Dataflow, windowed: Windowed[W]) -> None:
        self._left = left
        self._right = right
        self._windowed = windowed

    def where(self, *keys: Column | str) -> Where[W]:
        """Say by which columns the rows of the left stream are joined.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column does not fit the left stream.
        """
        return Where(self._left.keyed(keys), self._right, self._windowed)


class Where(NamesElsewhere, Generic[W]):
    """Two streams, of which the left one has keys."""

    _foreign_names = ("window_join",)

    def __init__(self, left: Dataflow, right: Dataflow, windowed: Windowed[W]) -> None:
        self._left = left
        self._right = right
        self._windowed = windowed

    def equal_to(self, *keys: Column | str) -> EqualTo[W]:
        """Say by which columns the rows of the right stream are joined, as many as of the left one, of the same types.

        Raises:
            ProgramError: no column is given, or the streams are of two environments or jobs.
            StreamTypeError: a column does not fit the right stream, or one of the two streams has no event time.
        """
        sides = Sides(left=self._left, right=self._right.keyed(keys))
        sides.check_timed("join by window")
        return EqualTo(sides, self._windowed)


class EqualTo(NamesElsewhere, Generic[W]):
    """Two streams with keys, before it is said in which windows rows meet."""

    _foreign_names = ("window_join",)

    def __init__(self, sides: Sides, windowed: Windowed[W]) -> None:
        self._sides = sides
        self._windowed = windowed

    def window(self, windows: PeriodicEventTimeWindows) -> W:
        """Let rows meet that are in the same window, tumbling or sliding, of event time.

        Raises:
            ProgramError: the windows are others.
        """
        if not isinstance(windows, PeriodicEventTimeWindows):
            raise ProgramError(
                f"the join of {self._sides} takes tumbling or sliding windows of event time, such as"
                f" TumblingEventTimeWindows.of('1h'), not {type(windows).__name__}"
            )
        return self._windowed(self._sides, windows)


class Joined(NamesElsewhere, Generic[Settings]):
    """Two keyed streams, before it is said what is made of rows that meet."""

    def __init__(self, sides: Sides, settings: Settings) -> None:
        self._sides = sides
        self._settings = settings

    def on(self, condition: Column | str) -> Self:
        """Let rows meet only where a condition is true as well, over `left.` and `right.` columns."""
        return self._with(condition=condition)

    def _with(self, **settings: Any) -> Self:
        return type(self)(self._sides, replace(self._settings, **settings))


class OuterJoined(Joined[Settings]):
    """Two keyed streams, whose rows may come out where they meet none."""

    def left_outer(self) -> Self:
        """Give results of left rows that meet none too, with nulls for the right side.

        Such a row is emitted when the watermark has passed all that it could have met.
        """
        return self._with(outer=frozenset([Side.LEFT]))

    def right_outer(self) -> Self:
        """Give results of right rows that meet none too, as `left_outer`."""
        return self._with(outer=frozenset([Side.RIGHT]))

    def full_outer(self) -> Self:
        """Give results of the rows of both sides that meet none too, as `left_outer`."""
        return self._with(outer=frozenset(Side))


class WindowJoined(OuterJoined[WindowJoinSettings]):
    """Two streams, whose rows meet where they are in the same window."""

    _foreign_names = ("window_join",)

    @classmethod
    def of(cls, sides: Sides, windows: PeriodicEventTimeWindows) -> Self:
        """The streams with these windows."""
        return cls(sides, WindowJoinSettings(windows=windows))

    def select(self, *columns: Column | str) -> DataStream:
        """Make a row of two that meet: `window_start`, `window_end`, and these columns.

        `left.name` and `right.name` are columns of the two sides, `name` alone is one that only one side has, and
        `left.*` all of a side. A row comes out as soon as both are there, and once for each window that both are in.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column does not fit the streams, both have it, or two results have one name; or the keys
                differ in number or type.
        """
        return DataStream(window_join(self._sides, self._settings, columns))


class CoGrouped(NamesElsewhere):
    """Two streams, whose rows of a key and window go to a function together."""

    _foreign_names = ("window_join",)

    def __init__(self, sides: Sides, windows: PeriodicEventTimeWindows) -> None:
        self._sides = sides
        self._windows = windows

    def apply(self, function: CoGroupFunction, output: StructType | str) -> DataStream:
        """Have `function(left, right)` make rows of those of both sides of a key and window, when the window is over.

        All three are pandas frames, as `map_in_pandas` has them. The rows of each side have `window_start` and
        `window_end`, then their own other columns; a side may have none. Results have the columns of `output`, and an
        event time where `window_end` is one of them.

        Raises:
            StreamTypeError: `output` cannot be read, the function cannot be called in Spark's Python workers, or the
                keys of the streams differ in number or type.
        """
        return DataStream(co_group(self._sides, self._windows, function, output))


class IntervalJoin(NamesElsewhere):
    """Two keyed streams, before it is said how near the times of rows must be that meet."""

    _foreign_names = ("interval_join",)

    def __init__(self, sides: Sides) -> None:
        self._sides = sides

    def between(self, lower: Duration, upper: Duration) -> IntervalJoined:
        """Let rows meet where the right one is from `lower` to `upper` later than the left one, both inclusive.

        A bound may be negative: `between("-10min", "0s")` joins a click with what came in the ten minutes before it.

        Raises:
            DurationError: a bound cannot be read.
            ProgramError: `lower` is after `upper`.
        """
        lower_ms, upper_ms = signed_duration_ms(lower, "lower bound"), signed_duration_ms(upper, "upper bound")
        if lower_ms > upper_ms:
            raise ProgramError(
                f"between({lower!r}, {upper!r}): the lower bound is after the upper one, so no rows would meet"
            )
        return IntervalJoined(
            self._sides, IntervalJoinSettings(interval=Interval(lower_ms=lower_ms, upper_ms=upper_ms))
        )


class IntervalJoined(OuterJoined[IntervalJoinSettings]):
    """Two keyed streams, whose rows meet where their times are within an interval."""

    _foreign_names = ("interval_join",)

    def lower_bound_exclusive(self) -> IntervalJoined:
        """Leave out rows that are just `lower` apart."""
        return self._with(interval=replace(self._settings.interval, is_lower_inclusive=False))

    def upper_bound_exclusive(self) -> IntervalJoined:
        """Leave out rows that are just `upper` apart."""
        return self._with(interval=replace(self._settings.interval, is_upper_inclusive=False))

    def with_timestamp_column(self, name: str) -> IntervalJoined:
        """Add the later one of the two event times to results, as their event time, so that windows may follow.

        Without it results have no event time.
        """
        return self._with(time_column=name)

    def side_output_left_late_data(self, tag: OutputTag) -> IntervalJoined:
        """Give left rows of times before the watermark to a side output; else they are dropped, and counted.

        `get_side_output(tag)` of the result gives them with all their columns, which must all be exchanged and kept
        then.

        Raises:
            ProgramError: `tag` is no OutputTag.
        """
        return self._with_late_data(Side.LEFT, tag)

    def side_output_right_late_data(self, tag: OutputTag) -> IntervalJoined:
        """Give right rows of times before the watermark to a side output, as `side_output_left_late_data`.

        Raises:
            ProgramError: `tag` is no OutputTag.
        """
        return self._with_late_data(Side.RIGHT, tag)

    def select(self, *columns: Column | str) -> DataStream:
        """Make a row of these columns of two rows that meet.

        `left.name` and `right.name` are columns of the two sides, in strings and in `F.col(...)`; `name` alone is one
        that only one side has, and `left.*` all of a side. Only what is read of a row is exchanged and kept.

        Raises:
            ProgramError: no column is given, no time can be within the bounds, or an outer join has a timestamp column.
            StreamTypeError: a column does not fit the streams, both have it, or two results have one name; or the keys
                differ in number or type.
        """
        return DataStream(interval_join(self._sides, self._settings, columns))

    def _with_late_data(self, side: Side, tag: OutputTag) -> IntervalJoined:
        check_tag(f"side_output_{side}_late_data", tag)
        return self._with(tags={**self._settings.tags, side: tag})


class RegularJoined(Joined[RegularJoinSettings]):
    """Two keyed streams, whose rows meet whenever they come."""

    _foreign_names = ("regular_join",)

    def time_to_live(self, duration: Duration) -> RegularJoined:
        """Keep a row no longer than this after it came, by processing time: rows that come later do not meet it.

        What meets then depends on when rows come, and a run may give other results than the one before. Where event
        time is to decide, `interval_join(...)` does.

        Raises:
            DurationError: it cannot be read.
        """
        return self._with(time_to_live_ms=duration_ms(duration, "time-to-live"))

    def select(self, *columns: Column | str) -> DataStream:
        """Make a row of these columns of two rows that meet, as soon as both are there; results have no event time.

        `left.name` and `right.name` are columns of the two sides, in strings and in `F.col(...)`; `name` alone is one
        that only one side has, and `left.*` all of a side. Only what is read of a row is exchanged and kept.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column does not fit the streams, both have it, or two results have one name; or the keys
                differ in number or type.
        """
        return DataStream(regular_join(self._sides, self._settings, columns))


class TemporalJoined(Joined[TemporalJoinSettings]):
    """A keyed stream, whose rows meet the versions of their keys in another one."""

    _foreign_names = ("temporal_join",)

    def left_outer(self) -> TemporalJoined:
        """Give results of left rows that have no version too, with nulls for the right side."""
        return self._with(is_outer=True)

    def on(self, condition: Column | str) -> Self:
        """Let a row meet its version only where a condition is true as well, over `left.` and `right.` columns.

        It does not choose among versions: a row whose version does not fit meets none.
        """
        return super().on(condition)

    def side_output_late_data(self, tag: OutputTag) -> TemporalJoined:
        """Give left rows that come behind the watermark to a side output; else they are dropped, and counted.

        `get_side_output(tag)` of the result gives them with all their columns, which must all be exchanged and kept
        then.

        Raises:
            ProgramError: `tag` is no OutputTag.
        """
        check_tag("side_output_late_data", tag)
        return self._with(tag=tag)

    def select(self, *columns: Column | str) -> DataStream:
        """Make a row of these columns of a left row and its version; its event time is that of the left row.

        It has that where its column is among them, under its own name. `left.name` and `right.name` are columns of the
        two sides, in strings and in `F.col(...)`; `name` alone is one that only one side has, and `left.*` all of a
        side. Only what is read of a row is exchanged and kept.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column does not fit the streams, both have it, or two results have one name; or the keys
                differ in number or type.
        """
        return DataStream(temporal_join(self._sides, self._settings, columns))
