"""A table of the database as a DataFrame for joins with streams, which Spark tasks read by COPY, without JDBC.

`join` computes a static DataFrame again for every batch, so the table is read again. With `refresh`, each Python worker
caches the rows for that time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from flykka.runtime.durations import Duration, positive_duration_ms
from flykka.spark_bridge.connectors.postgres.database import Database, TableSnapshot, import_snapshot
from flykka.spark_bridge.connectors.postgres.read_types import ReadColumn, ReadValues, as_texts, check_distinct, decoded
from flykka.spark_bridge.connectors.postgres.tables import Table
from flykka.spark_bridge.errors import SourceError, SourceNotFoundError
from flykka.spark_bridge.program.source import positive

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql
    from pyspark.sql import DataFrame, SparkSession

_WHAT = "a postgres_table"
_BYTES_AT_ONCE = 4 * 1024 * 1024
_INTEGERS = frozenset({"int2", "int4", "int8"})
BROADCAST_BYTES_MAX = 64 * 1024 * 1024
"""The maximum size of a table that is broadcast to all executors. Spark does not know the table's size."""

_cached: dict[tuple[str, bytes, str], tuple[float, list[pa.RecordBatch]]] = {}
"""Cached rows of this process, by connection string, query and rule for unreadable values, with the time of reading."""


def postgres_table(
    session: SparkSession,
    conninfo: str,
    table: str,
    *,
    refresh: Duration | None = None,
    partition_by: str | None = None,
    partitions: int = 1,
    on_unreadable: Literal["fail", "null"] = "fail",
) -> DataFrame:
    """Return a table, view or foreign table as a DataFrame that is read whenever it is computed.

        prices = postgres_table(env.spark, "host=db1 dbname=shop", "prices", refresh="1min")
        orders.join(prices, "item", "left")

    With `refresh`, a Python worker reuses the rows that it has read for that time: rows may have that age, and
    different ages in two workers. One task reads the table, as of one moment. With `partition_by`, an integer column,
    as many tasks read it in `partitions` ranges of that column, each as of a different moment. A value that does not
    exist in Spark, such as a date BC, raises `UnreadableValueError`, or is null with `on_unreadable="null"`.

    Raises:
        MissingExtraError: psycopg is not installed.
        SourceNotFoundError: the table does not exist.
        SourceError: the database does not respond, or `partition_by` is not an integer column.
        PrototypeError: names of columns differ only by case.
        ValueError: the connection string cannot be parsed, `partitions` is not positive, or `on_unreadable` has an
            unknown value.
        DurationError: `refresh` is not a duration.
    """
    database = Database.of(conninfo, _WHAT)
    refresh_ms = None if refresh is None else positive_duration_ms(refresh, "refresh")
    if on_unreadable not in ("fail", "null"):
        raise ValueError(f'on_unreadable of a postgres_table is "fail" or "null", not {on_unreadable!r}')
    if positive(partitions, "partitions") > 1 and partition_by is None:
        raise ValueError("with partitions, partition_by names the integer column whose ranges they are")
    with database.connected(SourceError, f"{table} at {database} cannot be read") as connection:
        catalog_table = Table.find(connection, table)
        if catalog_table is None:
            raise SourceNotFoundError(f"there is no table {table} at {database}")
        columns = tuple(ReadColumn.of(column) for column in catalog_table.columns)
        check_distinct(session, f"{catalog_table} at {database}", (column.name for column in columns))
        queries = _queries(connection, catalog_table, columns, partition_by, partitions)
        size = connection.execute("SELECT pg_table_size(%s::oid)", (catalog_table.oid,)).fetchone()
    values = ReadValues(table=str(catalog_table), columns=columns, puts_aside=False, on_unreadable=on_unreadable)
    work = ReadTable(database=database, queries=queries, values=values, refresh_ms=refresh_ms)
    tasks = session.range(0, len(queries), 1, len(queries))
    rows = decoded(tasks.mapInArrow(work, as_texts(columns)), columns)
    return rows.hint("merge") if size is not None and size[0] > BROADCAST_BYTES_MAX else rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTable:
    """Reads the rows of the queries whose numbers are in the batches, as texts. An argument of `mapInArrow`."""

    database: Database
    queries: Sequence[bytes]
    values: ReadValues
    refresh_ms: int | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._rows(self.queries[number])

    def _rows(self, query: bytes) -> Iterable[pa.RecordBatch]:
        if self.refresh_ms is None:
            return self._read(query)
        key, now = (self.database.conninfo, query, self.values.on_unreadable), time.monotonic()
        cached = _cached.get(key)
        if cached is None or now - cached[0] >= self.refresh_ms / 1000:
            cached = _cached[key] = now, list(self._read(query))
        return cached[1]

    def _read(self, query: bytes) -> Iterator[pa.RecordBatch]:
        names = [column.name for column in self.values.columns]
        return map(self.values.of, copied(self.database, query, names, self.values.table))


def copied(
    database: Database, query: bytes, names: Sequence[str], target: str, snapshot: TableSnapshot | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query as texts, now or in a snapshot. Raises `SourceError`, which names `target`."""
    what = f"{target} at {database} cannot be read"
    with database.connected(SourceError, what) as connection, connection.transaction():
        if snapshot is not None:
            import_snapshot(connection, snapshot, target)
        with connection.cursor() as cursor, cursor.copy(b"COPY (" + query + b") TO STDOUT (FORMAT csv)") as copy:
            lines, size = BytesIO(), 0
            for line in copy:
                # Each message is one row, so no row is cut.
                size += lines.write(line)
                if size >= _BYTES_AT_ONCE:
                    yield from _parsed(lines.getvalue(), names)
                    lines, size = BytesIO(), 0
            yield from _parsed(lines.getvalue(), names)


def _parsed(lines: bytes, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Parse rows in PostgreSQL's CSV: null is empty, and an empty text is two quotes."""
    from pyarrow import csv

    if not lines:
        return
    table = csv.read_csv(
        BytesIO(lines),
        csv.ReadOptions(column_names=list(names), use_threads=False, block_size=len(lines) + 1),
        csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types={name: pa.string() for name in names},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    yield from table.to_batches()


def _queries(
    connection: psycopg.Connection[Any],
    table: Table,
    columns: Sequence[ReadColumn],
    partition_by: str | None,
    partitions: int,
) -> tuple[bytes, ...]:
    from psycopg import sql

    rows = selection(table, columns)
    if partition_by is None or partitions == 1:
        return (rows.as_bytes(None),)
    column = table.column(partition_by)
    if column is None or column.base not in _INTEGERS:
        what = "no column of it" if column is None else f"of type {column.type}"
        raise SourceError(
            f"{table} cannot be read in ranges of {partition_by!r}, which is {what}: use an integer column"
        )
    name = sql.Identifier(partition_by)
    bounds = connection.execute(sql.SQL("SELECT min({0}), max({0}) FROM {1}").format(name, table.identifier)).fetchone()
    low, high = (0, 0) if bounds is None or bounds[0] is None else bounds
    cuts = sorted({low + (high - low) * number // partitions for number in range(1, partitions)} - {low})
    if not cuts:
        return (rows.as_bytes(None),)
    # Rows that are added later may be outside of these bounds, so the first and the last range are open.
    conditions = [
        sql.SQL("{0} < {1} OR {0} IS NULL").format(name, cuts[0]),
        *(sql.SQL("{0} >= {1} AND {0} < {2}").format(name, first, behind) for first, behind in pairwise(cuts)),
        sql.SQL("{0} >= {1}").format(name, cuts[-1]),
    ]
    return tuple((rows + sql.SQL(" WHERE {}").format(each)).as_bytes(None) for each in conditions)


def selection(table: Table, columns: Sequence[ReadColumn]) -> sql.Composed:
    from psycopg import sql

    return sql.SQL("SELECT {} FROM {}").format(
        sql.SQL(", ").join(sql.Identifier(column.name) for column in columns), table.identifier
    )
