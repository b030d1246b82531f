"""A database, and connections to it. Its names and errors never contain passwords."""

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

# Values are read and written as texts, whose format must not depend on the role's settings.
_SETTINGS = """
SELECT set_config('TimeZone', 'UTC', false), set_config('DateStyle', 'ISO, YMD', false),
       set_config('IntervalStyle', 'iso_8601', false), set_config('bytea_output', 'hex', false),
       set_config('extra_float_digits', '1', false)
"""

_SECRETS = ("password", "sslpassword")


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A database with its connection string. `name` consists of host and database, for messages, without passwords."""

    conninfo: str = field(repr=False)
    name: str

    @classmethod
    def of(cls, conninfo: str, what: str) -> Self:
        """Parse a connection string, `host=... dbname=...` or `postgresql://...`, like libpq.

        Raises:
            MissingExtraError: psycopg is not installed.
            ValueError: the string cannot be parsed. The message does not show it, as it may contain a password.
        """
        require("psycopg", extra="postgres", what=what)
        import psycopg
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        if not isinstance(conninfo, str):
            raise TypeError(f"{what} takes a connection string, not a {type(conninfo).__name__}")
        try:
            parameters: dict[str, Any] = conninfo_to_dict(conninfo)
        except psycopg.ProgrammingError:
            raise ValueError(
                f"the connection string of {what} cannot be read: write it as 'host=db1 dbname=shop user=flykka' or as"
                " 'postgresql://flykka@db1/shop'; values with blanks in them stand between single quotes"
            ) from None
        remember_secrets(parameters)
        defaults = {"application_name": "flykka", "connect_timeout": _CONNECT_TIMEOUT_S}
        host = parameters.get("host") or parameters.get("hostaddr") or parameters.get("service") or "localhost"
        name = f"{host}/{parameters.get('dbname') or parameters.get('user') or ''}"
        return cls(conninfo=make_conninfo(**{**defaults, **parameters}), name=name)

    def __str__(self) -> str:
        return self.name

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Connect. Each statement is a transaction, except in `transaction()`. Raises `psycopg.Error`."""
        import psycopg

        connection = psycopg.connect(self.conninfo, autocommit=True, client_encoding="UTF8")
        try:
            # A writer that waits for another writer must see the other's changes.
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            connection.execute(_SETTINGS)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def connected(self, error: type[SparkBridgeError], what: object) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """Connect for the duration of the block. Raises errors of the database as `error`, whose text names `what`."""
        import psycopg

        try:
            with self.connect() as connection:
                yield connection
        except psycopg.Error as refused:
            raise error(f"{what}: {self.error_text(refused)}") from None

    def error_text(self, error: psycopg.Error) -> str:
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
    """A snapshot of the table, held open as `name`. `seen` are its visible transactions, and `at_ms` is its time."""

    name: str
    seen: str
    at_ms: int


class OpenSnapshot:
    """The open snapshot of one source, if any, for reading pages of a table, possibly repeatedly.

    The snapshot is an idle transaction of the driver, which sessions of the executors import by its name. While it is
    open, the database retains old versions of rows. It is closed when a checkpoint is complete in which all pages were
    read.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._close: finalize[..., OpenSnapshot] | None = None

    def open(self, database: Database) -> TableSnapshot:
        connection = database.connect()
        try:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            # Reading the pages may take hours, while this session is idle.
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            row = connection.execute(
                "SELECT pg_export_snapshot(), pg_current_snapshot()::text,"
                " (extract(epoch FROM transaction_timestamp()) * 1000)::bigint"
            ).fetchone()
        except BaseException:
            connection.close()
            raise
        assert row is not None
        name, seen, at_ms = row
        self.close()
        with self._lock:
            # The source may be garbage-collected before it closes the snapshot.
            self._close = finalize(self, connection.close)
        return TableSnapshot(name=name, seen=seen, at_ms=at_ms)

    def close(self) -> None:
        with self._lock:
            close, self._close = self._close, None
        if close is not None:
            close()


def import_snapshot(connection: psycopg.Connection[Any], snapshot: TableSnapshot, target: str) -> None:
    """Make a new transaction see exactly the snapshot's data. Raises `SourceError` if its session has ended."""
    import psycopg
    from psycopg import sql

    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    errors = psycopg.errors
    try:
        connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(snapshot.name))
        row = connection.execute("SELECT pg_current_snapshot()::text").fetchone()
    except (errors.InvalidParameterValue, errors.UndefinedObject, errors.ObjectNotInPrerequisiteState):
        row = None
    # After a restart of the server, names of snapshots are reused.
    if row is None or row[0] != snapshot.seen:
        raise SourceError(
            f"the snapshot for the initial read of {target} is lost, because the session that held it ended before the"
            " table was read completely. Start the job without restoring a checkpoint"
        )
