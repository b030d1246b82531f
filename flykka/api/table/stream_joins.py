"""Joins of two streams in SQL: an interval join if the condition bounds their event times, else a regular join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.join_operators import add_join
from flykka.api.streams.program import check_one_program
from flykka.api.streams.stream_type import APPEND_ONLY, StreamType
from flykka.api.table.join_condition import taken_apart
from flykka.api.table.refusals import RefusedError
from flykka.api.table.relation import (
    IsEventTime,
    IsWindow,
    IsWindowStart,
    Relation,
    Role,
    Rows,
    distinct,
    label,
    relation_of,
)
from flykka.api.table.weighted import joined
from flykka.spark_bridge.functions.event_time import OF_WINDOWS, WINDOW_END, EventTime
from flykka.spark_bridge.operators.join import Side
from flykka.spark_bridge.operators.join_code import IntervalJoinCode, PairsCode, RegularJoinCode, pairs
from flykka.spark_bridge.operators.join_side import JoinedRows, JoinSide
from flykka.spark_bridge.sql.plan_columns import PlanColumns, first_of, named, named_of, null_of

if TYPE_CHECKING:
    from flykka.api.streams.dataflow import Dataflow
    from flykka.spark_bridge.program.prototype import Column
    from flykka.spark_bridge.sql.plan_node import Attribute, PlanNode


_OUTER: Mapping[str, frozenset[Side]] = {
    "INNER": frozenset(),
    "CROSS": frozenset(),
    "LEFT OUTER": frozenset([Side.LEFT]),
    "RIGHT OUTER": frozenset([Side.RIGHT]),
    "FULL OUTER": frozenset(Side),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSettings:
    read: frozenset[int]
    time_to_live_ms: int | None


def streams_joined(node: PlanNode, kind: str, left: Relation, right: Relation, settings: JoinSettings) -> Relation:
    """Plan a join of two streams.

    Raises:
        RefusedError: no rows can match.
    """
    sides = {side: each.settled(carries_keys=True) for side, each in ((Side.LEFT, left), (Side.RIGHT, right))}
    return _Join(node, kind, sides, settings).relation()


class _Join:
    def __init__(self, node: PlanNode, kind: str, sides: dict[Side, Rows], settings: JoinSettings) -> None:
        self._node = node
        self._kind = kind
        self._sides = sides
        self._settings = settings
        self._condition = taken_apart(() if node.condition is None else tuple(node.condition.conjuncts()), sides)

    def relation(self) -> Relation:
        """Return the joined rows, with only the columns that the query reads."""
        condition, interval = self._condition, self._condition.interval
        is_changing = any(rows.stream.changelog != APPEND_ONLY for rows in self._sides.values())
        is_total = not condition.keys or (interval is None and bool(_OUTER.get(self._kind)))
        if is_changing or self._kind not in _OUTER or is_total:
            read = self._settings.read | self._node.columns_read
            return joined(self._node, self._sides, condition, read, self._settings.time_to_live_ms)
        self._check()
        output = tuple(each for each in self._node.output if each.id in self._settings.read)
        names = distinct((each.name for each in output), taken=(WINDOW_END,) if condition.is_of_windows else ())
        event_time, roles = self._times(output, names)
        stream = self._stream(output, names, event_time)
        if interval is not None and not condition.is_of_windows:
            timeless = [self._without_time(side, output, names) for side in Side if self._meets_none_without_time(side)]
            stream = stream.union(*timeless) if timeless else stream
        return relation_of(Rows(stream=stream, output=output, called=names, roles=roles), self._node)

    def _check(self) -> None:
        interval = self._condition.interval
        if interval is not None and interval.is_empty:
            raise RefusedError(
                f"no rows can match in this {self._kind} JOIN: no difference of the two event times is within the"
                " bounds in its ON",
                self._node.position,
            )
        left, right = (self._sides[side].stream for side in Side)
        check_one_program(f"{self._kind} JOIN", left.flow.program, right.flow.program)

    def _times(self, output: Sequence[Attribute], names: Sequence[str]) -> tuple[EventTime | None, dict[int, Role]]:
        """Return the result's event-time column and column roles, or `(None, {})` if results could be late.

        An interval join has the event time of the row that is always later. A window join emits its results before the
        watermark passes the window end.
        """
        if self._condition.is_of_windows:
            return self._of_windows(output, names)
        interval = self._condition.interval
        if interval is None or _OUTER[self._kind]:
            return None, {}
        later = Side.RIGHT if interval.lower_ms >= 0 else Side.LEFT if interval.upper_ms <= 0 else None
        if later is None:
            return None, {}
        roles = self._sides[later].roles
        for each, name in zip(output, names, strict=True):
            if isinstance(roles.get(each.id), IsEventTime):
                offset_ms = self._event_time(later).offset_ms
                return EventTime(column=name, offset_ms=offset_ms), {each.id: IsEventTime()}
        return None, {}

    def _of_windows(self, output: Sequence[Attribute], names: Sequence[str]) -> tuple[EventTime, dict[int, Role]]:
        """Return the event-time column and column roles of a window join, taken from a side that is never null."""
        roles: dict[int, Role] = {}
        for side, rows in self._sides.items():
            if _OUTER[self._kind] <= {side}:
                roles.update(
                    {c: r for c, r in rows.roles.items() if isinstance(r, IsWindow | IsWindowStart | IsEventTime)}
                )
        kept = {each.id: roles[each.id] for each in output if each.id in roles}
        ends = (name for each, name in zip(output, names, strict=True) if isinstance(kept.get(each.id), IsEventTime))
        end = next(ends, None)
        return (OF_WINDOWS if end is None else EventTime(column=end, offset_ms=OF_WINDOWS.offset_ms)), kept

    def _stream(self, output: Sequence[Attribute], names: Sequence[str], event_time: EventTime | None) -> DataStream:
        left = self._sides[Side.LEFT].stream
        ids = {column: (side.value, name) for side, rows in self._sides.items() for column, name in rows.names.items()}
        made = [named_of(*ids[each.id]).alias(name) for each, name in zip(output, names, strict=True)]
        if event_time == OF_WINDOWS:
            made.append(self._end().alias(WINDOW_END))
        columns = PlanColumns(left.flow.type.prototype.sparkSession, ids)
        rest = [columns.column(each) for each in self._condition.rest]
        condition = reduce(and_, rest) if rest else None

        def draft(one: JoinSide, other: JoinSide) -> PairsCode:
            return self._code(one, other, tuple(made), condition, len(left.flow.inputs))

        prototype, code = pairs(self._joined(Side.LEFT), self._joined(Side.RIGHT), draft)
        name = label(
            code.called, (f"{key.left.display_name} = {key.right.display_name}" for key in self._condition.keys)
        )
        joined = add_join(self._keyed(Side.LEFT), self._keyed(Side.RIGHT), name, code)
        return DataStream(left.flow.emitted(joined, StreamType(prototype=prototype, event_time=event_time)))

    def _meets_none_without_time(self, side: Side) -> bool:
        """True if an outer join emits unmatched rows of the side, and the side's event time may be null."""
        schema = self._sides[side].stream.schema
        return side in _OUTER[self._kind] and schema[self._event_time(side).column].nullable

    def _without_time(self, side: Side, output: Sequence[Attribute], names: Sequence[str]) -> DataStream:
        """Return the results for rows without an event time, which match no other row because no bound holds."""
        rows, other = self._sides[side], self._sides[side.other]
        columns = [
            named(rows.names[each.id])
            if each.id in rows.names
            else null_of(other.stream.schema[other.names[each.id]].dataType)
            for each in output
        ]
        timeless = rows.stream.where(named(self._event_time(side).column).isNull())
        selected = timeless.select(*(column.alias(name) for column, name in zip(columns, names, strict=True)))
        return selected.name(label(f"rows of the {side} side without an event time", names))

    def _code(
        self, left: JoinSide, right: JoinSide, columns: tuple[Column, ...], condition: Column | None, gates: int
    ) -> PairsCode:
        interval, outer = self._condition.interval, _OUTER[self._kind]
        if interval is None:
            return RegularJoinCode.of(
                left,
                right,
                columns=columns,
                condition=condition,
                left_gates=gates,
                time_to_live_ms=self._settings.time_to_live_ms,
            )
        return IntervalJoinCode(
            left=left,
            right=right,
            interval=interval,
            columns=columns,
            condition=condition,
            outer=outer,
            left_gates=gates,
        )

    def _joined(self, side: Side) -> JoinedRows:
        rows = self._sides[side]
        prototype, keys = rows.stream.flow.type.prototype, self._keys(side)
        if self._condition.interval is None:
            return JoinedRows(
                prototype=prototype,
                keys=keys,
                event_time=None,
                has_arrivals=self._settings.time_to_live_ms is not None,
            )
        return JoinedRows(prototype=prototype, keys=keys, event_time=self._event_time(side))

    def _event_time(self, side: Side) -> EventTime:
        """Return the event time that decides how long rows are kept.

        A window join uses one millisecond less, so that unmatched rows are emitted before they would be late.
        """
        event_time = self._sides[side].stream.flow.type.event_time
        assert event_time is not None, "the condition bounds event times, but a side has none"
        if not self._condition.is_of_windows:
            return event_time
        return EventTime(column=event_time.column, offset_ms=event_time.offset_ms - 1)

    def _keyed(self, side: Side) -> Dataflow:
        return self._sides[side].stream.flow.keyed(self._keys(side))

    def _keys(self, side: Side) -> tuple[Column, ...]:
        columns = self._sides[side].columns
        return tuple(key.matched(columns.column(key.of(side))) for key in self._condition.keys)

    def _end(self) -> Column:
        return first_of(*(named_of(side, self._event_time(side).column) for side in Side))
