"""PostgresSink: rows that are in a table exactly once. They are appended, or replace the rows with the same key.

The rows that a subtask has staged for a checkpoint are copied in one transaction, which also records the id of the
checkpoint in `flykka_checkpoints`, next to the table. A restore checks that table first. Rows go from the executors to
the database, without passing through the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from flykka.spark_bridge.connectors.postgres.database import Database
from flykka.spark_bridge.connectors.postgres.publishing import (
    PublishPostgresTransaction,
    create_checkpoints,
    create_table,
    statements,
)
from flykka.spark_bridge.connectors.postgres.tables import CHECKPOINTS, Table, names_of
from flykka.spark_bridge.connectors.postgres.written_types import column_type_for, named, written_columns
from flykka.spark_bridge.connectors.transactional import Transaction, TransactionalSink
from flykka.spark_bridge.errors import SinkError
from flykka.spark_bridge.program.prototype import PrototypeError
from flykka.spark_bridge.rows.row_kind import ROW_KIND, UPDATE_BEFORE
from flykka.spark_bridge.worker.outputs import ROWS

if TYPE_CHECKING:
    import psycopg
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField

    from flykka.spark_bridge.rows.filesystem import FileSystem

_WHAT = "a PostgresSink"
# An arbitrary number for an advisory lock, with which sessions that create tables wait for each other.
_MAKING_TABLES = 0x666C796B6B61


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresSink(TransactionalSink):
    """Writes rows to a table, whose columns are matched by name. Created by `append`, `upsert` or `apply_changes`."""

    needs_order: ClassVar[bool] = False
    removes_whole_rows: ClassVar[bool] = False
    """True if rows without keys may remove equal rows."""

    database: Database
    table: str
    keys: tuple[str, ...] = ()
    row_kind: str | None = None
    sequence_by: tuple[str, ...] = ()
    creates_table: bool = False

    @classmethod
    def append(cls, conninfo: str, table: str) -> Self:
        """Append the rows to a table, `"orders"` or `"shop.orders"`, of the database in a connection string.

        Raises:
            MissingExtraError: psycopg is not installed.
            ValueError: the connection string cannot be parsed.
        """
        return cls(database=Database.of(conninfo, _WHAT), table=table)

    @staticmethod
    def apply_changes(conninfo: str, table: str, *, row_kind: str = ROW_KIND) -> PostgresChangesSink:
        """Add a row, or remove a row that is equal in all columns, for each change.

        `row_kind` names the column with the kind of a row: `-D` and `-U` remove one row with these values, `+I` and
        `+U` add one. It is not written. The job fails if there is no such row: only the job may change the table.

        Raises:
            MissingExtraError: psycopg is not installed.
            ValueError: the connection string cannot be parsed.
        """
        return PostgresChangesSink(database=Database.of(conninfo, _WHAT), table=table, row_kind=row_kind)

    @classmethod
    def upsert(
        cls,
        conninfo: str,
        table: str,
        *,
        keys: Sequence[str],
        row_kind: str | None = None,
        sequence_by: str | Sequence[str] = (),
    ) -> Self:
        """Insert rows, or update the rows with the same `keys`, for which the table must have a unique index.

        `row_kind` names the column with the kind of a row, as in Flink's RowKind: `-D` deletes the row of its key, `+I`
        and `+U` write it, `-U` is ignored. By default a column named `row_kind` is used if the rows have one. The
        column is not written. `sequence_by` names columns that order the rows of one key: the last row is written and,
        if the table has these columns, a row older than the stored row changes nothing. Without `sequence_by`, no key
        may occur twice between two checkpoints.

        Raises:
            MissingExtraError: psycopg is not installed.
            ValueError: the connection string cannot be parsed, or there are no keys.
        """
        sequence = (sequence_by,) if isinstance(sequence_by, str) else tuple(sequence_by)
        if isinstance(keys, str) or not keys:
            raise ValueError(f"the keys of an upsert are a list of columns, as in keys=['id'], not {keys!r}")
        return cls(
            database=Database.of(conninfo, _WHAT),
            table=table,
            keys=tuple(keys),
            row_kind=row_kind,
            sequence_by=sequence,
        )

    def create_table(self) -> Self:
        """Create the table if it is missing, with the columns of the rows, and the keys as its primary key."""
        return replace(self, creates_table=True)

    @property
    def format(self) -> str:
        return "postgres"

    def __str__(self) -> str:
        return f"{self.format} {self.table} at {self.database}"

    def check_rows(self, prototype: DataFrame) -> None:
        """Raise `PrototypeError` if the rows do not fit the table. Queries the database, and may block.

        If the table is missing, only the checks without a table are made.
        """
        TransactionalSink.check_rows(self, prototype)
        kinds = () if self.row_kind is None else (self.row_kind,)
        needed = (*self.keys, *self.sequence_by, *kinds)
        if missing := [name for name in needed if name not in prototype.columns]:
            raise PrototypeError(
                f"{self} needs the column {missing[0]!r}, but the rows have {', '.join(prototype.columns)}"
            )
        fields = self._written_fields(prototype.schema.fields)
        with self.database.connected(SinkError, self) as connection:
            table = Table.find(connection, self.table)
        if table is not None:
            mismatch = written_columns(table, fields, self.sequence_by)
            kind = self._kind_in(prototype.columns)
            if kind is not None and table.column(kind) is not None:
                mismatch = (
                    f"the column {kind!r} of the rows is the kind of their change, but {table} has a column with this"
                    " name too: rename the column of the rows, and name it with row_kind"
                )
            if isinstance(mismatch, str):
                raise PrototypeError(mismatch)
        elif unknown := [field for field in fields if column_type_for(field.dataType) is None]:
            raise PrototypeError(
                f"PostgreSQL has no type for the column {unknown[0].name!r}, which is of type"
                f" {unknown[0].dataType.simpleString()}: cast it"
            )

    def check_target(self, filesystem: FileSystem) -> None:
        """Raise `SinkError` if the table does not exist, the keys are not unique, or a permission is missing."""
        with self.database.connected(SinkError, self) as connection:
            table = Table.find(connection, self.table)
            if table is None and not self.creates_table:
                raise SinkError(
                    f"there is no table {self.table} at {self.database}: create it, or call create_table() of the sink"
                )
            if table is not None and self.keys and not any(set(self.keys) == set(each) for each in table.unique):
                keys = ", ".join(self.keys)
                raise SinkError(
                    f"{table} has no unique index on the columns {keys}, which the upsert needs to find rows: create"
                    f" one, as with CREATE UNIQUE INDEX ON {table} ({keys})"
                )
            schema = names_of(connection, self.table)[0] if table is None else table.schema
            self._check_allowed(connection, schema, table)

    def _check_allowed(self, connection: psycopg.Connection[Any], schema: str, table: Table | None) -> None:
        from psycopg import sql

        checkpoints = sql.Identifier(schema, CHECKPOINTS)
        there = connection.execute(
            "SELECT to_regclass(%s) IS NOT NULL, has_schema_privilege(%s, 'CREATE'), current_user",
            (checkpoints.as_string(connection), schema),
        ).fetchone()
        assert there is not None
        has_checkpoints, may_create, user = there
        if not may_create and (table is None or not has_checkpoints):
            missing = self.table if table is None else f"{schema}.{CHECKPOINTS}"
            statement_text = create_checkpoints(checkpoints).as_string(connection)
            statement = "" if table is None else f", by {statement_text}"
            raise SinkError(f"{user} may not create {missing} at {self.database}: let another role do it{statement}")
        changed = ("INSERT", "SELECT", "UPDATE")
        of_table = changed if self.keys else changed[:1]
        if self.removes_whole_rows:
            of_table = ("INSERT", "SELECT", "DELETE")
        needed: list[tuple[sql.Identifier, tuple[str, ...]]] = [(checkpoints, changed)] if has_checkpoints else []
        if table is not None:
            needed.insert(0, (table.identifier, of_table))
        for target, privileges in needed:
            name = target.as_string(connection)
            for privilege in privileges:
                row = connection.execute("SELECT has_table_privilege(%s, %s)", (name, privilege)).fetchone()
                if row is None or not row[0]:
                    grant = f"GRANT {', '.join(privileges)} ON {name} TO {user}"
                    raise SinkError(f"{user} may not write to {name} at {self.database}: {grant}")

    def publish(self, transaction: Transaction) -> None:
        with self.database.connected(SinkError, self) as connection:
            if self._is_published(connection, transaction):
                return
            rows = transaction.rows
            table = self._create_tables(connection, rows)
            fields = self._written_fields(rows.schema.fields)
            columns = written_columns(table, fields, self.sequence_by)
            if isinstance(columns, str):
                raise SinkError(f"{columns} (the table was changed since the job began)")
            beside = [field for field in rows.schema.fields if field.name not in {each.name for each in columns}]
            kind = self._kind_in(rows.columns)
            sink_statements = statements(
                connection,
                table,
                columns,
                beside,
                kind,
                transaction,
                keys=self.keys,
                sequence_by=self.sequence_by,
            )
        if kind is not None and self.keys:
            rows = rows.where(~named(kind).eqNullSafe(UPDATE_BEFORE))
        types = {field.name: field.dataType for field in fields}
        work = PublishPostgresTransaction(
            database=self.database,
            checkpoint_id=transaction.checkpoint_id,
            target=str(table),
            statements=sink_statements,
        )
        texts = [each.text(types[each.name]) for each in columns]
        texts += [named(field.name) for field in beside]
        # Columns are named by number, because Spark's `mapInArrow` looks up columns by unquoted names.
        numbered = rows.select(*texts).toDF(*map(str, range(len(texts))))
        numbered.coalesce(1).mapInArrow(work, ROWS).collect()

    def _is_published(self, connection: psycopg.Connection[Any], transaction: Transaction) -> bool:
        """Return True if this checkpoint or a later checkpoint is recorded. Another attempt may be publishing it
        now.
        """
        from psycopg import sql

        table = Table.find(connection, self.table)
        if table is None:
            return False
        if not table.has_checkpoints(connection):
            return False
        query = sql.SQL("SELECT 1 FROM {} WHERE writer = {} AND checkpoint_id >= {}").format(
            table.checkpoints, sql.Literal(transaction.writer), sql.Literal(transaction.checkpoint_id)
        )
        return connection.execute(query).fetchone() is not None

    def _create_tables(self, connection: psycopg.Connection[Any], rows: DataFrame) -> Table:
        """Return the table. If they do not exist, the table and the table of checkpoints are created."""
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MAKING_TABLES,))
            table = Table.find(connection, self.table)
            if table is None and self.creates_table:
                name = names_of(connection, self.table)
                fields = self._written_fields(rows.schema.fields)
                connection.execute(create_table(name, fields, self.keys))
                table = Table.find(connection, self.table)
            if table is None:
                raise SinkError(f"there is no table {self.table} at {self.database} any more")
            if not table.has_checkpoints(connection):
                connection.execute(create_checkpoints(table.checkpoints))
        return table

    def _written_fields(self, fields: Sequence[StructField]) -> list[StructField]:
        kind = self._kind_in([field.name for field in fields])
        return [field for field in fields if field.name != kind]

    def _kind_in(self, names: Sequence[str]) -> str | None:
        if self.keys and self.row_kind is None:
            return ROW_KIND if ROW_KIND in names else None
        return self.row_kind


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresChangesSink(PostgresSink):
    """Adds rows, and removes equal rows. Created by `PostgresSink.apply_changes`.

    It runs in one subtask: a row must not be removed before another subtask has added it.
    """

    parallelism_limit: ClassVar[int | None] = 1
    removes_whole_rows: ClassVar[bool] = True
