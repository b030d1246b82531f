"""The tables that the rows of a table lie in: itself, its partitions, and tables that inherit from it.

Each has changes of its own in the log, and tells of a changed or deleted row what its own replica identity says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flykka.spark_bridge.connectors.postgres.tables import Table
from flykka.spark_bridge.errors import SourceError

if TYPE_CHECKING:
    import psycopg

    from flykka.spark_bridge.connectors.postgres.database import Database

_MEMBERS = """
WITH RECURSIVE member AS (
    SELECT %(oid)s::oid AS oid, ARRAY[%(oid)s::oid] AS path, '' AS attached
    UNION ALL
    SELECT i.inhrelid, path || i.inhrelid, attached || i.xmin::text || ' '
    FROM member JOIN pg_inherits i ON i.inhparent = member.oid
)
SELECT DISTINCT ON (c.oid) c.oid::bigint, n.nspname, c.relname, c.relkind::text, c.relpersistence::text,
       c.relreplident::text, path::bigint[], attached, keys.primary_key, keys.identity
FROM member JOIN pg_class c USING (oid) JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
    SELECT coalesce(max(columns) FILTER (WHERE indisprimary), '{}') AS primary_key,
           coalesce(max(columns) FILTER (WHERE CASE c.relreplident WHEN 'i' THEN indisreplident
                                               WHEN 'd' THEN indisprimary AND indimmediate END), '{}') AS identity
    FROM pg_index i CROSS JOIN LATERAL (
        SELECT array_agg(a.attname::text ORDER BY k.place) AS columns
        FROM unnest(i.indkey[0:i.indnkeyatts - 1]) WITH ORDINALITY AS k(number, place)
        JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
    ) AS names
    WHERE i.indrelid = c.oid
) AS keys
ORDER BY c.oid, path
"""


PARTITIONED = "p"
"""The kind of a table that has no rows of its own."""


_KINDS = {"f": "a foreign table", "u": "an unlogged table", "t": "a temporary table"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A table that rows lie in. `kind`, `persistence` and `replica_identity` are the catalog's letters.

    `path` are the tables from the one that is read down to it, and `attached` the transactions that have connected
    them. `identity` are the columns that the log has of a deleted row, unless it `tells_all`.
    """

    oid: int
    schema: str
    name: str
    kind: str
    persistence: str
    replica_identity: str
    path: tuple[int, ...]
    attached: str
    primary_key: tuple[str, ...]
    identity: tuple[str, ...]

    @property
    def tells_all(self) -> bool:
        """True if changes tell the whole row as it was."""
        return self.replica_identity == "f"

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


def members_of(connection: psycopg.Connection[Any], table: Table) -> tuple[Member, ...]:
    """The tables that have changes of `table`, itself first where it has rows of its own. Raises `psycopg.Error`."""
    found = connection.execute(_MEMBERS, {"oid": table.oid}).fetchall()
    members = [
        Member(
            oid=oid,
            schema=schema,
            name=name,
            kind=kind,
            persistence=persistence,
            replica_identity=identity,
            path=tuple(path),
            attached=attached,
            primary_key=tuple(primary_key),
            identity=tuple(told),
        )
        for oid, schema, name, kind, persistence, identity, path, attached, primary_key, told in found
    ]
    return tuple(sorted(members, key=lambda each: (len(each.path), each.oid)))


def keys_of(members: Sequence[Member]) -> tuple[str, ...]:
    """The columns by which rows of a table are told apart; none where only whole rows can be."""
    table = members[0]
    return table.primary_key or table.identity


def check_members(database: Database, members: Sequence[Member]) -> None:
    """Raise `SourceError` where changes of one of the tables do not come, or do not tell which row was changed."""
    keys = keys_of(members)
    for member in members:
        what = _KINDS.get(member.kind) or _KINDS.get(member.persistence)
        if what is not None:
            raise SourceError(f"{member} at {database} is {what}, and has no changes to read")
        if member.kind == PARTITIONED or member.tells_all:
            continue
        if not member.identity:
            raise SourceError(
                f"{member} at {database} has no primary key: once its changes are published, PostgreSQL would"
                f" refuse to update it. Give it one that is not DEFERRABLE, or ALTER TABLE {member} REPLICA IDENTITY"
                " FULL"
            )
        missing = [key for key in keys if key not in member.identity]
        if missing or not keys:
            key = (
                f"the key column {missing[0]!r}"
                if missing
                else f"the other columns, which tell rows of {members[0]} apart"
            )
            raise SourceError(
                f"of a changed or deleted row of {member} at {database} the log has only"
                f" {', '.join(member.identity)}, by its replica identity, and not {key}: ALTER TABLE {member} REPLICA"
                " IDENTITY FULL"
            )


def attached(members: Sequence[Member]) -> dict[str, str]:
    """The tables with rows, by their numbers, and when they were attached."""
    return {str(member.oid): member.attached for member in members if member.kind != PARTITIONED}


BEGIN_AGAIN = "Begin without a checkpoint, with a new slot"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedTable:
    """A table whose changes are read, and the tables that its rows lie in, which begin with it."""

    table: Table
    members: tuple[Member, ...]
