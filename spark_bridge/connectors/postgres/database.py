"""A database, and connections to it. What is shown of it, in names and in errors, is without passwords."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from flykka.runtime.secrets import remember_secrets
from flykka.spark_bridge.connectors.extras import require
from flykka.spark_bridge.errors import SparkBridgeError

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
