"""Temporal joins in SQL: FOR SYSTEM_TIME AS OF the event time of the left stream, after the name of the right
stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.join_operators import add_temporal_join
from flykka.api.streams.program import check_one_program
from flykka.api.streams.stream_type import StreamType
from flykka.api.table.join_condition import Key, taken_apart
from flykka.api.table.refusals import RefusedError, without_event_time
from flykka.api.table.relation import IsEventTime, Relation, Role, Rows, distinct, label, relation_of
from flykka.spark_bridge.functions.event_time import EventTime
from flykka.spark_bridge.operators.join import Side
from flykka.spark_bridge.operators.join_side import JoinedRows
from flykka.spark_bridge.operators.temporal_join import TemporalJoin
from flykka.spark_bridge.sql.as_of_clause import FORM
from flykka.spark_bridge.sql.plan_columns import PlanColumns, named_of

if TYPE_CHECKING:
    from flykka.spark_bridge.program.prototype import Column
    from flykka.spark_bridge.sql.as_of_clause import AsOfClause
    from flykka.spark_bridge.sql.plan_node import Expression, PlanNode, Position

_KINDS = {"INNER": False, "CROSS": False, "LEFT OUTER": True}


class AsOfClauses:
    """The FOR SYSTEM_TIME AS OF clauses of a query, each to be matched with a join."""

    def __init__(self, clauses: Sequence[AsOfClause]) -> None:
        self._left = {clause.table: clause for clause in clauses}

    @property
    def is_empty(self) -> bool:
        return not self._left

    def of(self, join: PlanNode) -> AsOfClause | None:
        """Remove and return the clause at the right side of a join; None without a clause."""
        place = self._place(join)
        return None if place is None else self._left.pop(place)

    def is_temporal(self, join: PlanNode) -> bool:
        return self._place(join) is not None

    def _place(self, join: PlanNode) -> Position | None:
        node = join.children[1]
        while node.position not in self._left:
            if node.kind not in ("SubqueryAlias", "View") or node.view_name is not None:
                return None
            (node,) = node.children
        return node.position

    def check(self) -> None:
        """Raise `RefusedError` if a clause belongs to no join."""
        for clause in self._left.values():
            raise refused_clause(clause)


def refused_clause(clause: AsOfClause) -> RefusedError:
    return RefusedError(
        f"FOR SYSTEM_TIME AS OF {clause.display_name} belongs at the right side of a JOIN of two streams, after a"
        f" stream of versions: {FORM}",
        clause.position,
    )


def column_of(clause: AsOfClause, join: PlanNode) -> int:
    """Return the id of the column that a clause names, which must be a column of the left side.

    Raises:
        RefusedError: the left side has no such column.
    """
    left, right = join.children
    found = left.columns_named(clause.column)
    if len(found) == 1:
        return found[0].id
    if len(found) > 1:
        why = f"several columns of the left side are named {clause.display_name}"
    elif right.columns_named(clause.column):
        why = f"{clause.display_name} is a column of the right side; the time must be the event time of the left one"
    else:
        why = f"the left side has no column {clause.display_name}, only {', '.join(each.name for each in left.output)}"
    raise RefusedError(f"FOR SYSTEM_TIME AS OF {clause.display_name}: {why}, as in {FORM}", clause.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeOfVersion:
    """The id of the column whose time selects the version, and the clause that names the column."""

    column: int
    clause: AsOfClause

    @property
    def position(self) -> Position:
        return self.clause.position


def temporally_joined(
    node: PlanNode, left: Relation, right: Relation, time: TimeOfVersion, read: frozenset[int]
) -> Relation:
    """Plan a temporal join; `read` are the ids of the result columns that the query reads.

    Raises:
        RefusedError: the join type is not supported, the time is not the event time of the left stream, a side has no
            event time, the left rows change, or the ON has no equality with the key of the right side.
    """
    if left.is_changing:
        raise RefusedError(
            f"the left side of a temporal JOIN cannot be rows that are {left.stream.changelog}, as each has one time",
            node.position,
        )
    return _TemporalJoin(node, {Side.LEFT: left.settled(), Side.RIGHT: right.settled()}, time, read).relation()


class _TemporalJoin:
    def __init__(self, node: PlanNode, sides: Mapping[Side, Rows], time: TimeOfVersion, read: frozenset[int]) -> None:
        self._node = node
        self._sides = sides
        self._time = time
        self._read = read
        self._keys: list[Key] = []
        self._rest: list[Expression] = []

    def relation(self) -> Relation:
        self._check_kind()
        self._check_times()
        self._take_apart()
        output = tuple(each for each in self._node.output if each.id in self._read)
        names = distinct(each.name for each in output)
        left, time = self._sides[Side.LEFT], self._event_time(Side.LEFT)
        called = (name for each, name in zip(output, names, strict=True) if each.id == self._time.column)
        event_time = next((EventTime(column=name, offset_ms=time.offset_ms) for name in called), None)
        roles: dict[int, Role] = {
            each.id: IsEventTime() for each in output if isinstance(left.roles.get(each.id), IsEventTime)
        }
        made = [self._column(each.id).alias(name) for each, name in zip(output, names, strict=True)]
        rows = Rows(
            stream=self._stream(made, event_time),
            output=output,
            called=names,
            roles={} if event_time is None else roles,
        )
        return relation_of(rows, self._node)

    def _check_kind(self) -> None:
        if self._node.join_type not in _KINDS:
            raise RefusedError(
                f"{self._node.join_type} JOIN FOR SYSTEM_TIME AS OF cannot run: the next row may match a version that"
                " had no match. JOIN and LEFT JOIN can",
                self._node.position,
            )

    def _check_times(self) -> None:
        clause = self._time.clause
        left, right = (self._sides[side] for side in Side)
        what = f"FOR SYSTEM_TIME AS OF {clause.display_name}"
        event_time = left.stream.flow.type.event_time
        if event_time is None:
            raise RefusedError(
                f"{what}: the left stream has no event time: {without_event_time(left.stream)}",
                self._time.position,
            )
        if not isinstance(left.roles.get(self._time.column), IsEventTime):
            raise RefusedError(
                f"{what}: the time must be the event time of the left stream, which is"
                f" {event_time.column}: FOR SYSTEM_TIME AS OF {event_time.column}",
                self._time.position,
            )
        if right.stream.flow.type.event_time is None:
            raise RefusedError(
                f"{what}: the right stream has no event time, from which a version is valid:"
                f" {without_event_time(right.stream)}",
                self._time.position,
            )
        check_one_program(f"{self._node.join_type} JOIN", left.stream.flow.program, right.stream.flow.program)

    def _take_apart(self) -> None:
        """Split the condition into keys and the rest; if the versions have a key, only its columns become keys."""
        right = self._sides[Side.RIGHT]
        wanted = right.stream.changelog.keys
        condition = self._node.condition
        for each in () if condition is None else condition.conjuncts():
            keys = taken_apart((each,), self._sides).keys
            if keys and (wanted is None or right.names.get(keys[0].right.column_id) in wanted):
                self._keys += keys
            else:
                self._rest.append(each)
        of_right = {right.names.get(key.right.column_id) for key in self._keys}
        missing = [key for key in wanted or () if key not in of_right]
        if missing:
            raise RefusedError(
                f"the right stream consists of {right.stream.changelog}: its versions have this key, so ON must contain"
                f" an equality of {', '.join(missing)} with an expression of the left stream",
                self._node.position,
            )
        if not self._keys:
            raise RefusedError(
                f"{self._node.join_type} JOIN FOR SYSTEM_TIME AS OF needs an equality between both streams in its ON,"
                " such as o.currency = r.currency, which selects the versions of the right stream",
                self._node.position,
            )

    def _stream(self, made: Sequence[Column], event_time: EventTime | None) -> DataStream:
        left, right = (self._sides[side].stream for side in Side)
        ids = {column: (side.value, name) for side, rows in self._sides.items() for column, name in rows.names.items()}
        columns = PlanColumns(left.flow.type.prototype.sparkSession, ids)
        rest = [columns.column(each) for each in self._rest]
        prototype, code, parts = TemporalJoin(
            left=self._joined(Side.LEFT),
            right=self._joined(Side.RIGHT),
            columns=tuple(made),
            condition=reduce(and_, rest) if rest else None,
            is_outer=_KINDS[self._node.join_type],
            row_kind=right.changelog.row_kind,
        ).code()
        name = label("temporal_join", (f"{key.left.display_name} = {key.right.display_name}" for key in self._keys))
        joined = add_temporal_join(left.flow, right.flow, name, code, parts)
        return DataStream(left.flow.emitted(joined, StreamType(prototype=prototype, event_time=event_time)))

    def _joined(self, side: Side) -> JoinedRows:
        rows = self._sides[side]
        keys = tuple(rows.columns.column(key.of(side)) for key in self._keys)
        return JoinedRows(prototype=rows.stream.flow.type.prototype, keys=keys, event_time=self._event_time(side))

    def _event_time(self, side: Side) -> EventTime:
        event_time = self._sides[side].stream.flow.type.event_time
        assert event_time is not None, "the left stream has no event time"
        return event_time

    def _column(self, column: int) -> Column:
        side = next(side for side, rows in self._sides.items() if column in rows.names)
        return named_of(side.value, self._sides[side].names[column])
