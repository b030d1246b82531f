"""First rows per key or window: ROW_NUMBER() over an order, bounded by a WHERE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from flykka.api.streams.stream_type import Changelog
from flykka.api.table.refusals import RefusedError, check_compared
from flykka.api.table.relation import (
    IsEventTime,
    IsKey,
    IsNumber,
    IsWindow,
    Relation,
    Role,
    Rows,
    distinct,
    keyed_by,
    label,
    leaf,
    with_changelog,
)
from flykka.spark_bridge.functions.event_time import WINDOW_END, WINDOW_START
from flykka.spark_bridge.program.functions import KEY_OF_ALL
from flykka.spark_bridge.rows.type_support import Use
from flykka.spark_bridge.sql.plan_columns import FirstOfWindows, named
from flykka.spark_bridge.sql.table_types import first_rows_types
from flykka.spark_bridge.worker.first_rows import FirstRows
from flykka.spark_bridge.worker.keys import RowOrder

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.api.table.bounds import Limits
    from flykka.spark_bridge.program.prototype import Column
    from flykka.spark_bridge.sql.plan_node import Attribute, Expression, PlanNode


def is_first_rows(node: PlanNode, relation: Relation, bounds: Limits) -> bool:
    """Return True if the node is a ROW_NUMBER() whose numbers are bounded by the query."""
    number, function = _numbered(node)
    window = _window_of(node, relation)
    return function == "RowNumber" and number.id in bounds and (window is None or window.panes is not None)


def has_row_number(node: PlanNode) -> bool:
    return _numbered(node)[1] == "RowNumber"


def first_rows(node: PlanNode, relation: Relation, bounds: Limits) -> Relation:
    number, _ = _numbered(node)
    limit = bounds[number.id]
    rows = relation.settled()
    window = _window_of(node, rows)
    if window is not None:
        return _of_windows(node, rows, window, limit)
    return _of_all(node, rows, limit)


def without_number(relation: Relation, column: int) -> Rows:
    """Return only the rows with number 1; the row number remains a column, but is no longer a key."""
    rows = relation.settled(carries_keys=True)
    log, number = rows.stream.changelog, rows.roles[column]
    assert isinstance(number, IsNumber), "the bounded column is not a row number"
    keys = tuple(key for key in log.keys or () if key != number.name)
    roles = {**rows.roles, column: replace(number, limit=1)}
    return replace(rows, stream=with_changelog(rows.stream, replace(log, keys=keys)), roles=roles)


def _numbered(node: PlanNode) -> tuple[Attribute, str]:
    """Return the column of a window function, and the kind of the function; an empty kind for several functions."""
    made = node.part("windowExpressions")
    kind = made[0].children[0].children[0].kind if len(made) == 1 else ""
    return made[0].attribute, kind


def _window_of(node: PlanNode, rows: Rows | Relation) -> IsWindow | None:
    windows = (_window(each, rows) for each in node.part("partitionSpec"))
    return next((each for each in windows if each is not None), None)


def _window(partition: Expression, rows: Rows | Relation) -> IsWindow | None:
    role = rows.roles.get(partition.column_id)
    return role if isinstance(role, IsWindow) else None


def _of_windows(node: PlanNode, rows: Rows, window: IsWindow, limit: int) -> Relation:
    if window.panes is None:
        raise RefusedError("the first rows of sessions cannot be computed: sessions have no common ends", node.position)
    number, _ = _numbered(node)
    columns = rows.columns
    others = tuple(each for each in node.part("partitionSpec") if _window(each, rows) is None)
    (name,) = distinct([number.name], taken=(*rows.stream.columns, WINDOW_START, WINDOW_END))
    first = FirstOfWindows(
        parts=tuple(columns.column(each) for each in others),
        order=tuple(columns.ordering(each) for each in node.part("orderSpec")),
        limit=limit,
        number=name,
    )
    names = (*rows.called, name)
    numbered = rows.stream.window_all(window.panes).apply(first).name(f"first {limit} of each window")
    stream = numbered.select(*map(named, names), named(WINDOW_END)).name(label("select", names))
    return _leaf(node, rows, stream, names, {number.id: IsNumber(limit=limit, name=name)})


def _of_all(node: PlanNode, rows: Rows, limit: int) -> Relation:
    """Plan the first rows of each key so far: a new row with the same number replaces the old row."""
    number, _ = _numbered(node)
    keys = tuple(partition_name(each, rows) for each in node.part("partitionSpec"))
    names = rows.called
    (called,) = distinct([number.name], taken=rows.stream.columns)
    stream, orders = ordered_rows(node, rows)
    state, output = first_rows_types(stream.flow.type.prototype, names, called)
    function = FirstRows(
        keys=keys or (KEY_OF_ALL,),
        columns=tuple(stream.columns),
        orders=orders,
        limit=limit,
        emitted=names,
        number=called,
    )
    first = (
        keyed_by(stream, keys)
        .process_table(function, state=state, output=output)
        .name(f"first {limit} of {', '.join(keys) or 'all'}")
    )
    # A row number that is always 1 is not part of the key.
    by = (*keys, called) if limit > 1 else keys
    roles: dict[int, Role] = {
        each.column_id: IsKey(name=partition_name(each, rows)) for each in node.part("partitionSpec")
    }
    roles[number.id] = IsNumber(limit=limit, name=called)
    return _leaf(node, rows, with_changelog(first, Changelog(keys=by)), (*names, called), roles)


def ordered_rows(node: PlanNode, rows: Rows) -> tuple[DataStream, tuple[RowOrder, ...]]:
    """Return the rows with computed ordering values added as columns, and the order by columns."""
    orders: list[RowOrder] = []
    computed: dict[str, Column] = {}
    columns = rows.columns
    for each in node.part("orderSpec"):
        value = each.children[0]
        check_compared(value, Use.ORDER, "ORDER BY", node.position)
        name = rows.names.get(value.column_id)
        if name is None:
            (name,) = distinct(["order"], taken=(*rows.stream.columns, *computed))
            computed[name] = columns.column(value)
        is_descending = str(each.java.direction().sql()) == "DESC"
        nulls_first = str(each.java.nullOrdering().sql()) == "NULLS FIRST"
        orders.append(RowOrder(column=name, is_descending=is_descending, nulls_first=nulls_first))
    stream = rows.stream.with_columns(computed).name("order") if computed else rows.stream
    return stream, tuple(orders)


def partition_name(partition: Expression, rows: Rows) -> str:
    """Return the column name of a PARTITION BY. Raises `RefusedError` if the expression is computed."""
    name = rows.names.get(partition.column_id)
    if name is None:
        raise RefusedError(
            f"PARTITION BY {partition.sql} is not a column of the rows: compute it in a subquery, with a name",
            partition.position,
        )
    return name


def _leaf(
    node: PlanNode, rows: Rows, stream: DataStream, names: tuple[str, ...], roles: Mapping[int, Role]
) -> Relation:
    has_time = stream.flow.type.event_time is not None
    kept = {column: role for column, role in rows.roles.items() if has_time or not isinstance(role, IsEventTime)}
    return leaf(Rows(stream=stream, output=node.output, called=names, roles={**kept, **roles}), node)
