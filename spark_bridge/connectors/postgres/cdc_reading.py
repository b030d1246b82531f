"""Reads a table and its changes in Python workers of Spark, as texts. For `mapInArrow`.

Pages of the table are read by several tasks. The log is read by one, from the slot's confirmed place to the end of the
last range: rows come in the order of the commits, those of one transaction in the order of its changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flykka.spark_bridge.connectors.postgres.changed_table import schema_changed_text
from flykka.spark_bridge.connectors.postgres.database import Database
from flykka.spark_bridge.connectors.postgres.log_ranges import LogRange, PageRange, lsn_text
from flykka.spark_bridge.connectors.postgres.pgoutput import (
    Absent,
    Change,
    Relation,
    SeenTransactions,
    Values,
    changes,
)
from flykka.spark_bridge.connectors.postgres.read_types import ReadColumn, array_as_json
from flykka.spark_bridge.connectors.postgres.replication_slot import ReplicationSlot, when_free
from flykka.spark_bridge.connectors.postgres.table_reading import copied
from flykka.spark_bridge.errors import SchemaChangedError, SourceError
from flykka.spark_bridge.rows.row_kind import DELETE, INSERT, ROW_KIND, UPDATE_AFTER

if TYPE_CHECKING:
    import psycopg

    Cursor = psycopg.ServerCursor[tuple[int, bytes]]

METADATA = {"ts_ms": "bigint", "lsn": "bigint"}
"""The columns beside those of the table and the kind of the row."""

_MESSAGES_AT_ONCE = 5_000
_ROWS_AT_ONCE = 10_000
_PATIENCE_SECONDS = 300.0
_OF_SNAPSHOT_LSN = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPages:
    """The rows of pages of the table, as a snapshot has them; the batches have the numbers of ranges."""

    database: Database
    query: bytes
    target: str
    ranges: Sequence[PageRange]
    columns: Sequence[ReadColumn]
    metadata: Sequence[str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the ranges."""
        names = [column.name for column in self.columns]
        for batch in batches:
            for number in batch.column(0).to_pylist():
                pages = self.ranges[number]
                where = f" WHERE ctid >= '({pages.first},0)'"
                where += "" if pages.behind is None else f" AND ctid < '({pages.behind},0)'"
                query = self.query + (where.encode() if pages.first or pages.behind is not None else b"")
                rows = copied(self.database, query, names, self.target, pages.snapshot)
                for texts in rows:
                    yield self._with_metadata(texts, pages)

    def _with_metadata(self, texts: pa.RecordBatch, pages: PageRange) -> pa.RecordBatch:
        beside = {"ts_ms": pages.snapshot.at_ms, "lsn": _OF_SNAPSHOT_LSN}
        kinds = pa.repeat(pa.scalar(INSERT), texts.num_rows)
        numbers = [pa.repeat(pa.scalar(beside[name], pa.int64()), texts.num_rows) for name in self.metadata]
        return pa.RecordBatch.from_arrays(
            [*texts.columns, kinds, *numbers], names=[*texts.schema.names, ROW_KIND, *self.metadata]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadChanges:
    """The changes of one table in ranges of the log.

    `older_rows` are the columns that the table did not have at the start of the ranges: their values in older rows.
    """

    database: Database
    slot: ReplicationSlot
    schema: str
    table: str
    ranges: Sequence[LogRange]
    columns: Sequence[ReadColumn]
    keys: Sequence[str]
    metadata: Sequence[str]
    older_rows: Mapping[str, str | None]
    source: str
    ignores_added: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the log once."""
        table = f"{self.schema}.{self.table}"
        what = f"the changes of {table} at {self.database} cannot be read from the slot {self.slot.name!r}"
        for _ in batches:
            with self.database.connected(SourceError, what) as connection:
                self.slot.kept_from(connection, min(each.start for each in self.ranges))
                yield from self._rows(self._messages(connection), lambda relation: self._check(connection, relation))

    def _messages(self, connection: psycopg.Connection[Any]) -> Iterator[tuple[int, bytes]]:
        """The messages of the slot up to the end of the ranges."""
        up_to = lsn_text(max(each.end for each in self.ranges))

        def begun() -> tuple[Cursor, list[tuple[int, bytes]]]:
            connection.execute("BEGIN READ ONLY")
            cursor = connection.cursor(name="changes", binary=True)
            try:
                cursor.execute(
                    "SELECT (lsn - '0/0')::bigint, data FROM pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, NULL,"
                    " 'proto_version', '1', 'publication_names', %s)",
                    (self.slot.name, up_to, f'"{self.slot.name}"'),
                )
                # All of it is decoded for the first row, and the slot is free then.
                return cursor, cursor.fetchmany(_MESSAGES_AT_ONCE)
            except BaseException:
                connection.rollback()
                raise

        found = when_free(begun, _PATIENCE_SECONDS)
        if found is None:
            raise SourceError(
                f"the replication slot {self.slot.name!r} is in use by another session for {_PATIENCE_SECONDS:.0f} s:"
                " give each job a slot of its own"
            )
        cursor, messages = found
        with cursor:
            while messages:
                yield from messages
                messages = cursor.fetchmany(_MESSAGES_AT_ONCE)

    def _check(self, connection: psycopg.Connection[Any], relation: Relation) -> None:
        """Refuse columns that were added since the job began: the discovery may see them a moment too late."""
        unknown = sorted(relation.places.keys() - {column.name for column in self.columns})
        if self.ignores_added or not unknown:
            return
        added = connection.execute(
            "SELECT attname::text FROM pg_attribute WHERE attrelid = format('%%I.%%I', %s::text, %s::text)::regclass"
            " AND NOT attisdropped AND attgenerated = '' AND attname = ANY(%s)",
            (self.schema, self.table, unknown),
        ).fetchall()
        if added:
            names = ", ".join(f"{name!r} was added" for (name,) in added)
            raise SchemaChangedError(schema_changed_text(self.source, names))

    def _rows(
        self, messages: Iterable[tuple[int, bytes]], check: Callable[[Relation], None]
    ) -> Iterator[pa.RecordBatch]:
        wanted = _Wanted(self.ranges)
        rows = _Rows(self, check)
        for change in changes(messages):
            is_ours = change.relation.name == self.table and change.relation.schema == self.schema
            if is_ours and wanted.has(change):
                rows.add(change)
                if rows.number >= _ROWS_AT_ONCE:
                    yield rows.batch()
                    rows = _Rows(self, check)
        if rows.number:
            yield rows.batch()


class _Wanted:
    """Says of transactions whether they are in the ranges."""

    def __init__(self, ranges: Sequence[LogRange]) -> None:
        self._ranges = [
            (each.start, each.end, None if each.seen is None else SeenTransactions.of(each.seen)) for each in ranges
        ]

    def has(self, change: Change) -> bool:
        at = change.transaction
        return any(
            start <= at.commit_lsn < end and (seen is None or at.xid not in seen) for start, end, seen in self._ranges
        )


class _Rows:
    """The rows of changes, column by column."""

    def __init__(self, work: ReadChanges, check: Callable[[Relation], None]) -> None:
        self.number = 0
        self._work = work
        self._check = check
        self._texts: list[list[str | None]] = [[] for _ in work.columns]
        self._kinds: list[str] = []
        self._metadata: dict[str, list[int]] = {name: [] for name in METADATA}
        self._relation: Relation | None = None
        self._places: list[int | None] = []
        self._keys: list[int] = []

    def add(self, change: Change) -> None:
        """Add the rows that a change is: two where it changes the key."""
        if change.relation is not self._relation:
            self._check(change.relation)
            self._relation = change.relation
            self._places = [self._place(change, column.name) for column in self._work.columns]
            keys = (self._place(change, name) for name in self._work.keys)
            self._keys = [place for place in keys if place is not None]
        before, after = change.before, change.after
        if after is None:
            assert before is not None, "a deletion tells the key"
            self._add(change, DELETE, before)
        elif before is not None and any(before[place] != after[place] for place in self._keys):
            self._add(change, DELETE, before)
            self._add(change, INSERT, after)
        else:
            self._add(change, INSERT if change.is_insert else UPDATE_AFTER, after)

    def batch(self) -> pa.RecordBatch:
        """The rows."""
        work = self._work
        arrays = [pa.array(texts, pa.string()) for texts in self._texts]
        arrays.append(pa.array(self._kinds, pa.string()))
        arrays += [pa.array(self._metadata[name], pa.int64()) for name in work.metadata]
        names = [*(column.name for column in work.columns), ROW_KIND, *work.metadata]
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def _add(self, change: Change, kind: str, values: Values) -> None:
        for texts, column, place in zip(self._texts, self._work.columns, self._places, strict=True):
            if place is not None:
                value = values[place]
            elif kind == DELETE:
                value = None
            else:
                value = self._work.older_rows[column.name]
            if isinstance(value, Absent):
                table = f"{self._work.schema}.{self._work.table}"
                raise SourceError(
                    f"an update of {table} at {lsn_text(change.lsn)} does not tell the value of {column.name!r}, which"
                    f" is large and was left as it was: ALTER TABLE {table} REPLICA IDENTITY FULL, and begin without a"
                    " checkpoint"
                )
            texts.append(array_as_json(value) if column.is_array and value is not None else value)
        self._kinds.append(kind)
        self._metadata["ts_ms"].append(change.transaction.at_ms)
        self._metadata["lsn"].append(change.lsn)
        self.number += 1

    def _place(self, change: Change, name: str) -> int | None:
        """The place of a column in the values of a change; None if the column was added later."""
        place = change.relation.places.get(name)
        if place is None and name not in self._work.older_rows:
            raise SourceError(
                f"{self._work.schema}.{self._work.table} had no column {name!r} when it was changed at"
                f" {lsn_text(change.lsn)}: its columns have changed since; begin without a checkpoint, with a new slot"
            )
        return place
