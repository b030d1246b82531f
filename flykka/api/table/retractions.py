"""Aggregates of rows that change: what a row has added is taken back when another one takes its place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import starmap
from typing import TYPE_CHECKING

from flykka.api.streams.changelog import Changelog
from flykka.api.table.changing_rows import normalized
from flykka.api.table.refusals import RefusedError
from flykka.api.table.relation import Rows, distinct, keyed_by, label
from flykka.spark_bridge.rows.row_kind import ROW_KIND
from flykka.spark_bridge.sql.plan_columns import named
from flykka.spark_bridge.sql.row_kinds import RetractedCall, counted, kind_of_number, number_of_rows

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.spark_bridge.program.prototype import Column
    from flykka.spark_bridge.sql.plan_node import Expression

_TAKEN_BACK = frozenset({"Count", "Sum", "Average"})


class RetractingAggregates:
    """Running aggregates of changing rows: counts and sums, to which each row is added, and of which it is taken."""

    def __init__(
        self,
        rows: Rows,
        keys: Sequence[tuple[Column, str]],
        calls: Sequence[tuple[Expression, str]],
    ) -> None:
        """Aggregate by keys, whose columns get these names, as those of the calls do.

        Raises:
            RefusedError: a call is of a function of which no value can be taken back.
        """
        self._rows = rows
        self._keys = tuple(keys)
        self._calls = tuple(calls)
        for call, _ in calls:
            _check(call)

    @property
    def stream(self) -> DataStream:
        """The keys, the calls, and where there are keys the kind of a row: a key without rows is deleted."""
        names = tuple(name for _, name in self._keys)
        changes = normalized(self._arguments)
        kind = changes.changelog.row_kind
        assert kind is not None, "changes have kinds"
        sums = [column for call in self._retracted for column in call.sums(kind)]
        aggregated = keyed_by(changes, names).aggregate(number_of_rows(kind).alias(self._number), *sums)
        aggregated.name(label("aggregate", [f"{call.sql} AS {name}" for call, name in self._calls] or names))
        results = [each.result.alias(name) for each, (_, name) in zip(self._retracted, self._calls, strict=True)]
        (told,) = distinct([ROW_KIND], taken=(*names, *(name for _, name in self._calls)))
        is_there = kind_of_number(self._number).alias(told)
        selected = aggregated.select(*map(named, names), *results, *([is_there] if names else []))
        selected.name(label("select", (*names, *(name for _, name in self._calls))))
        return selected._typed(changelog=Changelog(keys=names, row_kind=told if names else None))

    @property
    def _arguments(self) -> DataStream:
        """The keys by which rows change, those of the aggregate, and the values that are aggregated."""
        columns, changelog = self._rows.columns, self._rows.stream.changelog
        assert changelog.keys is not None, "the rows change"
        arguments = []
        for each in self._retracted:
            (value,) = each.call.called.children
            arguments.append(counted(columns.counts(each.call), columns.column(value)).alias(each.argument))
        keys = (column.alias(name) for column, name in self._keys)
        ids = [named(key).alias(name) for key, name in zip(changelog.keys, self._ids, strict=True)]
        kinds = [] if changelog.row_kind is None else [named(changelog.row_kind)]
        stream = self._rows.stream.select(*ids, *keys, *arguments, *kinds).name("arguments")
        return stream._typed(changelog=Changelog(keys=self._ids, row_kind=changelog.row_kind))

    @cached_property
    def _ids(self) -> tuple[str, ...]:
        return distinct(self._rows.stream.changelog.keys or (), taken=self._taken)

    @property
    def _taken(self) -> tuple[str, ...]:
        kind = self._rows.stream.changelog.row_kind
        return (*(name for _, name in self._keys), *(() if kind is None else (kind,)))

    @cached_property
    def _number(self) -> str:
        return distinct(["rows"], taken=(*self._taken, *self._ids))[0]

    @cached_property
    def _retracted(self) -> list[RetractedCall]:
        words = [word for _ in self._calls for word in ("argument", "count", "sum")]
        names = distinct(words, taken=(*self._taken, *self._ids, self._number))
        calls = (call for call, _ in self._calls)
        return list(starmap(RetractedCall, zip(calls, names[::3], names[1::3], names[2::3], strict=True)))


def _check(call: Expression) -> None:
    if call.called.kind in _TAKEN_BACK and not call.java.isDistinct() and len(call.called.children) == 1:
        return
    raise RefusedError(
        f"{call.sql} of rows that change cannot run: of count, sum and avg, without DISTINCT, a value can be taken back"
        " when its row changes. ROW_NUMBER() = 1 keeps the least or greatest row of a key",
        call.position,
    )
