"""Window functions of changing rows: the rows of a key are kept, and the results that change are emitted."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from flykka.api.streams.stream_type import Changelog
from flykka.api.table.changing_rows import columns_of_rows, kind_column, normalized, with_keys_in
from flykka.api.table.refusals import RefusedError
from flykka.api.table.relation import (
    IsKey,
    IsNumber,
    Relation,
    Role,
    Rows,
    distinct,
    keyed_by,
    label,
    leaf,
    with_changelog,
)
from flykka.api.table.top_n import WRITE, ordered_rows, partition_name, unbounded
from flykka.spark_bridge.program.functions import KEY_OF_ALL
from flykka.spark_bridge.sql.plan_columns import named
from flykka.spark_bridge.sql.row_kinds import overflow_of
from flykka.spark_bridge.sql.table_types import frames_type, lists_type, numbered_type, with_kind
from flykka.spark_bridge.worker.changing_results import (
    ROWS,
    ChangingResults,
    FirstOfChangingRows,
    FrameCall,
    FrameFunction,
    OverChangingRows,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from flykka.api.streams.data_stream import DataStream
    from flykka.api.table.bounds import Limits
    from flykka.spark_bridge.program.prototype import StructType
    from flykka.spark_bridge.sql.plan_node import Expression, PlanNode
    from flykka.spark_bridge.worker.keys import RowOrder

_FUNCTIONS = {"Count": FrameFunction.COUNT, "Sum": FrameFunction.SUM, "Average": FrameFunction.AVERAGE}
_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint", "float", "double"})
_LONGEST_FRAME = 10_000


def changing_window(node: PlanNode, relation: Relation, bounds: Limits) -> Relation:
    """Plan a window function of changing rows.

    Raises:
        RefusedError: it is not ROW_NUMBER() with a bound, or count, sum or avg of numbers over a row and some rows
            before it.
    """
    return _ChangingWindow(node, relation.settled(), bounds).relation()


class _ChangingWindow:
    def __init__(self, node: PlanNode, rows: Rows, bounds: Limits) -> None:
        self._node = node
        self._bounds = bounds
        self._partitions = tuple(partition_name(each, rows) for each in node.part("partitionSpec"))
        if not with_keys_in(rows, self._partitions):
            rows = replace(rows, stream=normalized(rows.stream))
        self._rows = rows
        self._made = node.part("windowExpressions")

    def relation(self) -> Relation:
        functions = [made.children[0].children[0].kind for made in self._made]
        if functions == ["RowNumber"]:
            limit = self._bounds.get(self._made[0].attribute.id)
            if limit is None:
                raise unbounded(self._node)
            return self._first(limit)
        return self._over([self._call(made) for made in self._made])

    def _first(self, limit: int) -> Relation:
        """Number the rows; if there are fewer than before, the last numbers are deleted."""
        names = self._rows.called
        number = self._made[0].attribute
        (called,) = distinct([number.name], taken=self._rows.stream.columns)
        stream, orders = ordered_rows(self._node, self._rows)
        by = (*self._partitions, called) if limit > 1 else self._partitions
        output = numbered_type(stream.flow.type.prototype, names, called)
        first = self._computed(partial(FirstOfChangingRows, limit=limit, number=called), stream, orders, by, output)
        first.name(f"first {limit} of {', '.join(self._partitions) or 'all'}")
        roles = self._roles(self._partitions)
        roles[number.id] = IsNumber(limit=limit, name=called)
        return self._leaf(first, (*names, called), roles)

    def _over(self, calls: list[tuple[FrameFunction, Expression, int]]) -> Relation:
        """Compute functions over the rows before each row."""
        rows, names = self._rows, self._rows.called
        made = distinct((each.attribute.name for each in self._made), taken=rows.stream.columns)
        stream, orders = ordered_rows(self._node, rows)
        arguments = distinct(["argument"] * len(calls), taken=(*stream.columns, *made))
        computed = {name: rows.columns.column(value) for name, (_, value, _) in zip(arguments, calls, strict=True)}
        stream = stream.with_columns(computed).name("arguments")
        by = tuple(dict.fromkeys((*(self._changelog.keys or ()), *self._partitions)))
        called = [each.children[0].children[0] for each in self._made]
        frames = tuple(
            FrameCall(
                function=kind,
                argument=argument,
                preceding=preceding,
                name=name,
                overflow=overflow_of(each.called),
                sql=each.sql,
            )
            for (kind, _, preceding), argument, name, each in zip(calls, arguments, made, called, strict=True)
        )
        types = {name: each.children[0].type_name for each, name in zip(self._made, made, strict=True)}
        output = frames_type(stream.flow.type.prototype, names, types)
        over = self._computed(partial(OverChangingRows, calls=frames), stream, orders, by, output)
        over.name(label("over", (each.sql for each in called)))
        return self._leaf(over, (*names, *made), self._roles(by))

    def _computed(
        self,
        results: Callable[..., ChangingResults],
        stream: DataStream,
        orders: tuple[RowOrder, ...],
        by: tuple[str, ...],
        output: StructType,
    ) -> DataStream:
        """Compute the results of each partition in order: upserts and deletes by the columns `by`."""
        columns = columns_of_rows(stream)
        function = results(
            keys=self._partitions or (KEY_OF_ALL,),
            columns=columns,
            row_keys=self._changelog.keys or (),
            row_kind=self._changelog.row_kind,
            result_keys=by,
            emitted_kind=self._kind,
            orders=orders,
            emitted=self._rows.called,
        )
        state = lists_type(**{ROWS: stream.flow.type.prototype.select(*map(named, columns)).schema})
        computed = keyed_by(stream, self._partitions).process_table(
            function, state=state, output=with_kind(output, self._kind)
        )
        return with_changelog(computed, Changelog(keys=by, row_kind=self._kind))

    def _call(self, made: Expression) -> tuple[FrameFunction, Expression, int]:
        """Return the function, its argument, and the number of preceding rows."""
        called, specification = made.children[0].children
        function = called.called if called.kind == "AggregateExpression" else called
        kind = _FUNCTIONS.get(function.kind)
        preceding = _preceding(specification.children[-1])
        is_plain = called.kind == "AggregateExpression" and not called.java.isDistinct()
        if kind is None or preceding is None or not is_plain or len(function.children) != 1:
            raise RefusedError(
                f"{called.sql} OVER (...) of changing rows cannot run. ROW_NUMBER() with a bound can,"
                f" {WRITE}, and so can count, sum and avg OVER (... ROWS BETWEEN n PRECEDING AND CURRENT ROW), n up to"
                f" {_LONGEST_FRAME}",
                made.position or self._node.position,
            )
        (value,) = function.children
        if value.type_name not in _NUMBERS:
            raise RefusedError(
                f"{called.sql} OVER (...) takes numbers, not {value.type_name}: cast it to bigint or double",
                made.position or self._node.position,
            )
        return kind, value, preceding

    @property
    def _changelog(self) -> Changelog:
        return self._rows.stream.changelog

    @property
    def _kind(self) -> str:
        return kind_column(self._rows.stream)

    def _roles(self, keys: tuple[str, ...]) -> dict[int, Role]:
        return {column: IsKey(name=name) for column, name in self._rows.names.items() if name in keys}

    def _leaf(self, stream: DataStream, names: tuple[str, ...], roles: dict[int, Role]) -> Relation:
        return leaf(Rows(stream=stream, output=self._node.output, called=names, roles=roles), self._node)


def _preceding(frame: Expression) -> int | None:
    """Return the number of rows before the current one, at which the frame ends; None for other frames."""
    if frame.kind != "SpecifiedWindowFrame" or "Row" not in str(frame.java.frameType().toString()):
        return None
    lower, upper = frame.children
    if upper.kind != "CurrentRow" or not lower.is_constant:
        return None
    preceding = -int(lower.value)
    return preceding if 0 <= preceding <= _LONGEST_FRAME else None
