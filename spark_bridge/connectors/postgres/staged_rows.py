"""The statements with which rows in a temporary table change the table of a sink: by their keys, or as whole rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from flykka.spark_bridge.connectors.postgres.written_types import column_type_for
from flykka.spark_bridge.rows.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

if TYPE_CHECKING:
    from psycopg import sql
    from pyspark.sql.types import StructField

    from flykka.spark_bridge.connectors.postgres.tables import Table

STAGED = "flykka_staged"

KINDS = (INSERT, UPDATE_AFTER, DELETE)
"""The kinds of rows that are written by their keys. Rows of the kind `-U` are dropped before (Flink's RowKind)."""


class StagedRows:
    """Rows in a temporary table, with the columns `names` of the table, and additional columns."""

    def __init__(self, table: Table, names: Sequence[str], beside: Sequence[StructField]) -> None:
        self._table = table
        self._names = names
        self._beside = beside

    def staging(self) -> sql.Composed:
        from psycopg import sql

        more = [
            sql.SQL("NULL::{} AS {}").format(
                sql.SQL(column_type_for(field.dataType) or "text"),
                sql.Identifier(field.name),
            )
            for field in self._beside
        ]
        columns = sql.SQL(", ").join([*map(sql.Identifier, self._names), *more])
        return sql.SQL("CREATE TEMPORARY TABLE {} ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA").format(
            sql.Identifier(STAGED), columns, self._table.identifier
        )

    @staticmethod
    def unknown_kind(kind: str, kinds: Sequence[str]) -> tuple[sql.Composed, str]:
        from psycopg import sql

        query = sql.SQL(
            "SELECT coalesce({kind}, 'NULL') FROM {staged} WHERE {kind} IS NULL OR {kind} NOT IN ({kinds}) LIMIT 1"
        ).format(
            kind=sql.Identifier(kind),
            staged=sql.Identifier("pg_temp", STAGED),
            kinds=sql.SQL(", ").join(map(sql.Literal, kinds)),
        )
        return query, f"the column {kind!r} contains {{}}, which is not a kind of row; the kinds are +I, +U, -U and -D"


class WholeRows(StagedRows):
    """The statements of a sink that adds rows, and removes rows with equal columns.

    Rows are compared by their texts, which are equal for equal values of a column, also for nulls and types that
    cannot be compared.
    """

    def __init__(self, table: Table, names: Sequence[str], beside: Sequence[StructField], kind: str) -> None:
        super().__init__(table, names, beside)
        self._kind = kind

    def checks(self) -> list[tuple[sql.Composed, str]]:
        """Return queries for unknown kinds, and for rows to be removed that the table does not have."""
        from psycopg import sql

        missing = sql.SQL(
            "WITH {net} SELECT flykka_row FROM net WHERE -flykka_number >"
            " (SELECT count(*) FROM {table} AS kept WHERE {row} = flykka_row) LIMIT 1"
        ).format(net=self._net(), table=self._table.identifier, row=self._row("kept"))
        text = f"{self._table} does not have the row {{}} as often as it is removed: only the job may change the table"
        return [self.unknown_kind(self._kind, (*KINDS, UPDATE_BEFORE)), (missing, text)]

    def merge(self) -> sql.Composed:
        """Return the statement that removes and adds rows, each as often as the sum of its changes."""
        from psycopg import sql

        return sql.SQL(
            "WITH {net}, found AS (SELECT kept.tableoid, kept.ctid, flykka_number,"
            " row_number() OVER (PARTITION BY flykka_row) AS flykka_place FROM {table} AS kept"
            " JOIN net ON {row} = flykka_row WHERE flykka_number < 0),"
            " gone AS (DELETE FROM {table} WHERE (tableoid, ctid) IN"
            " (SELECT tableoid, ctid FROM found WHERE flykka_place <= -flykka_number))"
            " INSERT INTO {table} ({names}) SELECT {names} FROM net"
            " JOIN {staged} AS staged ON staged.ctid = flykka_first CROSS JOIN generate_series(1, flykka_number)"
        ).format(
            net=self._net(),
            table=self._table.identifier,
            row=self._row("kept"),
            names=listed_columns(self._names),
            staged=sql.Identifier("pg_temp", STAGED),
        )

    def _net(self) -> sql.Composed:
        """Return a common table expression with the sum of each row's changes, and the place of one such row."""
        from psycopg import sql

        return sql.SQL(
            "net AS MATERIALIZED (SELECT {row} AS flykka_row, (array_agg(staged.ctid))[1] AS flykka_first,"
            " sum(CASE WHEN {kind} IN ({removed}) THEN -1 ELSE 1 END) AS flykka_number"
            " FROM {staged} AS staged GROUP BY 1)"
        ).format(
            row=self._row("staged"),
            kind=sql.Identifier(self._kind),
            removed=sql.SQL(", ").join(map(sql.Literal, (DELETE, UPDATE_BEFORE))),
            staged=sql.Identifier("pg_temp", STAGED),
        )

    def _row(self, of: str) -> sql.Composed:
        from psycopg import sql

        columns = sql.SQL(", ").join(sql.Identifier(of, name) for name in self._names)
        return sql.SQL("ROW({})::text").format(columns)


class Upserts(StagedRows):
    def __init__(
        self,
        table: Table,
        keys: Sequence[str],
        sequence_by: Sequence[str],
        names: Sequence[str],
        beside: Sequence[StructField],
        kind: str | None,
    ) -> None:
        super().__init__(table, names, beside)
        self._keys = keys
        self._sequence_by = sequence_by
        self._kind = kind

    def checks(self) -> list[tuple[sql.Composed, str]]:
        """Return queries for unknown kinds, and for keys with several rows of which none is the last."""
        from psycopg import sql

        keys, staged = self._keys, sql.Identifier("pg_temp", STAGED)
        key = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in keys)
        order = sql.SQL("ORDER BY {}").format(self._latest_first()) if self._sequence_by else sql.SQL("")
        tie = sql.SQL(
            "SELECT {key} FROM (SELECT {keys}, staged::text AS flykka_row,"
            " rank() OVER (PARTITION BY {keys} {order}) AS flykka_place FROM {staged} AS staged) AS ranked"
            " WHERE flykka_place = 1 GROUP BY {keys} HAVING count(DISTINCT flykka_row) > 1 LIMIT 1"
        ).format(key=key, keys=listed_columns(keys), order=order, staged=staged)
        key_names, by = ", ".join(keys), ", ".join(self._sequence_by)
        text = f"several rows have the key {key_names} = {{}}: name the column that orders them with sequence_by"
        if by:
            text = (
                f"several rows with the key {key_names} = {{}} have equal values in {by}: add another column"
                " to sequence_by"
            )
        queries = [(tie, text)]
        if self._kind is not None:
            queries.insert(0, self.unknown_kind(self._kind, KINDS))
        return queries

    def merge(self) -> sql.Composed:
        """Return the statement with which the last row of each key deletes, updates or inserts."""
        from psycopg import sql

        keys = listed_columns(self._keys)
        by = sql.SQL(", ").join([keys, self._latest_first()] if self._sequence_by else [keys])
        latest = sql.SQL("latest AS MATERIALIZED (SELECT DISTINCT ON ({}) * FROM {} ORDER BY {})").format(
            keys, sql.Identifier("pg_temp", STAGED), by
        )
        parts: list[sql.Composable] = [latest]
        rest: sql.Composable = sql.SQL("")
        if self._kind is not None:
            kind = sql.Identifier("latest", self._kind)
            same = sql.SQL(" AND ").join(
                sql.SQL("{} = {}").format(sql.Identifier("kept", name), sql.Identifier("latest", name))
                for name in self._keys
            )
            parts.append(
                sql.SQL("gone AS (DELETE FROM {} AS kept USING latest WHERE {} = '-D' AND {}{})").format(
                    self._table.identifier, kind, same, self._unless_older(" AND ", "latest")
                )
            )
            rest = sql.SQL("WHERE {} <> '-D' ").format(kind)
        return sql.SQL(
            "WITH {parts} INSERT INTO {table} AS kept ({names}) SELECT {names} FROM latest {rest}ORDER BY {keys}"
            " ON CONFLICT ({keys}) DO {change}"
        ).format(
            parts=sql.SQL(", ").join(parts),
            table=self._table.identifier,
            names=listed_columns(self._names),
            rest=rest,
            keys=keys,
            change=self._change(),
        )

    def _change(self) -> sql.Composable:
        from psycopg import sql

        others = [name for name in self._names if name not in self._keys]
        if not others:
            return sql.SQL("NOTHING")
        changes = sql.SQL(", ").join(
            sql.SQL("{} = {}").format(sql.Identifier(name), sql.Identifier("excluded", name)) for name in others
        )
        return sql.SQL("UPDATE SET {}{}").format(changes, self._unless_older(" WHERE ", "excluded"))

    def _unless_older(self, word: str, row: str) -> sql.Composable:
        """Return a condition that the row in the table is not later; empty without sequence columns."""
        from psycopg import sql

        sequence = self._sequence_by
        if not sequence or any(name not in self._names for name in sequence):
            return sql.SQL("")
        stored, new = (sql.SQL(", ").join(sql.Identifier(of, name) for name in sequence) for of in ("kept", row))
        return sql.SQL("{}(ROW({}) > ROW({})) IS NOT TRUE").format(sql.SQL(word), stored, new)

    def _latest_first(self) -> sql.Composed:
        from psycopg import sql

        return sql.SQL(", ").join(
            sql.SQL("{} DESC NULLS LAST").format(sql.Identifier(name)) for name in self._sequence_by
        )


def listed_columns(names: Iterable[str]) -> sql.Composed:
    from psycopg import sql

    return sql.SQL(", ").join(map(sql.Identifier, names))
