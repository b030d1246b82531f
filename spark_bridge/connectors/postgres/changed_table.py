"""Looks at a table whose changes are to be read, and at the server that decodes them: what is missing is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flykka.spark_bridge.connectors.postgres.tables import Table
from flykka.spark_bridge.errors import SchemaChangedError, SourceError, SourceNotFoundError

if TYPE_CHECKING:
    import psycopg

    from flykka.spark_bridge.connectors.postgres.cdc_source import PostgresCdcSource

_TABLES = frozenset("rp")

_SERVER = """
SELECT current_setting('wal_level'), current_user::text, rolreplication OR rolsuper,
       current_setting('max_replication_slots')::int, (SELECT count(*) FROM pg_replication_slots)
FROM pg_roles WHERE rolname = current_user
"""


def table_for_changes(connection: psycopg.Connection[Any], source: PostgresCdcSource) -> Table:
    """The table of a source.

    Raises:
        SourceNotFoundError: there is none.
        SourceError: its changes cannot be read, or publishing them would keep others from updating it.
    """
    table = Table.find(connection, source.table)
    if table is None:
        raise SourceNotFoundError(f"there is no table {source.table} at {source.database}")
    if table.kind not in _TABLES:
        raise SourceError(f"{table} at {source.database} is no table of its own, and has no changes to read")
    if table.replica_identity == "n" or (table.replica_identity == "d" and not table.primary_key):
        raise SourceError(
            f"{table} at {source.database} has no primary key: once its changes are published, PostgreSQL would refuse"
            f" to update it. Give it one, or ALTER TABLE {table} REPLICA IDENTITY FULL"
        )
    return table


def check_published(connection: psycopg.Connection[Any], source: PostgresCdcSource) -> None:
    """See to it that changes of the table still come. Raises `SourceError` where they do not."""
    table = source.bound_to or table_for_changes(connection, source)
    if not source.slot.publishes(connection, table):
        raise SourceError(
            f"the publication {source.slot.name!r} at {source.database} has no {table} any more, and what is changed in"
            " it does not come: was it dropped, or renamed? Begin without a checkpoint"
        )


def check_schema(source: PostgresCdcSource, bound: Table, now: Table) -> frozenset[str]:
    """Compare the columns that a job reads with those that the table has now; return the added ones to ignore.

    Raises:
        SchemaChangedError: a column was added and the source does not ignore it, or one was dropped, renamed or given
            another type.
    """
    current = {column.number: column for column in now.columns}
    changed: list[str] = []
    for column in bound.columns:
        found = current.pop(column.number, None)
        if found is None:
            changed.append(f"{column.name!r} was dropped")
        elif found.name != column.name:
            changed.append(f"{column.name!r} is called {found.name!r}")
        elif found.type != column.type:
            changed.append(f"{column.name!r} is {found.type}, it was {column.type}")
    added = [column.name for column in current.values() if not column.is_generated]
    if source.on_schema_change == "fail":
        changed += [f"{name!r} was added" for name in added]
    if changed:
        raise SchemaChangedError(schema_changed_text(str(source), ", ".join(changed)))
    return frozenset(added)


def schema_changed_text(source: str, change: str) -> str:
    """The message for a table whose columns have changed under a job."""
    return (
        f"{source}: the columns of the table have changed while the job runs: {change}. Run the program again: it reads"
        ' the columns that are there then, from its last checkpoint on. With on_schema_change="ignore" added columns'
        " are left out until then"
    )


def check_decoding(connection: psycopg.Connection[Any], source: PostgresCdcSource) -> None:
    """Look before a job whether the changes of a source can be read. Raises `SourceError`, with what is to be done."""
    table = table_for_changes(connection, source)
    found = connection.execute(_SERVER).fetchone()
    assert found is not None, "a user has a role"
    level, user, may_replicate, slots_max, slots = found
    at = source.database
    if level != "logical":
        raise SourceError(
            f"the server of {at} decodes no changes: set wal_level = logical, not {level}, and restart it"
        )
    if not may_replicate:
        raise SourceError(f"{user} may not read changes at {at}: ALTER ROLE {user} REPLICATION")
    if source.slot.confirmed(connection) is None and slots >= slots_max:
        raise SourceError(
            f"all {slots_max} replication slots of the server of {at} are taken: drop one, or set max_replication_slots"
            " higher"
        )
    if source.slot.publishes(connection, table) is False:
        raise SourceError(
            f"there is a publication {source.slot.name!r} at {at}, without {table}: ALTER PUBLICATION"
            f" {source.slot.name} ADD TABLE {table}, or take another name"
        )
