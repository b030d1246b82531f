"""A logical replication slot of PostgreSQL, and the publication that names its table.

A slot retains the write-ahead log from the confirmed position. Reading does not advance it, so changes can be read
again. The position of a complete checkpoint is confirmed. Only one session at a time may use a slot.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from flykka.spark_bridge.connectors.postgres.log_ranges import lsn_text
from flykka.spark_bridge.errors import SourceError

if TYPE_CHECKING:
    import psycopg

    from flykka.spark_bridge.connectors.postgres.tables import Table

Result = TypeVar("Result")

_NAME = re.compile(r"[a-z0-9_]{1,63}")
_PAUSE_SECONDS = 0.02
PLUGIN = "pgoutput"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSlot:
    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                "the name of a replication slot consists of up to 63 lower-case letters, digits and underscores,"
                f" unlike {self.name!r}"
            )

    def confirmed(self, connection: psycopg.Connection[Any]) -> int | None:
        """Return the position from which the slot retains the log; None if there is no slot.

        Raises `SourceError` if the slot belongs to another database or plugin, or has lost a part of the log.
        """
        row = connection.execute(
            "SELECT plugin, database = current_database(), wal_status, (confirmed_flush_lsn - '0/0')::bigint"
            " FROM pg_replication_slots WHERE slot_name = %s",
            (self.name,),
        ).fetchone()
        if row is None:
            return None
        plugin, is_of_database, status, lsn = row
        if plugin != PLUGIN or not is_of_database:
            whose = f"the plugin {plugin}" if plugin != PLUGIN else "another database"
            raise SourceError(f"a replication slot {self.name!r} of {whose} exists already: use another name")
        if status == "lost":
            raise SourceError(
                f"the replication slot {self.name!r} has lost the log that it should retain: max_slot_wal_keep_size"
                " was too small. Drop it, and start without a checkpoint"
            )
        return int(lsn)

    def retained(self, connection: psycopg.Connection[Any]) -> str | None:
        row = connection.execute(
            "SELECT pg_size_pretty(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)) FROM pg_replication_slots"
            " WHERE slot_name = %s",
            (self.name,),
        ).fetchone()
        return None if row is None else f"the replication slot {self.name!r} keeps {row[0]} of the server's log"

    def check_retained(self, connection: psycopg.Connection[Any], lsn: int) -> None:
        confirmed = self.confirmed(connection)
        if confirmed is None:
            raise SourceError(
                f"the replication slot {self.name!r}, which retained the changes since {lsn_text(lsn)}, no longer"
                " exists, so the job cannot continue from there: start without a checkpoint"
            )
        if confirmed > lsn:
            raise SourceError(
                f"the replication slot {self.name!r} retains the changes since {lsn_text(confirmed)}, but the job"
                f" continues from {lsn_text(lsn)}: was it created again, or does another job use it? Begin without a"
                " checkpoint"
            )

    def create(self, connection: psycopg.Connection[Any], table: Table) -> None:
        from psycopg import sql

        # The plugin looks the publication up as of the change that it decodes, so it must exist before the slot.
        there = connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (self.name,)).fetchone()
        if there is None:
            connection.execute(
                sql.SQL(
                    "CREATE PUBLICATION {} FOR TABLE {} WITH (publish = 'insert, update, delete, truncate')"
                ).format(sql.Identifier(self.name), table.identifier)
            )
        if self.confirmed(connection) is None:
            connection.execute("SELECT pg_create_logical_replication_slot(%s, %s)", (self.name, PLUGIN))

    def confirm(self, connection: psycopg.Connection[Any], lsn: int) -> None:
        """Release the log before this position. Raises `psycopg.Error`: `ObjectInUse` while the slot is read."""
        confirmed = self.confirmed(connection)
        if confirmed is not None and confirmed < lsn:
            connection.execute("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", (self.name, lsn_text(lsn)))

    def drop(self, connection: psycopg.Connection[Any]) -> None:
        from psycopg import sql

        if self.confirmed(connection) is not None:
            connection.execute("SELECT pg_drop_replication_slot(%s)", (self.name,))
        connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(self.name)))


def when_free(use: Callable[[], Result], patience_seconds: float) -> Result | None:
    """Use a slot when no other session uses it. Return None if it is not free in time. Raises the errors of `use`."""
    import psycopg

    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            return use()
        except psycopg.errors.ObjectInUse:
            if time.monotonic() >= deadline:
                return None
            time.sleep(_PAUSE_SECONDS)
