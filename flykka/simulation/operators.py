"""Operators of a simulated job, by uid. They are functions of single rows, so that the expected output is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from flykka.actors.machines.joins.interval_segments import UNBOUNDED_MS, Interval
from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
from flykka.simulation.rows import Row, Rows, mixed
from flykka.spark_bridge.operators.join import Side

_VALUES = 1_000_003


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Emits `rows` rows in splits, which are discovered over time.

    Event times increase by `step_ms`, out of order by at most `disorder_ms`.
    """

    number: int
    rows: int
    keys: int
    step_ms: int
    disorder_ms: int
    rows_per_split: int
    splits_per_look: int
    interval_ms: int | None

    def read(self, start: int, count: int) -> Rows:
        return tuple(map(self._row, range(start, start + count)))

    def _row(self, index: int) -> Row:
        number_mix = mixed(self.number, index)
        late_ms = number_mix % (self.disorder_ms + 1)
        number = self.number * 1_000_000 + index
        time_ms = max(0, index * self.step_ms - late_ms)
        return Row(key=(number_mix >> 16) % self.keys, time_ms=time_ms, parts=((number, (number_mix >> 32) % _VALUES),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    salt: int

    def apply(self, rows: Iterable[Row]) -> Rows:
        return tuple(
            Row(
                row.key, row.time_ms, tuple((number, (value * 31 + self.salt) % _VALUES) for number, value in row.parts)
            )
            for row in rows
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Retains `passing_percent` percent of the source rows in each row."""

    salt: int
    passing_percent: int

    def apply(self, rows: Iterable[Row]) -> Rows:
        """Filter the source rows, and drop rows that retain none."""
        filtered = (Row(row.key, row.time_ms, tuple(filter(self._passes, row.parts))) for row in rows)
        return tuple(row for row in filtered if row.parts)

    def _passes(self, part: tuple[int, int]) -> bool:
        return mixed(self.salt, part[0]) % 100 < self.passing_percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Event-time windows by key. Each window emits one row, whose time is the window's last millisecond."""

    windows: EventTimeWindows

    def start_of(self, time_ms: int) -> int:
        return self.windows.next_start(time_ms) - self.windows.slide_ms

    def fired(self, rows: Iterable[Row]) -> Rows:
        together: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for row in rows:
            together.setdefault((self.start_of(row.time_ms), row.key), []).extend(row.parts)
        size_ms = self.windows.size_ms
        return tuple(
            Row(key, start_ms + size_ms - 1, tuple(sorted(parts)))
            for (start_ms, key), parts in sorted(together.items())
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """Buffers rows in keyed state until a timer fires, which emits one row for each source row in them.

    An event-time timer fires `delay_ms` after a row's time, which is also the time of the emitted rows. With
    `in_processing_time`, a processing-time timer, `delay_ms` after the row's arrival, may fire earlier. With
    `has_two_inputs`, the function has a method for each input, and one state for both.
    """

    delay_ms: int
    in_processing_time: bool
    has_two_inputs: bool = False

    def released(self, rows: Iterable[Row]) -> Rows:
        return tuple(Row(row.key, row.time_ms + self.delay_ms, (part,)) for row in rows for part in row.parts)


_WHENEVER = Interval(lower_ms=-UNBOUNDED_MS, upper_ms=UNBOUNDED_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Joins rows with equal keys: those of the first `left_inputs` inputs with those of the others.

    Rows match if their times are within `bounds`. In a regular join `bounds` is None, and all rows match. The time of a
    pair is the later of the two times. Unmatched rows of `outer` sides are emitted as well, with the first time at
    which they are known to be unmatched.
    """

    left_inputs: int
    bounds: Interval | None = None
    outer: tuple[Side, ...] = ()

    @property
    def interval(self) -> Interval:
        return _WHENEVER if self.bounds is None else self.bounds

    def results(self, left: Rows, right: Rows) -> Rows:
        sides = {Side.LEFT: left, Side.RIGHT: right}
        alone = (self.unmatched(side, sides[side], sides[side.other]) for side in self.outer)
        return (*self.pairs(left, right), *(row for rows in alone for row in rows))

    def pairs(self, left: Rows, right: Rows) -> Rows:
        """Return a row for each matching pair. Its source rows are all pairs of the source rows of both."""
        return tuple(
            Row(
                row.key,
                max(row.time_ms, other.time_ms),
                tuple(_pair(part, other_part) for part in row.parts for other_part in other.parts),
            )
            for row, others in self._matches(Side.LEFT, left, right)
            for other in others
        )

    def unmatched(self, side: Side, rows: Rows, others: Rows) -> Rows:
        through_ms = self.interval_of(side).through_after_ms
        return tuple(
            Row(row.key, row.time_ms + through_ms + 1, tuple(_alone(side, part) for part in row.parts))
            for row, matches in self._matches(side, rows, others)
            if not matches
        )

    def interval_of(self, side: Side) -> Interval:
        return self.interval if side is Side.LEFT else self.interval.reversed

    def _matches(self, side: Side, rows: Rows, others: Rows) -> Iterable[tuple[Row, list[Row]]]:
        by_key: dict[int, list[Row]] = {}
        for other in others:
            by_key.setdefault(other.key, []).append(other)
        interval = self.interval_of(side)
        for row in rows:
            matches = [each for each in by_key.get(row.key, ()) if _is_in(interval, each.time_ms - row.time_ms)]
            yield row, matches


def _is_in(interval: Interval, later_ms: int) -> bool:
    is_above = later_ms >= interval.lower_ms if interval.is_lower_inclusive else later_ms > interval.lower_ms
    is_below = later_ms <= interval.upper_ms if interval.is_upper_inclusive else later_ms < interval.upper_ms
    return is_above and is_below


def _pair(left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    """Combine two source rows: the new number's digits are both numbers, incremented. 0 stands for no match."""
    return int(f"{left[0] + 1}{right[0] + 1:08}"), mixed(left[1], right[1]) % _VALUES


def _alone(side: Side, part: tuple[int, int]) -> tuple[int, int]:
    no_row = (-1, 0)
    return _pair(part, no_row) if side is Side.LEFT else _pair(no_row, part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """Marks every row with the number of its input, which is read after the exchange."""

    number: int

    def apply(self, rows: Iterable[Row]) -> Rows:
        return tuple(replace(row, input=self.number) for row in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    name: str


Behaviour = Source | Map | Filter | Window | Process | Join | Tag | Sink


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    behaviours: Mapping[str, Behaviour] = field(default_factory=dict)

    def __getitem__(self, uid: str) -> Behaviour:
        return self.behaviours[uid]

    @property
    def sinks(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.behaviours.values() if isinstance(each, Sink))
