"""Writes the rows of a transaction in a Python worker of Spark, with statements built by the driver.

The writer's row in the table of checkpoints is locked first. Another attempt of the same writer waits for the lock, and
then sees that the checkpoint is published. If a worker dies, the database rolls its transaction back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flykka.spark_bridge.connectors.postgres.database import Database
from flykka.spark_bridge.connectors.postgres.staged_rows import STAGED, Upserts, WholeRows, listed_columns
from flykka.spark_bridge.connectors.postgres.written_types import WrittenColumn, column_type_for
from flykka.spark_bridge.errors import SinkError
from flykka.spark_bridge.worker.outputs import number_of
from flykka.spark_bridge.worker.time_columns import as_held

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql
    from pyspark.sql.types import StructField

    from flykka.spark_bridge.connectors.postgres.tables import Table
    from flykka.spark_bridge.connectors.transactional import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A query that finds an invalid row, and its error message, in which `{}` stands for the values of the row."""

    query: bytes
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkStatements:
    """The statements of one transaction, in order. They have no parameters, because names may contain percent signs.

    Upserts and changes of whole rows are copied into a temporary table. There the last row of each key is chosen, or
    the changes of equal rows are added, and ambiguous rows are detected, before one statement deletes, updates and
    inserts.
    """

    lock: bytes
    recorded: bytes
    note: bytes
    copy: bytes
    before: tuple[bytes, ...] = ()
    checks: tuple[Check, ...] = ()
    after: tuple[bytes, ...] = ()


def statements(
    connection: psycopg.Connection[Any],
    table: Table,
    columns: Sequence[WrittenColumn],
    beside: Sequence[StructField],
    kind: str | None,
    transaction: Transaction,
    *,
    keys: Sequence[str],
    sequence_by: Sequence[str],
) -> SinkStatements:
    """Return the statements that write `columns` to the table. The columns `beside`, such as `kind`, control the
    writing.
    """
    from psycopg import sql

    def encoded(text: sql.Composable) -> bytes:
        return text.as_bytes(connection)

    marks = {
        "checkpoints": table.checkpoints,
        "writer": sql.Literal(transaction.writer),
        "checkpoint_id": sql.Literal(transaction.checkpoint_id),
    }
    lock = "INSERT INTO {checkpoints} (writer, checkpoint_id) VALUES ({writer}, -1) ON CONFLICT DO NOTHING"
    recorded = "SELECT checkpoint_id FROM {checkpoints} WHERE writer = {writer} FOR UPDATE"
    note = "UPDATE {checkpoints} SET checkpoint_id = {checkpoint_id} WHERE writer = {writer}"
    names = [*(each.name for each in columns), *(field.name for field in beside)]
    stored = [each.name for each in columns]
    staged: Upserts | WholeRows | None = None
    if keys:
        staged = Upserts(table, keys, sequence_by, stored, beside, kind)
    elif kind is not None:
        staged = WholeRows(table, stored, beside, kind)
    target = table.identifier if staged is None else sql.Identifier("pg_temp", STAGED)
    copy = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(target, listed_columns(names))
    checks = [] if staged is None else staged.checks()
    return SinkStatements(
        lock=encoded(sql.SQL(lock).format(**marks)),
        recorded=encoded(sql.SQL(recorded).format(**marks)),
        note=encoded(sql.SQL(note).format(**marks)),
        copy=encoded(copy),
        before=() if staged is None else (encoded(staged.staging()),),
        checks=tuple(Check(query=encoded(query), text=text) for query, text in checks),
        after=() if staged is None else (encoded(staged.merge()),),
    )


def create_checkpoints(table: sql.Identifier) -> sql.Composed:
    from psycopg import sql

    return sql.SQL("CREATE TABLE IF NOT EXISTS {} (writer text PRIMARY KEY, checkpoint_id bigint NOT NULL)").format(
        table
    )


def create_table(name: tuple[str, str], fields: Iterable[StructField], keys: Sequence[str]) -> sql.Composed:
    """Return the statement that creates a table for rows. All types of the rows must have a type in the database."""
    from psycopg import sql

    parts: list[sql.Composable] = []
    for field in fields:
        column_type = column_type_for(field.dataType)
        assert column_type is not None, "the column cannot be written to PostgreSQL"
        parts.append(sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(column_type)))
    if keys:
        parts.append(sql.SQL("PRIMARY KEY ({})").format(listed_columns(keys)))
    return sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(sql.Identifier(*name), sql.SQL(", ").join(parts))


_DURABLE = "SELECT set_config(name, 'on', true) FROM pg_settings WHERE name = 'synchronous_commit' AND setting = 'off'"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishPostgresTransaction:
    database: Database
    checkpoint_id: int
    target: str
    statements: SinkStatements

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows, and yield their number, which is 0 if they were written before."""
        what = f"{self.target} at {self.database} does not accept the transaction of checkpoint {self.checkpoint_id}"
        with self.database.connected(SinkError, what) as connection, connection.transaction():
            rows = 0 if self._is_published(connection) else self._write(connection, batches)
        yield number_of(rows)

    def _is_published(self, connection: psycopg.Connection[Any]) -> bool:
        """Wait for other transactions of the writer, and return whether the checkpoint was published."""
        # The staged rows are deleted after the commit, so the commit must be on the database's disk.
        connection.execute(_DURABLE)
        connection.execute(self.statements.lock)
        recorded = connection.execute(self.statements.recorded).fetchone()
        assert recorded is not None, "the writer's row is missing"
        return bool(recorded[0] >= self.checkpoint_id)

    def _write(self, connection: psycopg.Connection[Any], batches: Iterable[pa.RecordBatch]) -> int:
        rows = 0
        for statement in self.statements.before:
            connection.execute(statement)
        with connection.cursor() as cursor, cursor.copy(self.statements.copy) as copy:
            for batch in batches:
                copy.write(_csv(batch))
                rows += batch.num_rows
        for check in self.statements.checks:
            row = connection.execute(check.query).fetchone()
            if row is not None:
                values = ", ".join(map(str, row))
                raise SinkError(
                    f"the rows of checkpoint {self.checkpoint_id} cannot be written to {self.target}:"
                    f" {check.text.replace('{}', values)}"
                )
        for statement in self.statements.after:
            connection.execute(statement)
        connection.execute(self.statements.note)
        return rows


def _csv(batch: pa.RecordBatch) -> memoryview:
    """Return the rows as PostgreSQL's CSV, in which nulls are empty and every text is quoted."""
    from pyarrow import csv

    buffer = BytesIO()
    csv.write_csv(
        # PostgreSQL may not know the time zone of Spark's session.
        as_held(batch),
        buffer,
        csv.WriteOptions(include_header=False, quoting_style="needed"),
    )
    return buffer.getbuffer()
