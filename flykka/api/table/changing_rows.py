"""Conversions of changelog streams, whose rows replace or delete earlier rows, for the clauses of SQL."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from flykka.api.streams.stream_type import Changelog
from flykka.api.table.relation import Rows, distinct, keyed_by, label, with_changelog
from flykka.spark_bridge.program.functions import KEY_OF_ALL
from flykka.spark_bridge.rows.row_kind import ROW_KIND
from flykka.spark_bridge.sql.plan_columns import named
from flykka.spark_bridge.sql.row_kinds import kind_where, weight_of
from flykka.spark_bridge.sql.table_types import state_row_type, with_kind
from flykka.spark_bridge.worker.row_changes import NormalizeChanges
from flykka.spark_bridge.worker.weighted_rows import WEIGHT

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.spark_bridge.program.prototype import Column


def upserts_of(stream: DataStream, keys: tuple[str, ...]) -> DataStream:
    """Return the rows as upserts by keys; if there is a column of row kinds, as upserts and deletes.

    The event time is preserved because temporal joins need it to know from when on a row is valid.
    """
    kind = ROW_KIND if ROW_KIND in stream.columns else None
    if kind is not None and stream.columns[-1] != kind:
        stream = stream.select(*(named(name) for name in stream.columns if name != kind), named(kind))
    return with_changelog(stream, Changelog(keys=keys, row_kind=kind), event_time=stream.flow.type.event_time)


def changes_of(stream: DataStream, keys: tuple[str, ...]) -> DataStream:
    """Return rows of kinds `+I`, `-U`, `+U` and `-D` as weighted rows with keys."""
    rows = with_weight_column(stream, [name for name in stream.columns if name != ROW_KIND], ROW_KIND)
    return with_changelog(rows, Changelog(keys=keys, weight=WEIGHT))


def with_weight_column(stream: DataStream, columns: Iterable[str], row_kind: str | None) -> DataStream:
    """Return the columns, followed by the weight of each row."""
    return stream.select(*map(named, columns), weight_of(row_kind).alias(WEIGHT)).name("weights")


def columns_of_rows(stream: DataStream) -> tuple[str, ...]:
    """Return the column names without the row kind and the weight, which are not part of the table."""
    return tuple(name for name in stream.columns if name not in (stream.changelog.row_kind, stream.changelog.weight))


def where_true(rows: Rows, condition: Column) -> Rows:
    """Return the rows for which a condition is true; every other row becomes a delete of its key.

    The filter keeps no state, so it also emits deletes for keys that it has never emitted.
    """
    changelog = rows.stream.changelog
    kind = kind_column(rows.stream)
    kinds = kind_where(condition, changelog.row_kind).alias(kind)
    stream = rows.stream.select(*map(named, rows.called), kinds).name(label("where", rows.called))
    typed = with_changelog(stream, replace(changelog, row_kind=kind), event_time=stream.flow.type.event_time)
    return replace(rows, stream=typed)


def kind_column(stream: DataStream) -> str:
    """Return the name of the row-kind column, or an unused name for such a column."""
    known = stream.changelog.row_kind
    return distinct([ROW_KIND], taken=stream.columns)[0] if known is None else known


def normalized(stream: DataStream) -> DataStream:
    """Add a retraction before each update (`-U` before `+U`), for operators that must subtract replaced rows.

    Corresponds to Flink's ChangelogNormalize. The row kind is the last column, named by `kind_column`.
    """
    changelog, kind = stream.changelog, kind_column(stream)
    assert changelog.keys is not None, "the rows are append-only and cannot be retracted"
    columns = columns_of_rows(stream)
    normalize = NormalizeChanges(
        keys=changelog.keys or (KEY_OF_ALL,), columns=columns, row_kind=changelog.row_kind, emitted_kind=kind
    )
    prototype = stream.flow.type.prototype.select(*map(named, columns))
    keyed = keyed_by(stream, changelog.keys)
    output = with_kind(prototype.schema, kind)
    changes = keyed.process_table(normalize, state=state_row_type(prototype), output=output)
    by = ", ".join(changelog.keys) or "all"
    return with_changelog(changes.name(f"changes by {by}"), Changelog(keys=changelog.keys, row_kind=kind))
