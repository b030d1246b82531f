"""Reads a table and its changes as texts in Spark's Python workers, as arguments of `mapInArrow`.

Several tasks read pages of the table. One task reads the log, from the slot's confirmed position to the end of the last
range. Its rows are in commit order and, within a transaction, in the order of the changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flykka.spark_bridge.connectors.postgres.changed_table import BEGIN_AGAIN, schema_changed_text
from flykka.spark_bridge.connectors.postgres.database import Database
from flykka.spark_bridge.connectors.postgres.log_ranges import LogRange, PageRange, lsn_text
from flykka.spark_bridge.connectors.postgres.pgoutput import (
    AbsentValue,
    LoggedChange,
    LoggedTable,
    LoggedTransaction,
    Truncation,
    Values,
    VisibleTransactions,
    changes,
)
from flykka.spark_bridge.connectors.postgres.read_types import ReadValues, may_have_been
from flykka.spark_bridge.connectors.postgres.replication_slot import ReplicationSlot, when_free
from flykka.spark_bridge.connectors.postgres.table_reading import copied
from flykka.spark_bridge.connectors.postgres.tables import Table
from flykka.spark_bridge.errors import (
    MissingChangesError,
    SchemaChangedError,
    SourceError,
    UnreadableValueError,
)
from flykka.spark_bridge.rows.row_kind import DELETE, INSERT, ROW_KIND, UPDATE_AFTER

if TYPE_CHECKING:
    import psycopg

    Cursor = psycopg.ServerCursor[tuple[int, bytes]]

METADATA = {"ts_ms": "bigint", "lsn": "bigint"}

_MESSAGES_AT_ONCE = 5_000
_ROWS_AT_ONCE = 10_000
_PATIENCE_SECONDS = 300.0
_OF_SNAPSHOT_LSN = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPages:
    """Reads the rows in pages of the table in a snapshot. Its input batches contain numbers of ranges."""

    database: Database
    slot: ReplicationSlot
    query: bytes
    ranges: Sequence[PageRange]
    values: ReadValues
    metadata: Sequence[str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        target, names = self.values.table, [column.name for column in self.values.columns]
        with naming_slot(self.database, self.slot):
            for number in (number for batch in batches for number in batch.column(0).to_pylist()):
                pages = self.ranges[number]
                where = f" WHERE ctid >= '({pages.first},0)'"
                where += "" if pages.behind is None else f" AND ctid < '({pages.behind},0)'"
                query = self.query + (where.encode() if pages.first or pages.behind is not None else b"")
                for texts in copied(self.database, query, names, target, pages.snapshot):
                    yield self.values.of(self._with_metadata(texts, pages))

    def _with_metadata(self, texts: pa.RecordBatch, pages: PageRange) -> pa.RecordBatch:
        beside = {"ts_ms": pages.snapshot.at_ms, "lsn": _OF_SNAPSHOT_LSN}
        kinds = pa.repeat(pa.scalar(INSERT), texts.num_rows)
        numbers = [pa.repeat(pa.scalar(beside[name], pa.int64()), texts.num_rows) for name in self.metadata]
        return pa.RecordBatch.from_arrays(
            [*texts.columns, kinds, *numbers], names=[*texts.schema.names, ROW_KIND, *self.metadata]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadChanges:
    """Reads the changes of one table in ranges of the log.

    `older_rows` maps columns that the table did not have at the start of the ranges to the columns' values in older
    rows.
    """

    database: Database
    slot: ReplicationSlot
    table: Table
    ranges: Sequence[LogRange]
    values: ReadValues
    metadata: Sequence[str]
    older_rows: Mapping[str, str | None]
    source: str
    ignores_added: bool
    ignores_truncations: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        what = f"the changes of {self.table} at {self.database} cannot be read from the slot {self.slot.name!r}"
        for _ in batches:
            with naming_slot(self.database, self.slot), self.database.connected(SourceError, what) as connection:
                self.slot.check_retained(connection, min(each.start for each in self.ranges))
                yield from self._rows(self._messages(connection), lambda change: self._check(connection, change))

    def _messages(self, connection: psycopg.Connection[Any]) -> Iterator[tuple[int, bytes]]:
        up_to = lsn_text(max(each.end for each in self.ranges))

        def open_cursor() -> tuple[Cursor, list[tuple[int, bytes]]]:
            connection.execute("BEGIN READ ONLY")
            cursor = connection.cursor(name="changes", binary=True)
            try:
                cursor.execute(
                    "SELECT (lsn - '0/0')::bigint, data FROM pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, NULL,"
                    " 'proto_version', '1', 'publication_names', %s)",
                    (self.slot.name, up_to, f'"{self.slot.name}"'),
                )
                # The server decodes everything before the first row. After that the slot is free.
                return cursor, cursor.fetchmany(_MESSAGES_AT_ONCE)
            except BaseException:
                connection.rollback()
                raise

        opened = when_free(open_cursor, _PATIENCE_SECONDS)
        if opened is None:
            raise SourceError(
                f"the replication slot {self.slot.name!r} is in use by another session for {_PATIENCE_SECONDS:.0f} s:"
                " give each job a slot of its own"
            )
        cursor, messages = opened
        with cursor:
            while messages:
                yield from messages
                messages = cursor.fetchmany(_MESSAGES_AT_ONCE)

    def _check(self, connection: psycopg.Connection[Any], change: LoggedChange) -> None:
        """Reject columns that were added or retyped since the job began: the discovery may notice them too late."""
        relation, columns = change.relation, self.values.columns
        unknown = relation.places.keys() - {column.name for column in columns}
        retyped = [each for each in columns if relation.types.get(each.name, each.type_id) != each.type_id]
        if not retyped and (self.ignores_added or not unknown):
            return
        now = {column.name: column for column in Table.columns_of(connection, self.table.oid)}
        added = () if self.ignores_added else sorted(unknown & now.keys())
        changed = [f"{name!r} was added" for name in added if not now[name].is_generated]
        changed += [
            f"{each.name!r} is {current.type}, but was {each.sql_type}"
            for each in retyped
            if (current := now.get(each.name)) is not None and current.type != each.sql_type
        ]
        if changed:
            raise SchemaChangedError(schema_changed_text(self.source, ", ".join(changed)))
        if older := [each for each in retyped if not may_have_been(each, relation.types[each.name])]:
            raise SourceError(
                f"the column {older[0].name!r} of {self.table} had another type than {older[0].sql_type} when a row"
                f" was changed at {lsn_text(change.lsn)}. {BEGIN_AGAIN}"
            )

    def _rows(
        self, messages: Iterable[tuple[int, bytes]], check: Callable[[LoggedChange], None]
    ) -> Iterator[pa.RecordBatch]:
        transactions = _TransactionFilter(self.ranges)
        members = {self.table.oid}.union(*(each.members for each in self.ranges))
        rows = _Rows(self, check)
        for change in changes(messages):
            if not transactions.has(change.transaction):
                continue
            if isinstance(change, Truncation):
                if not self.ignores_truncations and members.intersection(change.oids):
                    raise MissingChangesError(
                        f"{self.source}: TRUNCATE at {lsn_text(change.lsn)} has removed rows, and the log does not list"
                        f' them. {BEGIN_AGAIN}; with on_truncate="ignore" such rows stay as they are'
                    )
            elif change.relation.oid in members:
                rows.add(change)
                if rows.number >= _ROWS_AT_ONCE:
                    yield self.values.of(rows.batch())
                    rows = _Rows(self, check)
        if rows.number:
            yield self.values.of(rows.batch())


@contextmanager
def naming_slot(database: Database, slot: ReplicationSlot) -> Iterator[None]:
    """Add to fatal errors that the slot stays, and how much of the server's log it retains."""
    try:
        yield
    except (UnreadableValueError, MissingChangesError) as fatal:
        with database.connected(SourceError, fatal) as connection:
            retained = slot.retained(connection)
        raise type(fatal)(f"{fatal}. While the job is down {retained}, and more with each change") from None


class _TransactionFilter:
    def __init__(self, ranges: Sequence[LogRange]) -> None:
        self._ranges = [
            (each.start, each.end, None if each.seen is None else VisibleTransactions.of(each.seen)) for each in ranges
        ]

    def has(self, at: LoggedTransaction) -> bool:
        return any(
            start <= at.commit_lsn < end and (seen is None or at.xid not in seen) for start, end, seen in self._ranges
        )


class _Rows:
    def __init__(self, work: ReadChanges, check: Callable[[LoggedChange], None]) -> None:
        self.number = 0
        self._work = work
        self._check = check
        self._texts: list[list[str | None]] = [[] for _ in work.values.columns]
        self._kinds: list[str] = []
        self._metadata: dict[str, list[int]] = {name: [] for name in METADATA}
        self._relation: LoggedTable | None = None
        self._places: list[int | None] = []
        self._keys: list[int] = []
        self._unlogged: list[str] = []

    def add(self, change: LoggedChange) -> None:
        """Add the rows of a change: two rows if the change modifies the key."""
        if change.relation is not self._relation:
            self._check(change)
            self._relation = change.relation
            self._places = [self._place(change, column.name) for column in self._work.values.columns]
            keys = self._work.values.keys or [column.name for column in self._work.values.columns]
            self._keys = [place for name in keys if (place := self._place(change, name)) is not None]
            self._unlogged = [name for name in keys if name in self._relation.places.keys() - self._relation.identity]
        if self._unlogged and not change.is_insert:
            raise SourceError(
                f"the log of {self._relation.schema}.{self._relation.name} does not contain {self._unlogged[0]!r} of"
                f" the row that was changed at {lsn_text(change.lsn)}: the table had another replica identity then."
                f" {BEGIN_AGAIN}"
            )
        before, after = change.before, change.after
        if after is None:
            assert before is not None, "the deletion does not contain the key"
            self._add(change, DELETE, before)
        elif before is not None and any(before[place] != after[place] for place in self._keys):
            self._add(change, DELETE, before)
            self._add(change, INSERT, after)
        else:
            self._add(change, INSERT if change.is_insert else UPDATE_AFTER, after)

    def batch(self) -> pa.RecordBatch:
        work, columns = self._work, self._work.values.columns
        arrays = [pa.array(texts, pa.string()) for texts in self._texts]
        arrays.append(pa.array(self._kinds, pa.string()))
        arrays += [pa.array(self._metadata[name], pa.int64()) for name in work.metadata]
        names = [*(column.name for column in columns), ROW_KIND, *work.metadata]
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def _add(self, change: LoggedChange, kind: str, values: Values) -> None:
        for texts, column, place in zip(self._texts, self._work.values.columns, self._places, strict=True):
            if place is not None:
                value = values[place]
            elif kind == DELETE:
                value = None
            else:
                value = self._work.older_rows[column.name]
            if isinstance(value, AbsentValue):
                table = self._work.table
                raise SourceError(
                    f"an update of {table} at {lsn_text(change.lsn)} does not contain the value of {column.name!r},"
                    f" which is large and was not changed: ALTER TABLE {table} REPLICA IDENTITY FULL, and begin without"
                    " a checkpoint"
                )
            texts.append(value)
        self._kinds.append(kind)
        self._metadata["ts_ms"].append(change.transaction.at_ms)
        self._metadata["lsn"].append(change.lsn)
        self.number += 1

    def _place(self, change: LoggedChange, name: str) -> int | None:
        """Return the index of a column in a change's values; None if the column was added later."""
        place = change.relation.places.get(name)
        if place is None and name not in self._work.older_rows:
            raise SourceError(
                f"{self._work.table} had no column {name!r} when a row was changed at {lsn_text(change.lsn)}: its"
                " columns have changed since; start without a checkpoint, with a new slot"
            )
        return place
