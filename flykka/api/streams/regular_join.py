"""Regular joins: rows of two keyed streams with equal keys, whenever they come."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flykka.api.foreign_names import NamesElsewhere
from flykka.api.streams.joined_inputs import add_join
from flykka.api.streams.program import check_one_program, tried
from flykka.api.streams.stateless_verbs import listed
from flykka.api.streams.stream_type import StreamType
from flykka.api.streams.windowed_rows import KeyedRows
from flykka.errors import ProgramError, StreamTypeError
from flykka.runtime.durations import Duration, duration_ms
from flykka.spark_bridge.operators.join_code import RegularJoinCode, pairs
from flykka.spark_bridge.operators.join_side import JoinedRows, JoinSide

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.spark_bridge.program.prototype import Column


class RegularJoinVerb(KeyedRows):
    """The verb of keyed streams that joins all rows of two of them."""

    def regular_join(self, other: RegularJoinVerb) -> RegularJoined:
        """Join with another keyed stream: rows of equal keys meet whenever they come, as in SQL without bounds in time.

        `.select(*columns)` says what is made of two rows that meet. Both sides are kept for ever, or
        `.time_to_live(...)`.

        Raises:
            ProgramError: the other stream is of another environment or another job.
            StreamTypeError: it has no keys, or rows of one of the two take the place of earlier ones.
        """
        if not isinstance(other, RegularJoinVerb):
            raise StreamTypeError(
                f"regular_join after {self._origins} takes another keyed stream, as key_by(...) gives it, not a"
                f" {type(other).__name__}"
            )
        what = f"regular_join of {self._origins} with {other._origins}"
        check_one_program(what, self._program, other._program)
        for each in (self, other):
            if each._type.changelog.keys is not None:
                raise StreamTypeError(
                    f"{what}: the rows of {each._origins} are {each._type.changelog}, and results of a row that changes"
                    " would stay"
                )
        return RegularJoined(self, other, _Settings())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    """A regular join, before it is said what is made of rows that meet."""

    time_to_live_ms: int | None = None
    condition: Column | str | None = None


class RegularJoined(NamesElsewhere):
    """Two keyed streams, whose rows meet whenever they come."""

    _foreign_names = ("regular_join",)

    def __init__(self, left: KeyedRows, right: KeyedRows, settings: _Settings) -> None:
        self._left = left
        self._right = right
        self._settings = settings

    def time_to_live(self, duration: Duration) -> RegularJoined:
        """Keep a row no longer than this after it came, by processing time: rows that come later do not meet it.

        What meets then depends on when rows come, and a run may give other results than the one before. Where event
        time is to decide, `interval_join(...)` does.

        Raises:
            DurationError: it cannot be read.
        """
        return self._with(time_to_live_ms=duration_ms(duration, "time-to-live"))

    def on(self, condition: Column | str) -> RegularJoined:
        """Let rows meet only where a condition is true as well, over `left.` and `right.` columns."""
        return self._with(condition=condition)

    def select(self, *columns: Column | str) -> DataStream:
        """Make a row of these columns of two rows that meet, as soon as both are there; results have no event time.

        `left.name` and `right.name` are columns of the two sides, in strings and in `F.col(...)`; `name` alone is one
        that only one side has, and `left.*` all of a side. Only what is read of a row is exchanged and kept.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column does not fit the streams, both have it, or two results have one name; or the keys
                differ in number or type.
        """
        name = f"regular_join({listed(*columns)})"
        what = f"{name} of {self._left._origins} with {self._right._origins}"
        if not columns:
            raise ProgramError(f"{what} needs at least one column, such as 'left.*'")
        settings, left_inputs = self._settings, self._left._inputs

        def draft(left: JoinSide, right: JoinSide) -> RegularJoinCode:
            return RegularJoinCode.of(
                left,
                right,
                columns=columns,
                condition=settings.condition,
                left_gates=len(left_inputs),
                time_to_live_ms=settings.time_to_live_ms,
            )

        has_arrivals = settings.time_to_live_ms is not None
        left, right = (
            JoinedRows(prototype=side._type.prototype, keys=side._keys, event_time=None, has_arrivals=has_arrivals)
            for side in (self._left, self._right)
        )
        prototype, code = tried(what, lambda: pairs(left, right, draft))
        made = add_join(self._left._program, name, code, left_inputs, self._right._inputs)
        return self._left._emitted(made, StreamType(prototype=prototype, event_time=None))

    def _with(self, **settings: Any) -> RegularJoined:
        return RegularJoined(self._left, self._right, replace(self._settings, **settings))
