"""Joins of two streams in SQL: an interval join if the condition bounds their event times, else a regular join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.join_operators import add_join
from flykka.api.streams.program import check_one_program
from flykka.api.streams.stream_type import Changelog, StreamType
from flykka.api.table.changing_rows import normalized, where_true, with_keys_in
from flykka.api.table.join_condition import taken_apart
from flykka.api.table.refusals import RefusedError
from flykka.api.table.relation import (
    IsEventTime,
    IsKey,
    IsWindow,
    IsWindowStart,
    Relation,
    Role,
    Rows,
    distinct,
    label,
    leaf,
    with_changelog,
)
from flykka.spark_bridge.functions.event_time import OF_WINDOWS, WINDOW_END, EventTime
from flykka.spark_bridge.operators.join import Side
from flykka.spark_bridge.operators.join_code import IntervalJoinCode, PairsCode, RegularJoinCode, pairs
from flykka.spark_bridge.operators.join_side import JoinedRows, JoinSide
from flykka.spark_bridge.rows.row_kind import ROW_KIND
from flykka.spark_bridge.sql.plan_columns import PlanColumns, first_of, named, named_of, null_of
from flykka.spark_bridge.sql.plan_node import COMPUTED
from flykka.spark_bridge.sql.row_kinds import constant, kind_of
from flykka.spark_bridge.sql.table_types import lists_type, with_kind
from flykka.spark_bridge.worker.changing_results import LEFT_ROWS, RIGHT_ROWS, JoinChanges, JoinSideRows

if TYPE_CHECKING:
    from flykka.api.streams.dataflow import Dataflow
    from flykka.api.table.join_condition import JoinCondition
    from flykka.spark_bridge.program.prototype import Column
    from flykka.spark_bridge.sql.plan_node import Attribute, PlanNode


_KINDS = {
    "INNER": "inner",
    "LEFT OUTER": "left",
    "RIGHT OUTER": "right",
    "FULL OUTER": "full",
    "LEFT SEMI": "semi",
    "LEFT ANTI": "anti",
}
_HALF = frozenset({"semi", "anti"})


def changing_join(node: PlanNode, kind: str, sides: Mapping[Side, Rows], condition: JoinCondition) -> Relation:
    """Plan a join whose results may change with later rows: upserts and deletes.

    Raises:
        RefusedError: a side has no keys to identify its rows, or the ON of an outer join is more than equalities of
            columns.
    """
    if kind not in _KINDS or not condition.keys:
        raise RefusedError(
            f"{kind} JOIN of two streams needs an equality of both in its ON, as in a.id = b.auction: it decides to"
            " which subtask matching rows go",
            node.position,
        )
    for side, rows in sides.items():
        if rows.stream.changelog.keys is None and not (kind in ("LEFT SEMI", "LEFT ANTI") and side is Side.RIGHT):
            raise RefusedError(
                f"{kind} JOIN of two streams: a new row of the other stream may change a result, but the rows of"
                f" the {side} one have no key to identify the result. Declare its PRIMARY KEY"
                " (create_temporary_view(name, stream, primary_key=...)), or bound the difference of the two event"
                " times in the ON, as in b.at BETWEEN a.at AND a.at + INTERVAL 10 MINUTES",
                node.position,
            )
    if condition.rest and kind != "INNER":
        raise RefusedError(
            f"{condition.rest[0].sql} in the ON of a {kind} JOIN of changing rows cannot run: such an ON can only have"
            " equalities of columns. A condition on one stream can be in a WHERE of a subquery of that stream",
            condition.rest[0].position or node.position,
        )
    return _ChangingJoin(node, _KINDS[kind], sides, condition).relation()


class _ChangingJoin:
    """A join of changing rows, in which the rows of both sides are united into one stream."""

    def __init__(self, node: PlanNode, kind: str, sides: Mapping[Side, Rows], condition: JoinCondition) -> None:
        self._node = node
        self._kind = kind
        self._condition = condition
        self._rows = {side: self._told_apart(side, rows) for side, rows in sides.items()}
        left, right = (self._rows[side] for side in Side)
        names = distinct([*left.called, *right.called], taken=[ROW_KIND])
        self._called = {Side.LEFT: names[: len(left.called)], Side.RIGHT: names[len(left.called) :]}
        self._keys = distinct([f"key_{place}" for place in range(len(condition.keys))], taken=[*names, ROW_KIND])
        (self._side,) = distinct(["side"], taken=[*names, *self._keys, ROW_KIND])

    def relation(self) -> Relation:
        left, right = (self._one_side(side) for side in Side)
        keyed = left.union(right).key_by(*self._keys)
        emitted = [*self._called[Side.LEFT], *(() if self._kind in _HALF else self._called[Side.RIGHT])]
        prototype = left.flow.type.prototype
        keys = self._result_keys
        function = JoinChanges(
            keys=self._keys,
            side=self._side,
            left=JoinSideRows(columns=self._called[Side.LEFT], row_keys=self._row_keys(Side.LEFT)),
            right=JoinSideRows(columns=self._called[Side.RIGHT], row_keys=self._row_keys(Side.RIGHT)),
            kind=self._kind,
            row_kind=ROW_KIND,
            result_keys=keys,
            emitted_kind=ROW_KIND,
        )
        schemas = {
            name: prototype.select(*map(named, self._called[side])).schema
            for name, side in ((LEFT_ROWS, Side.LEFT), (RIGHT_ROWS, Side.RIGHT))
        }
        joined = keyed.process_table(
            function,
            state=lists_type(**schemas),
            output=with_kind(prototype.select(*map(named, emitted)).schema, ROW_KIND),
        )
        joined.name(
            label("join", (f"{key.left.display_name} = {key.right.display_name}" for key in self._condition.keys))
        )
        stream = with_changelog(joined, Changelog(keys=keys, row_kind=ROW_KIND))
        ids = [attribute.id for side in Side for attribute in self._rows[side].output]
        named_keys = ((column, self._alike.get(name, name)) for column, name in zip(ids, emitted, strict=False))
        roles: dict[int, Role] = {column: IsKey(name=name) for column, name in named_keys if name in keys}
        rows = Rows(stream=stream, output=self._node.output, called=tuple(emitted), roles=roles)
        rest = [rows.columns.column(each) for each in self._condition.rest]
        return leaf(where_true(rows, reduce(and_, rest)) if rest else rows, self._node)

    def _told_apart(self, side: Side, rows: Rows) -> Rows:
        """Prepare the rows of a side; if the join key of a row may change, its retractions are added."""
        if rows.stream.changelog.keys is None:
            return rows
        keys = []
        for each in self._condition.keys:
            expression = each.of(side)
            if expression.column_id == COMPUTED:
                raise RefusedError(
                    f"{expression.sql} is computed from changing rows: compute it in a subquery, with a name, and"
                    " join by that",
                    expression.position or self._node.position,
                )
            keys.append(rows.names[expression.column_id])
        return rows if with_keys_in(rows, keys) else replace(rows, stream=normalized(rows.stream))

    def _row_keys(self, side: Side) -> tuple[str, ...]:
        """Return the columns that identify rows of a side: all, if only existence matters."""
        rows = self._rows[side]
        keys = rows.called if rows.stream.changelog.keys is None else rows.stream.changelog.keys
        called = dict(zip(rows.called, self._called[side], strict=True))
        return tuple(called[key] for key in keys)

    @property
    def _result_keys(self) -> tuple[str, ...]:
        """The keys of both sides, without those that follow from others.

        The join keys are among them: so a result that moves to another join key, and maybe to another subtask, is
        another result, whichever of the two changes comes first.
        """
        keys = [*self._row_keys(Side.LEFT), *self._joined_by(Side.LEFT)]
        if self._kind not in _HALF and not (self._kind != "right" and self._is_unique(Side.RIGHT)):
            keys += [*self._row_keys(Side.RIGHT), *self._joined_by(Side.RIGHT)]
        return tuple(dict.fromkeys(key for key in keys if key not in self._alike))

    @property
    def _alike(self) -> Mapping[str, str]:
        """The columns of the right side that equal columns of the left one in every result, mapped to these."""
        if self._kind != "inner":
            return {}
        left, right = (self._joined_by(side) for side in Side)
        return dict(zip(right, left, strict=True))

    def _is_unique(self, side: Side) -> bool:
        """True if there is at most one row of a side for each join key."""
        rows = self._rows[side]
        names = {rows.names.get(key.of(side).column_id) for key in self._condition.keys}
        return self._kind != "full" and set(rows.stream.changelog.keys or ()) <= names

    def _joined_by(self, side: Side) -> list[str]:
        """Return the columns of a side that are join keys; computed keys are left out."""
        rows = self._rows[side]
        called = dict(zip(rows.names, self._called[side], strict=True))
        found = (called.get(key.of(side).column_id) for key in self._condition.keys)
        return [name for name in found if name is not None]

    def _one_side(self, side: Side) -> DataStream:
        """Return the rows of a side with the columns of both, the keys, the side and the row kind."""
        rows = self._rows[side]
        columns, kind = rows.columns, rows.stream.changelog.row_kind
        made: list[Column] = []
        for each in Side:
            schema = self._rows[each].stream.flow.type.prototype.schema
            for name, called in zip(self._rows[each].called, self._called[each], strict=True):
                value = named(name) if each is side else null_of(schema[name].dataType)
                made.append(value.alias(called))
        keys = zip(self._condition.keys, self._keys, strict=True)
        made += [columns.column(key.of(side)).alias(name) for key, name in keys]
        is_right = constant(side is Side.RIGHT).alias(self._side)
        selected = rows.stream.select(*made, is_right, kind_of(kind).alias(ROW_KIND))
        return with_changelog(selected.name(f"{side} of join"), Changelog())


_OUTER: Mapping[str, frozenset[Side]] = {
    "INNER": frozenset(),
    "CROSS": frozenset(),
    "LEFT OUTER": frozenset([Side.LEFT]),
    "RIGHT OUTER": frozenset([Side.RIGHT]),
    "FULL OUTER": frozenset(Side),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSettings:
    """Settings of a join: the ids of columns that the query reads, and how long rows are kept."""

    read: frozenset[int]
    time_to_live_ms: int | None


def streams_joined(node: PlanNode, kind: str, left: Relation, right: Relation, settings: JoinSettings) -> Relation:
    """Plan a join of two streams.

    Raises:
        RefusedError: the condition has no equality of the two sides, or results would change later.
    """
    return _Join(node, kind, {Side.LEFT: left.settled(), Side.RIGHT: right.settled()}, settings).relation()


class _Join:
    """A join of two streams."""

    def __init__(self, node: PlanNode, kind: str, sides: dict[Side, Rows], settings: JoinSettings) -> None:
        self._node = node
        self._kind = kind
        self._sides = sides
        self._settings = settings
        self._condition = taken_apart(() if node.condition is None else tuple(node.condition.conjuncts()), sides)

    def relation(self) -> Relation:
        """Return the rows, with those columns of the node that are read."""
        condition, interval = self._condition, self._condition.interval
        is_changing = any(rows.stream.changelog.keys is not None for rows in self._sides.values())
        if is_changing or self._kind not in _OUTER or (interval is None and _OUTER[self._kind]):
            return changing_join(self._node, self._kind, self._sides, self._condition)
        self._check()
        output = tuple(each for each in self._node.output if each.id in self._settings.read)
        names = distinct((each.name for each in output), taken=(WINDOW_END,) if condition.is_of_windows else ())
        event_time, roles = self._times(output, names)
        stream = self._stream(output, names, event_time)
        if interval is not None and not condition.is_of_windows:
            timeless = [self._without_time(side, output, names) for side in Side if self._meets_none_without_time(side)]
            stream = stream.union(*timeless) if timeless else stream
        return Relation(
            stream=stream,
            attributes=tuple(each for each in self._node.part("output") if each.attribute.id in self._settings.read),
            output=output,
            roles=roles,
            left_out=frozenset(each.id for each in self._node.output) - {each.id for each in output},
        )

    def _check(self) -> None:
        if not self._condition.keys:
            raise RefusedError(
                f"{self._kind} JOIN of two streams needs an equality of both in its ON, as in a.id = b.auction: it"
                " decides to which subtask matching rows go. A join with a fixed table does not need it",
                self._node.position,
            )
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
        """Return the event time and the roles of results; nothing if they may be later than the watermark allows.

        The later one of two matched rows is on time; all results of a window come before the watermark passes it.
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
        """Return event time and roles of window results, from the sides without nulls."""
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
        """True if the results include rows of the side that may have no event time."""
        schema = self._sides[side].stream.schema
        return side in _OUTER[self._kind] and schema[self._event_time(side).column].nullable

    def _without_time(self, side: Side, output: Sequence[Attribute], names: Sequence[str]) -> DataStream:
        """Return the results of rows without an event time: they match no row, as no bound holds for them."""
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
        """Return the event time by which rows are kept.

        For results of windows it is a millisecond earlier: unmatched rows are emitted with the last watermark at which
        they are not late.
        """
        event_time = self._sides[side].stream.flow.type.event_time
        assert event_time is not None, "the condition bounds event times"
        if not self._condition.is_of_windows:
            return event_time
        return EventTime(column=event_time.column, offset_ms=event_time.offset_ms - 1)

    def _keyed(self, side: Side) -> Dataflow:
        return self._sides[side].stream.flow.keyed(self._keys(side))

    def _keys(self, side: Side) -> tuple[Column, ...]:
        columns = self._sides[side].columns
        return tuple(columns.column(key.of(side)) for key in self._condition.keys)

    def _end(self) -> Column:
        return first_of(*(named_of(side, self._event_time(side).column) for side in Side))
