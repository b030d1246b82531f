"""A snapshot of the database that stays open while the pages of a table are read, which may be again and again.

It is a transaction of the driver's that does nothing; sessions of the executors go by its name. While it is open, the
database keeps old versions of rows. It ends when a checkpoint is complete in which all pages were read.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import finalize

from flykka.spark_bridge.connectors.postgres.log_ranges import Snapshot
from flykka.spark_bridge.errors import SourceError

if TYPE_CHECKING:
    import psycopg

    from flykka.spark_bridge.connectors.postgres.database import Database


class HeldSnapshot:
    """The snapshot of one source, if it has one open."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._close: finalize[..., HeldSnapshot] | None = None

    def open(self, database: Database) -> Snapshot:
        """Open a snapshot, and close the one before. Raises `psycopg.Error`."""
        connection = database.connect()
        try:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            # Pages may be read for hours, while nothing happens here.
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            found = connection.execute(
                "SELECT pg_export_snapshot(), pg_current_snapshot()::text,"
                " (extract(epoch FROM transaction_timestamp()) * 1000)::bigint"
            ).fetchone()
        except BaseException:
            connection.close()
            raise
        assert found is not None
        name, seen, at_ms = found
        self.close()
        with self._lock:
            # The source may be forgotten before it comes to its end.
            self._close = finalize(self, _close, connection)
        return Snapshot(name=name, seen=seen, at_ms=at_ms)

    def close(self) -> None:
        with self._lock:
            close, self._close = self._close, None
        if close is not None:
            close()


def import_snapshot(connection: psycopg.Connection[Any], snapshot: Snapshot, target: str) -> None:
    """Let a transaction that has done nothing yet see what the snapshot does.

    Raises:
        SourceError: the snapshot is gone: the session that held it has ended.
    """
    import psycopg
    from psycopg import sql

    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    errors = psycopg.errors
    try:
        connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(snapshot.name))
        found = connection.execute("SELECT pg_current_snapshot()::text").fetchone()
    except (errors.InvalidParameterValue, errors.UndefinedObject, errors.ObjectNotInPrerequisiteState):
        found = None
    # Names come again when the server was started again.
    if found is None or found[0] != snapshot.seen:
        raise SourceError(
            f"the snapshot by which {target} is read at first is gone: the session that held it has ended, and the"
            " table was not read to its end. Begin without a checkpoint"
        )


def _close(connection: psycopg.Connection[Any]) -> None:
    connection.close()
