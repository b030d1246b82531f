"""Joins of two streams of which a result may have to be taken back: changelogs with deletes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from flykka.api.streams.stream_type import Changelog
from flykka.api.table.changing_rows import normalized, where_true, with_keys_in
from flykka.api.table.refusals import RefusedError
from flykka.api.table.relation import IsKey, Relation, Role, Rows, distinct, label, leaf, with_changelog
from flykka.spark_bridge.operators.join import Side
from flykka.spark_bridge.rows.row_kind import ROW_KIND
from flykka.spark_bridge.sql.plan_columns import named, null_of
from flykka.spark_bridge.sql.plan_node import COMPUTED
from flykka.spark_bridge.sql.row_kinds import constant, kind_of
from flykka.spark_bridge.sql.table_types import lists_type, with_kind
from flykka.spark_bridge.worker.changing_results import LEFT_ROWS, RIGHT_ROWS, JoinChanges, JoinSideRows

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.api.table.join_condition import JoinCondition
    from flykka.spark_bridge.program.prototype import Column
    from flykka.spark_bridge.sql.plan_node import PlanNode

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
    """The rows of a join that a later row may change: upserts and deletes.

    Raises:
        RefusedError: a side has no keys by which its rows could be told apart, or the ON says more of an outer join
            than that columns are equal.
    """
    if kind not in _KINDS or not condition.keys:
        raise RefusedError(
            f"{kind} JOIN of two streams needs an equality of the two in its ON, as in a.id = b.auction: it says to"
            " which subtask the rows go that meet",
            node.position,
        )
    for side, rows in sides.items():
        if rows.stream.changelog.keys is None and not (kind in ("LEFT SEMI", "LEFT ANTI") and side is Side.RIGHT):
            raise RefusedError(
                f"{kind} JOIN of two streams: a result may change when a row of the other stream comes, and the rows of"
                f" the {side} one have no key to tell which result it was. Declare its PRIMARY KEY"
                " (create_temporary_view(name, stream, primary_key=...)), or bound the difference of the two event"
                " times in the ON, as in b.at BETWEEN a.at AND a.at + INTERVAL 10 MINUTES",
                node.position,
            )
    if condition.rest and kind != "INNER":
        raise RefusedError(
            f"{condition.rest[0].sql} in the ON of a {kind} JOIN of rows that change cannot run: of such the ON says"
            " which columns are equal. What it asks of one stream can stand in a WHERE of a subquery of that stream",
            condition.rest[0].position or node.position,
        )
    return _ChangingJoin(node, _KINDS[kind], sides, condition).relation()


class _ChangingJoin:
    """A join of rows that change, of which those of both sides are brought together as one stream."""

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
        joined.name(label("join", (f"{key.left.shown} = {key.right.shown}" for key in self._condition.keys)))
        stream = with_changelog(joined, Changelog(keys=keys, row_kind=ROW_KIND))
        ids = [attribute.id for side in Side for attribute in self._rows[side].output]
        named_keys = ((column, self._alike.get(name, name)) for column, name in zip(ids, emitted, strict=False))
        roles: dict[int, Role] = {column: IsKey(name=name) for column, name in named_keys if name in keys}
        rows = Rows(stream=stream, output=self._node.output, called=tuple(emitted), roles=roles)
        rest = [rows.columns.column(each) for each in self._condition.rest]
        return leaf(where_true(rows, reduce(and_, rest)) if rest else rows, self._node)

    def _told_apart(self, side: Side, rows: Rows) -> Rows:
        """The rows of a side; where a row may get another key of the join, it is taken back from the one before."""
        if rows.stream.changelog.keys is None:
            return rows
        keys = []
        for each in self._condition.keys:
            expression = each.of(side)
            if expression.column_id == COMPUTED:
                raise RefusedError(
                    f"{expression.sql} is computed of rows that change: compute it in a subquery, under a name, and"
                    " join by that",
                    expression.position or self._node.position,
                )
            keys.append(rows.names[expression.column_id])
        return rows if with_keys_in(rows, keys) else replace(rows, stream=normalized(rows.stream))

    def _row_keys(self, side: Side) -> tuple[str, ...]:
        """The columns by which rows of a side are told apart: all, where nothing is asked but whether there is one."""
        rows = self._rows[side]
        keys = rows.called if rows.stream.changelog.keys is None else rows.stream.changelog.keys
        called = dict(zip(rows.called, self._called[side], strict=True))
        return tuple(called[key] for key in keys)

    @property
    def _result_keys(self) -> tuple[str, ...]:
        """The keys of both sides, as far as one of results does not follow from the others.

        What is joined by is among them: so a result that moves to another key of the join, and perhaps to another
        subtask, is another result, whichever of the two changes comes first.
        """
        keys = [*self._row_keys(Side.LEFT), *self._joined_by(Side.LEFT)]
        if self._kind not in _HALF and not (self._kind != "right" and self._is_unique(Side.RIGHT)):
            keys += [*self._row_keys(Side.RIGHT), *self._joined_by(Side.RIGHT)]
        return tuple(dict.fromkeys(key for key in keys if key not in self._alike))

    @property
    def _alike(self) -> Mapping[str, str]:
        """The columns of the right side that are equal to columns of the left one in every result, and these."""
        if self._kind != "inner":
            return {}
        left, right = (self._joined_by(side) for side in Side)
        return dict(zip(right, left, strict=True))

    def _is_unique(self, side: Side) -> bool:
        """True if there is at most one row of a side for each key of the join."""
        rows = self._rows[side]
        names = {rows.names.get(key.of(side).column_id) for key in self._condition.keys}
        return self._kind != "full" and set(rows.stream.changelog.keys or ()) <= names

    def _joined_by(self, side: Side) -> list[str]:
        """The columns of a side that are keys of the join, as far as they are columns."""
        rows = self._rows[side]
        called = dict(zip(rows.names, self._called[side], strict=True))
        found = (called.get(key.of(side).column_id) for key in self._condition.keys)
        return [name for name in found if name is not None]

    def _one_side(self, side: Side) -> DataStream:
        """The rows of a side with the columns of both, the keys, the side and their kind."""
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
