"""The table of a PostgresCdcSource: its settings, the tables that contain its rows, and checks for reading changes.

The rows of a table are in the table itself, its partitions, and tables that inherit from it. Each of these has separate
changes in the log, and its own replica identity determines the columns logged for a changed or deleted row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from flykka.spark_bridge.connectors.postgres.database import Database, OpenSnapshot
from flykka.spark_bridge.connectors.postgres.read_types import OnUnreadable
from flykka.spark_bridge.connectors.postgres.replication_slot import ReplicationSlot
from flykka.spark_bridge.connectors.postgres.tables import Table
from flykka.spark_bridge.errors import MissingChangesError, SchemaChangedError, SourceError, SourceNotFoundError

if TYPE_CHECKING:
    import psycopg


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
"""The catalog's letter for a table without rows of its own."""


_KINDS = {"f": "a foreign table", "u": "an unlogged table", "t": "a temporary table"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A table that contains rows. `kind`, `persistence` and `replica_identity` are the catalog's letters.

    `path` contains the OIDs from the source's table down to this table, and `attached` identifies the transactions that
    have attached these tables. `identity` are the columns that the log contains for a deleted row, unless the table
    `logs_whole_rows`.
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
    def logs_whole_rows(self) -> bool:
        return self.replica_identity == "f"

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


def members_of(connection: psycopg.Connection[Any], table: Table) -> tuple[Member, ...]:
    """Return the tables with changes of `table`, which begin with `table` itself. Raises `psycopg.Error`."""
    rows = connection.execute(_MEMBERS, {"oid": table.oid}).fetchall()
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
            identity=tuple(identity_columns),
        )
        for oid, schema, name, kind, persistence, identity, path, attached, primary_key, identity_columns in rows
    ]
    return tuple(sorted(members, key=lambda each: (len(each.path), each.oid)))


def keys_of(members: Sequence[Member]) -> tuple[str, ...]:
    """Return the columns that identify rows of a table; empty if rows are identified by all columns together."""
    table = members[0]
    return table.primary_key or table.identity


def check_members(database: Database, members: Sequence[Member]) -> None:
    """Raise `SourceError` if changes of a table are not logged, or do not identify the changed row."""
    keys = keys_of(members)
    for member in members:
        what = _KINDS.get(member.kind) or _KINDS.get(member.persistence)
        if what is not None:
            raise SourceError(f"{member} at {database} is {what}, and has no changes to read")
        if member.kind == PARTITIONED or member.logs_whole_rows:
            continue
        if not member.identity:
            raise SourceError(
                f"{member} at {database} has no primary key: once its changes are published, PostgreSQL would refuse to"
                f" update it. Give it one that is not DEFERRABLE, or ALTER TABLE {member} REPLICA IDENTITY FULL"
            )
        missing = [key for key in keys if key not in member.identity]
        if missing or not keys:
            key = (
                f"the key column {missing[0]!r}"
                if missing
                else f"the other columns, which identify rows of {members[0]}"
            )
            raise SourceError(
                f"for a changed or deleted row of {member} at {database}, the log contains only"
                f" {', '.join(member.identity)}, by its replica identity, and not {key}: ALTER TABLE {member} REPLICA"
                " IDENTITY FULL"
            )


def attached(members: Sequence[Member]) -> dict[str, str]:
    """Return the tables that contain rows, by OID, with the transactions that have attached them."""
    return {str(member.oid): member.attached for member in members if member.kind != PARTITIONED}


BEGIN_AGAIN = "Begin without a checkpoint, with a new slot"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedTable:
    """`members` are the tables that contain rows of `table`, beginning with `table` itself."""

    table: Table
    members: tuple[Member, ...]


StartupMode = Literal["initial", "latest-offset", "committed-offset"]
OnSchemaChange = Literal["fail", "ignore"]
OnTruncate = Literal["fail", "ignore"]
_POLL_INTERVAL_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class CdcSourceSettings:
    """The fields of a `PostgresCdcSource`, for discovering splits and for checks before the job."""

    database: Database
    table: str
    slot: ReplicationSlot
    startup_mode: StartupMode = "initial"
    on_schema_change: OnSchemaChange = "fail"
    on_truncate: OnTruncate = "fail"
    on_unreadable: OnUnreadable = "fail"
    metadata: tuple[str, ...] = ()
    is_bounded: bool = False
    until: int | None = None
    poll_interval_ms: int = _POLL_INTERVAL_MS
    event_time: str | None = None
    bound_to: ChangedTable | None = field(default=None, compare=False, repr=False)
    open_snapshot: OpenSnapshot = field(default_factory=OpenSnapshot, compare=False, repr=False)

    @property
    def format(self) -> str:
        """The connector's name in Flink CDC."""
        return "postgres-cdc"

    def __str__(self) -> str:
        return f"{self.format} {self.table} at {self.database}"


_TABLES = frozenset("rp")

_SERVER = """
SELECT current_setting('wal_level'), current_user::text, rolreplication OR rolsuper,
       current_setting('max_replication_slots')::int, (SELECT count(*) FROM pg_replication_slots),
       row_security_active(%s::oid)
FROM pg_roles WHERE rolname = current_user
"""

# Before version 15, publications have neither row filters nor column lists.
_PUBLICATION = """
SELECT pubinsert AND pubupdate AND pubdelete, pubtruncate, pubviaroot,
       ARRAY(SELECT c.oid::bigint FROM pg_publication_tables t JOIN pg_namespace n ON n.nspname = t.schemaname
             JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
             WHERE t.pubname = p.pubname AND c.oid = ANY(%(oids)s::oid[])),
       ARRAY(SELECT r.prrelid::regclass::text FROM pg_publication_rel r
             WHERE r.prpubid = p.oid AND r.prrelid = ANY(%(oids)s::oid[])
               AND (to_jsonb(r) ->> 'prqual' IS NOT NULL OR to_jsonb(r) ->> 'prattrs' IS NOT NULL))
FROM pg_publication p WHERE pubname = %(name)s
"""


def table_for_changes(connection: psycopg.Connection[Any], source: CdcSourceSettings) -> ChangedTable:
    """Look up the table of a source.

    Raises:
        SourceNotFoundError: the table does not exist.
        SourceError: its changes cannot be read, or publishing them would prevent updates by others.
    """
    table = Table.find(connection, source.table)
    if table is None:
        raise SourceNotFoundError(f"there is no table {source.table} at {source.database}")
    if table.kind not in _TABLES:
        raise SourceError(f"{table} at {source.database} is not an ordinary table, and has no changes to read")
    members = members_of(connection, table)
    check_members(source.database, members)
    return ChangedTable(table=table, members=members)


def check_published(connection: psycopg.Connection[Any], source: CdcSourceSettings) -> None:
    bound = source.bound_to and source.bound_to.table
    table = Table.find(connection, source.table)
    members = () if table is None or (bound and bound.oid != table.oid) else members_of(connection, table)
    missing = _unpublished(connection, source, members) if members else None
    if missing is None or missing[:1] == members[:1]:
        raise SourceError(
            f"the publication {source.slot.name!r} at {source.database} no longer contains {bound or source.table}, and"
            " its changes are not published: was it dropped, or renamed? Begin without a checkpoint"
        )
    if missing:
        raise SourceError(
            f"the publication {source.slot.name!r} at {source.database} does not contain {missing[0]}, which belongs to"
            f" {table}: ALTER PUBLICATION {source.slot.name} ADD TABLE {missing[0]}, and begin without a checkpoint"
        )


def _unpublished(
    connection: psycopg.Connection[Any], source: CdcSourceSettings, members: Sequence[Member]
) -> tuple[Member, ...] | None:
    """Return the source's unpublished tables; None without a publication. Raises `SourceError` if the publication omits
    changes.
    """
    oids = [member.oid for member in members]
    publication = connection.execute(_PUBLICATION, {"name": source.slot.name, "oids": oids}).fetchone()
    if publication is None:
        return None
    has_changes, has_truncations, is_of_roots, published, filtered = publication
    what = f"the publication {source.slot.name!r} at {source.database}"
    if filtered:
        raise SourceError(
            f"{what} has a row filter or a column list for {filtered[0]}, so some changes are not published: ALTER"
            f" PUBLICATION {source.slot.name} SET TABLE {members[0]}, or use another name for the slot"
        )
    is_partitioned = any(member.kind == PARTITIONED for member in members)
    if not has_changes or (source.on_truncate == "fail" and not has_truncations) or (is_of_roots and is_partitioned):
        raise SourceError(
            f"{what} does not publish all changes of {members[0]}: ALTER PUBLICATION {source.slot.name} SET"
            " (publish = 'insert, update, delete, truncate', publish_via_partition_root = false)"
        )
    return tuple(member for member in members if member.kind != PARTITIONED and member.oid not in published)


def check_schema(source: CdcSourceSettings, bound: Table, now: Table) -> frozenset[str]:
    """Compare the columns that a job reads with the table's current columns. Return the added columns to ignore.

    Raises:
        SchemaChangedError: a column was added and the source does not ignore it, or a column was dropped, renamed or
            given another type.
    """
    current = {column.number: column for column in now.columns}
    changed: list[str] = []
    for column in bound.columns:
        same = current.pop(column.number, None)
        if same is None:
            changed.append(f"{column.name!r} was dropped")
        elif same.name != column.name:
            changed.append(f"{column.name!r} is called {same.name!r}")
        elif same.type != column.type:
            changed.append(f"{column.name!r} is {same.type}, but was {column.type}")
    added = [column.name for column in current.values() if not column.is_generated]
    if source.on_schema_change == "fail":
        changed += [f"{name!r} was added" for name in added]
    if changed:
        raise SchemaChangedError(schema_changed_text(str(source), ", ".join(changed)))
    return frozenset(added)


def schema_changed_text(source: str, change: str) -> str:
    return (
        f"{source}: the columns of the table have changed while the job runs: {change}. Run the program again: it reads"
        ' the new columns from its last checkpoint on. With on_schema_change="ignore" added columns'
        " are left out until then"
    )


def check_decoding(connection: psycopg.Connection[Any], source: CdcSourceSettings) -> None:
    changed = table_for_changes(connection, source)
    table = changed.table
    server = connection.execute(_SERVER, (table.oid,)).fetchone()
    assert server is not None, "PostgreSQL has no role for the current user"
    level, user, may_replicate, slots_max, slots, has_row_security = server
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
    if has_row_security:
        raise SourceError(
            f"row-level security hides rows of {table} at {at} from {user}, but not their changes: ALTER ROLE {user}"
            " BYPASSRLS"
        )
    if missing := _unpublished(connection, source, changed.members):
        raise SourceError(
            f"the publication {source.slot.name!r} exists at {at}, but without {missing[0]}: ALTER PUBLICATION"
            f" {source.slot.name} ADD TABLE {missing[0]}, or use another name"
        )


# Rows that a transaction wrote before it attached a table have a lower command number. If one transaction created and
# attached the table, rows of other transactions are later.
_ROWS_BEFORE_ATTACHED = """
SELECT EXISTS (
    SELECT FROM ONLY {} AS r, pg_inherits i, pg_attribute a
    WHERE i.inhrelid = ANY({path}) AND i.inhparent = ANY({path}) AND a.attrelid = {oid} AND a.attname = 'ctid'
      AND CASE WHEN a.xmin = i.xmin THEN r.xmin = i.xmin AND r.cmin::text::bigint < i.cmin::text::bigint
               ELSE age(a.xmin) > age(i.xmin) AND age(r.xmin) > age(i.xmin) END
)
"""


def check_attached(
    connection: psycopg.Connection[Any],
    source: CdcSourceSettings,
    known: Mapping[str, str],
    members: Sequence[Member],
) -> None:
    """Compare the `known` tables, and when they were attached, with the current tables.

    Raises:
        MissingChangesError: a table was attached with existing rows, or was removed with its rows.
    """
    for member in members:
        if (
            member.kind != PARTITIONED
            and known.get(str(member.oid)) != member.attached
            and _had_rows(connection, member)
        ):
            raise MissingChangesError(
                f"{source}: {member} contained rows already when it was attached to {members[0]}, and the log does not"
                f" contain them. {BEGIN_AGAIN}"
            )
    gone = known.keys() - attached(members).keys()
    if gone and source.on_truncate == "fail":
        names = [str(name) for (name,) in connection.execute(_NAMES, ([int(oid) for oid in sorted(gone)],)).fetchall()]
        which = ", ".join(names) if names else "a table that has been dropped"
        raise MissingChangesError(
            f"{source}: {which} no longer belongs to {members[0]}, and the log does not contain the removal of its"
            f' rows. {BEGIN_AGAIN}; on_truncate="ignore" leaves such rows as they are'
        )


_NAMES = "SELECT c.oid::regclass::text FROM pg_class c WHERE c.oid = ANY(%s::oid[])"


def _had_rows(connection: psycopg.Connection[Any], member: Member) -> bool:
    from psycopg import sql

    path = sql.Literal(list(member.path)) + sql.SQL("::oid[]")
    query = sql.SQL(_ROWS_BEFORE_ATTACHED).format(
        sql.Identifier(member.schema, member.name), path=path, oid=sql.Literal(member.oid)
    )
    row = connection.execute(query).fetchone()
    return row is not None and bool(row[0])
