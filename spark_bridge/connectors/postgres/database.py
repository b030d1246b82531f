"""A database, and connections to it. What is shown of it, in names and in errors, is without passwords."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Self
from weakref import finalize

from flykka.runtime.secrets import remember_secrets
from flykka.spark_bridge.connectors.connector import require
from flykka.spark_bridge.errors import SourceError, SparkBridgeError

if TYPE_CHECKING:
    import psycopg

_CONNECT_TIMEOUT_S = "30"

# Texts of values are read and written: whatever the role has set, they are of one form.
_SETTINGS = """
SELECT set_config('TimeZone', 'UTC', false), set_config('DateStyle', 'ISO, YMD', false),
       set_config('IntervalStyle', 'iso_8601', false), set_config('bytea_output', 'hex', false),
       set_config('extra_float_digits', '1', false)
"""

_SECRETS = ("password", "sslpassword")


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A database by its connection string. `name` is host and database, to be shown."""

    conninfo: str = field(repr=False)
    name: str

    @classmethod
    def of(cls, conninfo: str, what: str) -> Self:
        """The database of a connection string, `host=... dbname=...` or `postgresql://...`, as libpq reads it.

        Raises:
            MissingExtraError: psycopg is not installed.
            ValueError: it cannot be read. The text does not say what is in it: that may be a password.
        """
        require("psycopg", extra="postgres", what=what)
        import psycopg
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        if not isinstance(conninfo, str):
            raise TypeError(f"{what} takes a connection string, not a {type(conninfo).__name__}")
        try:
            given: dict[str, Any] = conninfo_to_dict(conninfo)
        except psycopg.ProgrammingError:
            raise ValueError(
                f"the connection string of {what} cannot be read: write it as 'host=db1 dbname=shop user=flykka' or as"
                " 'postgresql://flykka@db1/shop'; values with blanks in them stand between single quotes"
            ) from None
        remember_secrets(given)
        defaults = {"application_name": "flykka", "connect_timeout": _CONNECT_TIMEOUT_S}
        host = given.get("host") or given.get("hostaddr") or given.get("service") or "localhost"
        name = f"{host}/{given.get('dbname') or given.get('user') or ''}"
        return cls(conninfo=make_conninfo(**{**defaults, **given}), name=name)

    def __str__(self) -> str:
        return self.name

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Connect; each statement is a transaction, but in `transaction()`. Raises `psycopg.Error`."""
        import psycopg

        connection = psycopg.connect(self.conninfo, autocommit=True, client_encoding="UTF8")
        try:
            # A writer that waits for another one has to see what that has done.
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            connection.execute(_SETTINGS)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def connected(self, error: type[SparkBridgeError], what: object) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """A connection until the block is left; what the database refuses is raised as `error`, and names `what`."""
        import psycopg

        try:
            with self.connect() as connection:
                yield connection
        except psycopg.Error as refused:
            raise error(f"{what}: {self.told(refused)}") from None

    def told(self, error: psycopg.Error) -> str:
        """The text of an error of the database's, with its detail and hint."""
        from psycopg.conninfo import conninfo_to_dict

        diagnosis = error.diag
        parts = [diagnosis.message_primary, diagnosis.message_detail, diagnosis.message_hint, diagnosis.context]
        text = "; ".join(part for part in parts if part) or str(error).strip() or type(error).__name__
        for secret in _SECRETS:
            if value := conninfo_to_dict(self.conninfo).get(secret):
                text = text.replace(str(value), "***")
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSnapshot:
    """A snapshot of the table, kept open under `name`; it has seen the transactions of `seen`, and is of `at_ms`."""

    name: str
    seen: str
    at_ms: int


class HeldSnapshot:
    """The snapshot of one source, if it has one open: for pages of a table, which may be read again and again.

    It is a transaction of the driver's that does nothing; sessions of the executors go by its name. While it is open,
    the database keeps old versions of rows. It ends when a checkpoint is complete in which all pages were read.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._close: finalize[..., HeldSnapshot] | None = None

    def open(self, database: Database) -> TableSnapshot:
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
            self._close = finalize(self, connection.close)
        return TableSnapshot(name=name, seen=seen, at_ms=at_ms)

    def close(self) -> None:
        with self._lock:
            close, self._close = self._close, None
        if close is not None:
            close()


def import_snapshot(connection: psycopg.Connection[Any], snapshot: TableSnapshot, target: str) -> None:
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
