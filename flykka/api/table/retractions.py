"""Aggregates of changing rows: a replaced row is retracted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import starmap
from typing import TYPE_CHECKING

from flykka.api.streams.stream_type import Changelog
from flykka.api.table.changing_rows import columns_of_rows, normalized
from flykka.api.table.refusals import RefusedError, check_compared
from flykka.api.table.relation import Rows, distinct, keyed_by, label, with_changelog
from flykka.spark_bridge.program.functions import KEY_OF_ALL
from flykka.spark_bridge.rows.row_kind import ROW_KIND
from flykka.spark_bridge.rows.type_support import Use
from flykka.spark_bridge.sql.plan_columns import named
from flykka.spark_bridge.sql.row_kinds import AGGREGATES, RetractedCall, counted, kind_of_number, number_of_rows
from flykka.spark_bridge.sql.table_types import aggregates_type, lists_type, with_kind
from flykka.spark_bridge.worker.changing_results import ROWS, AggregatesOfChangingRows

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.spark_bridge.program.prototype import Column
    from flykka.spark_bridge.sql.plan_node import Expression


class RetractingAggregates:
    """Running aggregates of changing rows.

    Counts and sums add each row, and subtract it when it is retracted. With min, max or distinct values, all rows of a
    key are kept, and aggregated again when one changes.
    """

    def __init__(
        self,
        rows: Rows,
        keys: Sequence[tuple[Column, str]],
        calls: Sequence[tuple[Expression, str]],
    ) -> None:
        """Aggregate by keys; keys and calls come with the names of their columns.

        Raises:
            RefusedError: the function of a call is not supported.
        """
        self._rows = rows
        self._keys = tuple(keys)
        self._calls = tuple(calls)
        for call, _ in calls:
            _check(call)

    @property
    def stream(self) -> DataStream:
        """The keys, the calls, and with keys the kind of the row: a key without rows is deleted."""
        names, results = tuple(name for _, name in self._keys), tuple(name for _, name in self._calls)
        is_summed = all(each.supports_retraction for each in self._retracted)
        summands = {each.argument: each.summand for each in self._retracted} if is_summed else {}
        changes = normalized(self._arguments, summands)
        aggregated, kind = self._summed(changes, names) if is_summed else self._of_kept_rows(changes, names)
        aggregated.name(label("aggregate", [f"{call.sql} AS {name}" for call, name in self._calls] or names))
        columns = [
            each.result(self._rows.columns).alias(name) for each, name in zip(self._retracted, results, strict=True)
        ]
        (told,) = distinct([ROW_KIND], taken=(*names, *results))
        selected = aggregated.select(*map(named, names), *columns, *([kind.alias(told)] if names else []))
        selected.name(label("select", (*names, *results)))
        return with_changelog(selected, Changelog(keys=names, row_kind=told if names else None))

    def _summed(self, changes: DataStream, keys: tuple[str, ...]) -> tuple[DataStream, Column]:
        """Return counts and sums of changes, and the kind of the result row."""
        kind = _kind(changes)
        sums = [column for call in self._retracted for column in call.sums(kind)]
        aggregated = keyed_by(changes, keys).aggregate(number_of_rows(kind).alias(self._number), *sums)
        return aggregated, kind_of_number(self._number)

    def _of_kept_rows(self, changes: DataStream, keys: tuple[str, ...]) -> tuple[DataStream, Column]:
        """Return aggregates of the current rows, and the kind of the result row."""
        columns, kind = columns_of_rows(changes), _kind(changes)
        function = AggregatesOfChangingRows(
            keys=keys or (KEY_OF_ALL,),
            columns=columns,
            row_keys=self._ids,
            row_kind=kind,
            result_keys=keys,
            emitted_kind=kind,
            emitted=keys,
            calls=tuple(each.over_rows for each in self._retracted),
        )
        rows = changes.flow.type.prototype.select(*map(named, columns))
        output = aggregates_type(rows, keys, self._retracted)
        aggregated = keyed_by(changes, keys).process_table(
            function, state=lists_type(**{ROWS: rows.schema}), output=with_kind(output, kind)
        )
        if not keys:
            # Aggregates without keys have a row even if there are no input rows.
            counts = {call.count: call.current_count(kind) for call in self._retracted}
            aggregated = aggregated.with_columns(counts)
        return aggregated, named(kind)

    @property
    def _arguments(self) -> DataStream:
        """The keys by which rows change, the grouping keys, and the aggregated values."""
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
    assert kind is not None, "changes have row kinds"
    return kind


def _check(call: Expression) -> None:
    if call.called.kind == "PivotFirst":
        raise RefusedError(
            "PIVOT cannot run on a stream: write an aggregate with FILTER (WHERE ...) for each column", call.position
        )
    if call.called.kind not in AGGREGATES or len(call.called.children) != 1:
        raise RefusedError(
            f"{call.sql} of changing rows cannot run: count, sum, avg, min and max of one argument can",
            call.position,
        )
    if call.java.isDistinct():
        check_compared(call.called.children[0], Use.KEY, call.sql, call.position)
    if call.called.kind in ("Min", "Max") and call.type_name.startswith(("struct", "array")):
        raise RefusedError(
            f"{call.sql} of changing rows cannot run, as {call.type_name} has no order here: ROW_NUMBER() = 1 keeps"
            " the first or last row of a key",
            call.position,
        )
    if call.called.kind in ("Min", "Max"):
        check_compared(call.called.children[0], Use.ORDER, call.sql, call.position)
