"""Writes the rows of a transaction in a Python worker of Spark. For `mapInArrow`.

The writer's own row in the table of checkpoints is locked first: another attempt that takes itself for the writer waits
for it, and then sees that the checkpoint is done. What a worker that has died was at, the database rolls back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flykka.spark_bridge.connectors.number_of_rows import number_of
from flykka.spark_bridge.connectors.postgres.database import Database
from flykka.spark_bridge.connectors.postgres.statements import Statements
from flykka.spark_bridge.errors import SinkError
from flykka.spark_bridge.worker.time_columns import as_held

if TYPE_CHECKING:
    import psycopg

_DURABLE = "SELECT set_config(name, 'on', true) FROM pg_settings WHERE name = 'synchronous_commit' AND setting = 'off'"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishTransaction:
    """Rows are written in one transaction of a writer, with the id of a checkpoint, unless that was done."""

    database: Database
    checkpoint_id: int
    target: str
    statements: Statements

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows, and tell how many they are: none where they are there."""
        what = f"{self.target} at {self.database} does not take the transaction of checkpoint {self.checkpoint_id}"
        with self.database.connected(SinkError, what) as connection, connection.transaction():
            rows = 0 if self._is_published(connection) else self._write(connection, batches)
        yield number_of(rows)

    def _is_published(self, connection: psycopg.Connection[Any]) -> bool:
        """Wait for any other of the writer's transactions, and say whether the checkpoint is done."""
        # What is staged is deleted behind the commit: the database must have it on its disk.
        connection.execute(_DURABLE)
        connection.execute(self.statements.lock)
        noted = connection.execute(self.statements.noted).fetchone()
        assert noted is not None, "the statement before has seen to it"
        return bool(noted[0] >= self.checkpoint_id)

    def _write(self, connection: psycopg.Connection[Any], batches: Iterable[pa.RecordBatch]) -> int:
        rows = 0
        for statement in self.statements.before:
            connection.execute(statement)
        with connection.cursor() as cursor, cursor.copy(self.statements.copy) as copy:
            for batch in batches:
                copy.write(_csv(batch))
                rows += batch.num_rows
        for check in self.statements.checks:
            found = connection.execute(check.query).fetchone()
            if found is not None:
                values = ", ".join(map(str, found))
                raise SinkError(
                    f"the rows of checkpoint {self.checkpoint_id} cannot be written to {self.target}:"
                    f" {check.text.replace('{}', values)}"
                )
        for statement in self.statements.after:
            connection.execute(statement)
        connection.execute(self.statements.note)
        return rows


def _csv(batch: pa.RecordBatch) -> memoryview:
    """The rows as PostgreSQL reads CSV: what is null is empty, and every text between quotes."""
    from pyarrow import csv

    buffer = BytesIO()
    csv.write_csv(
        # PostgreSQL need not know the time zone of Spark's session.
        as_held(batch),
        buffer,
        csv.WriteOptions(include_header=False, quoting_style="needed"),
    )
    return buffer.getbuffer()
