"""Interval joins: rows of two keyed streams with equal keys, and times within an interval of each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flykka.actors.machines.joins.interval_segments import Interval
from flykka.api.foreign_names import NamesElsewhere
from flykka.api.streams.joined_inputs import Joined, add_join, check_joined, joined_rows
from flykka.api.streams.output_tag import OutputTag
from flykka.api.streams.program import tried
from flykka.api.streams.side_outputs import OwnOutputs
from flykka.api.streams.stateless_verbs import listed
from flykka.api.streams.stream_type import StreamType
from flykka.api.streams.windowed_rows import KeyedRows
from flykka.errors import ProgramError, StreamTypeError
from flykka.runtime.durations import Duration, signed_duration_ms
from flykka.spark_bridge.functions.event_time import EventTime
from flykka.spark_bridge.operators.join import Side
from flykka.spark_bridge.operators.join_code import IntervalJoinCode, pairs
from flykka.spark_bridge.operators.join_side import JoinedRows, JoinSide

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.spark_bridge.program.prototype import Column


class IntervalJoinVerb(KeyedRows):
    """The verb of keyed streams that joins two of them."""

    def interval_join(self, other: IntervalJoinVerb) -> IntervalJoin:
        """Join with another keyed stream: rows of equal keys whose event times are near each other.

        `.between(lower, upper)` says how near, and `.select(*columns)` what is made of two rows that meet.

        Raises:
            ProgramError: the other stream is of another environment or another job.
            StreamTypeError: it has no keys, or one of the two has no event time.
        """
        if not isinstance(other, IntervalJoinVerb):
            raise StreamTypeError(
                f"interval_join after {self._origins} takes another keyed stream, as key_by(...) gives it, not a"
                f" {type(other).__name__}"
            )
        check_joined("interval_join", self, other)
        return IntervalJoin(self, other)


class IntervalJoin(NamesElsewhere):
    """Two keyed streams, before it is said how near the times of rows must be that meet."""

    _foreign_names = ("interval_join",)

    def __init__(self, left: KeyedRows, right: KeyedRows) -> None:
        self._left = left
        self._right = right

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
            self._left, self._right, _Settings(interval=Interval(lower_ms=lower_ms, upper_ms=upper_ms))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    """An interval join, before it is said what is made of rows that meet."""

    interval: Interval
    outer: frozenset[Side] = frozenset()
    condition: Column | str | None = None
    time_column: str | None = None
    tags: Mapping[Side, OutputTag] = field(default_factory=dict)


class IntervalJoined(Joined):
    """Two keyed streams, whose rows meet where their times are within an interval."""

    _foreign_names = ("interval_join",)

    def __init__(self, left: KeyedRows, right: KeyedRows, settings: _Settings) -> None:
        self._left = left
        self._right = right
        self._settings = settings

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
        settings, name = self._settings, f"interval_join({listed(*columns)})"
        what = f"{name} of {self._left._origins} with {self._right._origins}"
        self._check(what, columns)
        left_inputs, right_inputs = self._left._inputs, self._right._inputs

        def draft(left: JoinSide, right: JoinSide) -> IntervalJoinCode:
            return IntervalJoinCode(
                left=left,
                right=right,
                interval=settings.interval,
                columns=columns,
                condition=settings.condition,
                time_column=settings.time_column,
                outer=settings.outer,
                left_gates=len(left_inputs),
            )

        rows = {side: self._rows(side) for side in Side}
        prototype, code = tried(what, lambda: pairs(rows[Side.LEFT], rows[Side.RIGHT], draft))
        made = add_join(self._left._program, name, code, left_inputs, right_inputs)
        event_time = None if settings.time_column is None else EventTime(column=settings.time_column)
        late = {tag: (side.late_data, self._side(side)._type) for side, tag in settings.tags.items()}
        row_type = StreamType(prototype=prototype, event_time=event_time)
        return self._left._emitted(made, row_type, OwnOutputs(made, late) if late else None)

    def _check(self, what: str, columns: tuple[Column | str, ...]) -> None:
        settings = self._settings
        if not columns:
            raise ProgramError(f"{what} needs at least one column, such as 'left.*'")
        if settings.interval.is_empty:
            raise ProgramError(f"{what}: both bounds are the same and one is exclusive, so no rows would meet")
        if settings.time_column is not None and settings.outer:
            raise ProgramError(
                f"{what}: rows that meet none are emitted when their time is over, so results of outer joins have no"
                " event time: leave out with_timestamp_column(...)"
            )
        tags = list(settings.tags.values())
        if len(set(tags)) < len(tags):
            raise ProgramError(f"{what}: late rows of both sides go to {tags[0]!r}; give each side a tag of its own")

    def _rows(self, side: Side) -> JoinedRows:
        return joined_rows(self._side(side), side_outputs_late_data=side in self._settings.tags)

    def _side(self, side: Side) -> KeyedRows:
        return self._left if side is Side.LEFT else self._right

    def _with_late_data(self, side: Side, tag: OutputTag) -> IntervalJoined:
        if not isinstance(tag, OutputTag):
            raise ProgramError(
                f"side_output_{side}_late_data takes an OutputTag, such as OutputTag('late'), not {tag!r}"
            )
        return self._with(tags={**self._settings.tags, side: tag})

    def _with(self, **settings: Any) -> IntervalJoined:
        return IntervalJoined(self._left, self._right, replace(self._settings, **settings))
