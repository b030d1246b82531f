"""Aggregates of changing rows: the old value is retracted when a row is replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import starmap
from typing import TYPE_CHECKING

from flykka.api.streams.stream_type import Changelog
from flykka.api.table.changing_rows import normalized
from flykka.api.table.relation import Rows, distinct, keyed_by, label, with_changelog
from flykka.api.table.weighted import StreamOf, aggregate, with_empty_row
from flykka.spark_bridge.rows.row_kind import ROW_KIND
from flykka.spark_bridge.sql.plan_columns import named
from flykka.spark_bridge.sql.row_kinds import (
    RetractedCall,
    WithKinds,
    counted,
    kind_of_number,
    no_kind,
    number_of_rows,
)
from flykka.spark_bridge.worker.weighted_rows import WEIGHT

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.spark_bridge.program.prototype import Column
    from flykka.spark_bridge.sql.plan_node import Expression


class RetractingAggregates:
    """Running counts, sums and averages of changing rows: each row is added, and subtracted when it is retracted."""

    def __init__(
        self,
        rows: Rows,
        keys: Sequence[tuple[Column, str]],
        calls: Sequence[tuple[Expression, str]],
        stream_of: StreamOf,
        *,
        as_weights: bool,
    ) -> None:
        """Aggregate calls by keys; each key and call comes with the name of its column.

        Each call must satisfy `is_exact_sum`. Results are weighted rows if `as_weights`, else upserts and deletes.
        """
        self._weight = WEIGHT if as_weights else None
        self._rows = rows
        self._keys = tuple(keys)
        self._calls = tuple(calls)
        self._stream_of = stream_of

    @property
    def stream(self) -> DataStream:
        """The keys and the results, with their weight, or if there are keys the row kind, which deletes a key."""
        names, results = tuple(name for _, name in self._keys), tuple(name for _, name in self._calls)
        summands = {each.argument: each.summand for each in self._retracted}
        arguments = self._arguments
        changes = arguments if arguments.changelog.keys is None else normalized(arguments)
        if not names:
            changes = with_empty_row(changes, self._stream_of, _kind(changes), no_kind())
        changes = changes.with_columns(summands) if summands else changes
        kind = _kind(changes)
        sums = [column for call in self._retracted for column in call.sums(kind)]
        columns = [number_of_rows(kind).alias(self._number), *sums]
        aggregated = aggregate(keyed_by(changes, names), columns, self._weight)
        aggregated.name(label("aggregate", [f"{call.sql} AS {name}" for call, name in self._calls] or names))
        last: list[Column] = []
        changelog = Changelog(keys=names)
        if self._weight is not None:
            aggregated = aggregated.where(named(self._number) > 0) if names else aggregated
            last, changelog = [named(self._weight)], replace(changelog, weight=self._weight)
        elif names:
            (kind_name,) = distinct([ROW_KIND], taken=(*names, *results))
            last, changelog = [kind_of_number(self._number).alias(kind_name)], replace(changelog, row_kind=kind_name)
        pairs = zip(self._retracted, results, strict=True)
        values = (each.result(self._rows.columns).alias(name) for each, name in pairs)
        selected = aggregated.select(*map(named, names), *values, *last).name(label("select", (*names, *results)))
        return with_changelog(selected, changelog)

    @property
    def _arguments(self) -> DataStream:
        columns, changelog = self._rows.columns, self._rows.stream.changelog
        arguments = [column.alias(name) for column, name in self._keys]
        for each in self._retracted:
            (value,) = each.call.called.children
            arguments.append(counted(columns.counts(each.call), columns.column(value)).alias(each.argument))
        if changelog.weight is not None:
            (kind,) = distinct([ROW_KIND], taken=(*self._taken, *(each.argument for each in self._retracted)))
            with_kinds = WithKinds(arguments, changelog.weight, kind)
            return with_changelog(self._rows.stream.transform(with_kinds).name("arguments"), Changelog(row_kind=kind))
        assert changelog.keys is not None, "the rows do not change"
        ids = [named(key).alias(name) for key, name in zip(changelog.keys, self._ids, strict=True)]
        kinds = [] if changelog.row_kind is None else [named(changelog.row_kind)]
        stream = self._rows.stream.select(*ids, *arguments, *kinds).name("arguments")
        return with_changelog(stream, Changelog(keys=self._ids, row_kind=changelog.row_kind))

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


def _kind(changes: DataStream) -> str:
    kind = changes.changelog.row_kind
    assert kind is not None, "the changes have no row kind"
    return kind
