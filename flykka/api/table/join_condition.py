"""Splits the condition of a join of two streams into keys, bounds of the event times, and remaining conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flykka.actors.machines.joins.interval_segments import UNBOUNDED_MS, Interval
from flykka.api.table.relation import IsEventTime, IsWindow, IsWindowStart, Role, Rows
from flykka.spark_bridge.functions.times import MICROS_PER_MS, in_ms
from flykka.spark_bridge.operators.join import Side
from flykka.spark_bridge.sql.plan_columns import struct_of
from flykka.spark_bridge.sql.plan_node import Expression

if TYPE_CHECKING:
    from flykka.spark_bridge.program.prototype import Column

_COMPARISONS = {
    "EqualTo": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    left: Expression
    right: Expression
    matches_null: bool = False

    def matched(self, value: Column) -> Column:
        """Return a key value that is null only if it matches nothing; a null-safe equality wraps values in a struct."""
        return struct_of(value) if self.matches_null else value

    def of(self, side: Side) -> Expression:
        return self.left if side is Side.LEFT else self.right


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinCondition:
    """The parts of a join condition, which must all hold.

    `interval` bounds the difference of the two event times, None if unbounded. `rest` is evaluated for each pair of
    rows. If `is_of_windows` is True, both rows are results of the same window.
    """

    keys: tuple[Key, ...]
    interval: Interval | None
    rest: tuple[Expression, ...]
    is_of_windows: bool


def taken_apart(condition: Sequence[Expression], sides: Mapping[Side, Rows]) -> JoinCondition:
    parts = _Parts(sides)
    for each in condition:
        parts.add(each)
    return parts.condition


class _Parts:
    def __init__(self, sides: Mapping[Side, Rows]) -> None:
        self._sides = sides
        self._keys: list[Key] = []
        self._rest: list[Expression] = []
        self._lower, self._upper = (-UNBOUNDED_MS, True), (UNBOUNDED_MS, True)
        self._is_of_windows = False

    @property
    def condition(self) -> JoinCondition:
        (lower, lower_inclusive), (upper, upper_inclusive) = self._lower, self._upper
        interval = Interval(
            lower_ms=lower, upper_ms=upper, is_lower_inclusive=lower_inclusive, is_upper_inclusive=upper_inclusive
        )
        return JoinCondition(
            keys=tuple(self._keys),
            interval=interval if interval.has_lower_bound or interval.has_upper_bound else None,
            rest=tuple(self._rest),
            is_of_windows=self._is_of_windows,
        )

    def add(self, condition: Expression) -> None:
        key = self._key(condition) if condition.kind in ("EqualTo", "EqualNullSafe") else None
        if key is not None:
            self._keys.append(key)
            self._is_of_windows |= self._have_one_window(key)
        bounds = [self._is_bound(*each) for each in _comparisons(condition)]
        if key is None and not (bounds and all(bounds)):
            self._rest.append(condition)

    def _key(self, condition: Expression) -> Key | None:
        first, second = condition.children
        of = self._side(first), self._side(second)
        matches_null = condition.kind == "EqualNullSafe"
        if of == (Side.LEFT, Side.RIGHT):
            return Key(left=first, right=second, matches_null=matches_null)
        is_mirrored = of == (Side.RIGHT, Side.LEFT)
        return Key(left=second, right=first, matches_null=matches_null) if is_mirrored else None

    def _side(self, expression: Expression) -> Side | None:
        """Return the side whose columns an expression reads; None if it reads both sides or no column."""
        read = expression.columns
        return next((side for side, rows in self._sides.items() if read and read <= rows.names.keys()), None)

    def _have_one_window(self, key: Key) -> bool:
        """Return True if a key makes the windows of both rows equal, and record that their event times are equal.

        The event time of a window result is the window end. Equal window starts suffice if the windows have the same
        size.
        """
        before_end = {self._ms_before_end(key.of(side), self._sides[side]) for side in Side}
        if len(before_end) > 1 or None in before_end or not all(map(self._offset, Side)):
            return False
        self._bound("=", self._offset(Side.RIGHT) - self._offset(Side.LEFT))
        return True

    def _ms_before_end(self, expression: Expression, rows: Rows) -> int | None:
        """Return the milliseconds from an expression to its window's end, 0 for a window or its end, or None."""
        match self._role(expression, rows):
            case IsWindow() | IsEventTime():
                return 0
            case IsWindowStart(size_ms=size_ms):
                return size_ms
        return None

    def _role(self, expression: Expression, rows: Rows) -> Role | None:
        """Return the role of a time expression; None if event times do not restrict which rows match."""
        if not _has_times(rows):
            return None
        if expression.kind != "GetStructField":
            return rows.roles.get(expression.column_id)
        window = rows.roles.get(expression.children[0].column_id)
        return window.part(expression.field) if isinstance(window, IsWindow) else None

    def _is_bound(self, first: Expression, comparison: str, second: Expression) -> bool:
        """Record the bound of a comparison of event times; True if the comparison contains no other condition."""
        one, other = self._term(first), self._term(second)
        if one is None or other is None:
            return False
        term = one.plus(other, -1)
        if (term.left, term.right) == (1, -1):
            term, comparison = term.times(-1), _MIRRORED[comparison]
        if (term.left, term.right) != (-1, 1):
            return False
        self._bound(comparison, self._offset(Side.RIGHT) - self._offset(Side.LEFT) - term.micros)
        return term.micros % MICROS_PER_MS == 0

    def _bound(self, comparison: str, micros: int) -> None:
        """Record a bound, in microseconds, of the right event time minus the left event time.

        Intervals have millisecond precision, so other values are rounded up.
        """
        is_inclusive = comparison not in "<>" or micros % MICROS_PER_MS != 0
        if comparison[0] in "=>":
            lower = in_ms(micros), is_inclusive
            self._lower = max(self._lower, lower, key=lambda bound: (bound[0], not bound[1]))
        if comparison[0] in "=<":
            upper = -in_ms(-micros), is_inclusive
            self._upper = min(self._upper, upper, key=lambda bound: (bound[0], bound[1]))

    def _offset(self, side: Side) -> int:
        """Return the microseconds from the value in a side's event-time column to the event time."""
        event_time = self._sides[side].stream.flow.type.event_time
        return 0 if event_time is None else event_time.offset_ms * MICROS_PER_MS

    def _term(self, expression: Expression) -> _Term | None:
        """Return an expression as a sum of event times and a constant; None if it has another form."""
        for side, rows in self._sides.items():
            role = self._role(expression, rows)
            if isinstance(role, IsEventTime | IsWindowStart):
                before_end = 0 if isinstance(role, IsEventTime) else role.size_ms * MICROS_PER_MS
                return _Term(left=int(side is Side.LEFT), right=int(side is Side.RIGHT), micros=-before_end)
        if expression.is_constant:
            micros = _micros(expression)
            return None if micros is None else _Term(micros=micros)
        terms = [self._term(each) for each in expression.children]
        match (expression.kind, *terms):
            case "Cast", _Term() as term if expression.is_time_cast:
                return term
            case "DatetimeSub", _Term() as term:
                return term
            case "TimestampAddInterval", _Term() as term, _Term() as added:
                return term.plus(added)
            case "SubtractTimestamps", _Term() as term, _Term() as taken:
                return term.plus(taken, -1)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Term:
    left: int = 0
    right: int = 0
    micros: int = 0

    def times(self, factor: int) -> _Term:
        return _Term(left=self.left * factor, right=self.right * factor, micros=self.micros * factor)

    def plus(self, other: _Term, factor: int = 1) -> _Term:
        added = other.times(factor)
        return _Term(left=self.left + added.left, right=self.right + added.right, micros=self.micros + added.micros)


def _has_times(rows: Rows) -> bool:
    """True if event times restrict which rows match; changing rows have no end of validity."""
    return rows.stream.flow.type.event_time is not None and rows.stream.changelog.keys is None


def _comparisons(condition: Expression) -> Iterator[tuple[Expression, str, Expression]]:
    if condition.kind == "Between":
        value, lower, upper = condition.between
        yield value, ">=", lower
        yield value, "<=", upper
    elif condition.kind in _COMPARISONS:
        first, second = condition.children
        yield first, _COMPARISONS[condition.kind], second


def _micros(constant: Expression) -> int | None:
    """Return the length of a constant interval in microseconds; None if it depends on the calendar."""
    if not constant.type_name.startswith("interval") or "month" in constant.type_name or "year" in constant.type_name:
        return None
    if constant.type_name != "interval":
        return None if constant.value is None else int(constant.value)
    months, days, micros = constant.interval
    return None if months else days * 86_400_000_000 + micros
