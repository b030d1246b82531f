"""PostgresCdcSource: a table, followed by its committed changes (Flink CDC's connector `postgres-cdc`).

Changes come from a logical replication slot with `pgoutput`, which is built into PostgreSQL. The position in a
checkpoint is the position in the write-ahead log up to which the source has read. Reading does not advance the slot. It
is only confirmed when a checkpoint is complete, so later changes can be read again. The source runs in one subtask,
which keeps the order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_args

from pyspark.sql.types import StructField, StructType

from flykka.messages.tasks.source import SerializedSplit, SourceSplit, SplitsDiscovered
from flykka.runtime.durations import Duration, positive_duration_ms
from flykka.spark_bridge.connectors.postgres.cdc_reading import METADATA, ReadChanges, ReadPages
from flykka.spark_bridge.connectors.postgres.changed_table import (
    CdcSourceSettings,
    ChangedTable,
    OnSchemaChange,
    OnTruncate,
    StartupMode,
    attached,
    check_attached,
    check_decoding,
    check_published,
    check_schema,
    keys_of,
    table_for_changes,
)
from flykka.spark_bridge.connectors.postgres.database import Database
from flykka.spark_bridge.connectors.postgres.log_ranges import (
    BYTES_PER_PAGE,
    LOG_BYTES_PER_SPLIT,
    CdcPosition,
    log_ranges,
    lsn_number,
    lsn_text,
    page_ranges,
)
from flykka.spark_bridge.connectors.postgres.read_types import (
    UNREADABLE,
    OnUnreadable,
    ReadColumn,
    ReadValues,
    as_texts,
    check_distinct,
    decoded,
)
from flykka.spark_bridge.connectors.postgres.replication_slot import ReplicationSlot, when_free
from flykka.spark_bridge.connectors.postgres.table_reading import selection
from flykka.spark_bridge.connectors.postgres.tables import Table
from flykka.spark_bridge.errors import SourceError
from flykka.spark_bridge.program.prototype import PrototypeError
from flykka.spark_bridge.program.side_output import SideOutput
from flykka.spark_bridge.program.source import SPLITS_PER_LOOK, Boundedness, Source, split_of
from flykka.spark_bridge.rows.row_kind import ROW_KIND

if TYPE_CHECKING:
    import psycopg
    from pyspark.sql import DataFrame, SparkSession

    from flykka.messages.wire.ids import OperatorId
    from flykka.spark_bridge.rows.filesystem import FileSystem
    from flykka.spark_bridge.rows.materialise import Slices

_WHAT = "a PostgresCdcSource"


_CONFIRM_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresCdcSource(CdcSourceSettings, Source):
    """A table to read with its changes. Created by `of_table`; the other methods return changed copies.

    Each row has the columns of the table, with the values after the change or before a deletion, and `row_kind`: `+I`
    for a new row and for rows that exist at the start, `+U` for a changed row, `-D` for a deleted row (Flink's
    RowKind). A deleted row only has values in the columns of the replica identity, by default the primary key; the
    other columns are null. A change of the key becomes `-D` and `+I`.
    """

    parallelism_limit: ClassVar[int | None] = 1

    @classmethod
    def of_table(
        cls,
        conninfo: str,
        table: str,
        *,
        slot: str,
        on_schema_change: OnSchemaChange = "fail",
        on_truncate: OnTruncate = "fail",
        on_unreadable: OnUnreadable = "fail",
    ) -> Self:
        """Read a table of the database in a connection string.

        `slot` names the replication slot and the publication, which the first job creates if they do not exist. The
        source must be their only user: two sources that share a slot lose changes. The slot stays when the job ends,
        and then retains the log: see `drop_slot`.

        If a column is added to the table while the job runs, the job fails, and reads the column when it is started
        again from its last checkpoint. With `on_schema_change="ignore"` the job warns and continues without the column.
        If a column is dropped, renamed or given another type, the job fails in both cases.

        TRUNCATE, and dropping or detaching a partition, remove rows without recorded changes, so the job fails. With
        `on_truncate="ignore"` such rows stay unchanged.

        For a value that does not exist in Spark (`NaN` of a numeric, infinite dates and dates BC, a number with too
        many digits, an array of two dimensions) the job fails as well. With `on_unreadable="null"` it is read as null,
        unless it is part of the key. With `"side-output"` its row goes to `get_side_output(OutputTag("unreadable"))`
        instead, with the texts of its values.

        Raises:
            MissingExtraError: psycopg is not installed.
            ValueError: the connection string cannot be parsed, the name of the slot is invalid, or an option has an
                unknown value.
        """
        _check_word("on_schema_change", on_schema_change, get_args(OnSchemaChange))
        _check_word("on_truncate", on_truncate, get_args(OnTruncate))
        _check_word("on_unreadable", on_unreadable, get_args(OnUnreadable))
        return cls(
            database=Database.of(conninfo, _WHAT),
            table=table,
            slot=ReplicationSlot(name=slot),
            on_schema_change=on_schema_change,
            on_truncate=on_truncate,
            on_unreadable=on_unreadable,
        )

    def start_from(self, mode: StartupMode) -> Self:
        """Start with the whole table (`initial`), with changes from now on (`latest-offset`), or with the changes that
        the slot retains (`committed-offset`), like Flink CDC's StartupOptions. A job that starts from a checkpoint
        continues at its position.

        Raises:
            ValueError: the mode does not exist.
        """
        if mode not in get_args(StartupMode):
            raise ValueError(f"a source of changes starts from {', '.join(get_args(StartupMode))}, not from {mode!r}")
        return replace(self, startup_mode=mode)

    def with_metadata(self, *columns: str) -> Self:
        """Add metadata columns: `ts_ms`, the commit time of the change, and `lsn`, its position in the log.

        Of two changes of a row, the later one has the higher `lsn`. Rows that existed at the start have 0.

        Raises:
            ValueError: a column does not exist.
        """
        if unknown := [column for column in columns if column not in METADATA]:
            raise ValueError(f"a change has no {unknown[0]!r}; it has {', '.join(METADATA)}")
        return replace(self, metadata=columns)

    def bounded(self, lsn: str | None = None) -> Self:
        """Stop before this position in the log, such as `0/16B3748`, or by default at the end of the log at the job's
        start.

        Raises:
            ValueError: the text is not a position.
        """
        return replace(self, is_bounded=True, until=None if lsn is None else lsn_number(lsn))

    def poll_every(self, interval: Duration) -> Self:
        """Poll for changes at this interval (500 ms by default). Raises `DurationError`."""
        return replace(self, poll_interval_ms=positive_duration_ms(interval, "poll interval"))

    def drop_slot(self) -> None:
        """Drop the slot and its publication. Jobs can then no longer continue from their checkpoints. Raises
        `SourceError`.
        """
        with self._connected() as connection:
            self.slot.drop(connection)

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self.is_bounded else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def is_notified_of_checkpoints(self) -> bool:
        return True

    @property
    def side_output(self) -> SideOutput | None:
        """The side output of rows with a value that does not exist in Spark, as texts."""
        if self.on_unreadable != "side-output":
            return None
        columns = StructType.fromDDL(f"{self._beside}, unreadable array<string>, texts map<string, string>")
        assert isinstance(columns, StructType), "the columns are not a struct"
        return SideOutput(tag="unreadable", column=UNREADABLE, columns=columns)

    def bound(self, session: SparkSession, event_time: str | None) -> Self:
        """Return the source with this event-time column, and the table's current columns. Queries the database.

        Raises:
            SourceError: the database does not respond, or changes of the table cannot be read.
            PrototypeError: a column of the table has a reserved name.
        """
        with self._connected() as connection:
            bound = replace(self, event_time=event_time, bound_to=table_for_changes(connection, self))
        bound.prototype(session)
        return bound

    def prototype(self, session: SparkSession) -> DataFrame:
        reserved = (ROW_KIND, *self.metadata)
        columns = self._columns(self._bound_table().table)
        if twice := [column.name for column in columns if column.name in reserved]:
            raise PrototypeError(
                f"{self} has two columns {twice[0]!r}: one of the table, and one that describes the change"
            )
        check_distinct(session, str(self), [*(column.name for column in columns), *reserved])
        schema = session.createDataFrame([], ", ".join([*(each.declared for each in columns), self._beside])).schema
        return session.createDataFrame([], StructType([StructField(each.name, each.dataType) for each in schema]))

    def check_input(self, operator_id: OperatorId, filesystem: FileSystem) -> None:
        with self._connected() as connection:
            check_decoding(connection, self)

    def split_discovery(self, operator_id: OperatorId, filesystem: FileSystem) -> PostgresCdcDiscovery:
        return PostgresCdcDiscovery(self, operator_id)

    def read(
        self, session: SparkSession, schema: StructType, splits: Sequence[SourceSplit], *, in_slices: bool
    ) -> Slices:
        mine = [split_of(SerializedSplit, split, self) for split in splits]
        changed = self._bound_table()
        table = changed.table
        values = ReadValues(
            table=str(table),
            columns=self._columns(table),
            keys=keys_of(changed.members),
            on_unreadable=self.on_unreadable,
        )
        frames: list[DataFrame] = []
        if pages := page_ranges(mine):
            read_pages = ReadPages(
                database=self.database,
                slot=self.slot,
                query=selection(table, values.columns).as_bytes(None),
                ranges=pages,
                values=values,
                metadata=self.metadata,
            )
            frames.append(self._rows(session, read_pages, len(pages)))
        if log := log_ranges(mine):
            read_changes = ReadChanges(
                database=self.database,
                slot=self.slot,
                table=table,
                ranges=log,
                values=values,
                metadata=self.metadata,
                older_rows=_older_rows(table, log[0].columns),
                source=str(self),
                ignores_added=self.on_schema_change == "ignore",
                ignores_truncations=self.on_truncate == "ignore",
            )
            frames.append(self._rows(session, read_changes, 1))
        return tuple(frames)

    def notify_checkpoint_complete(self, checkpoint_id: int, splits: Sequence[SourceSplit]) -> None:
        """Confirm the positions up to which these splits have read the log, and close the snapshot after all pages were
        read.

        A slot that is in use by a reader is confirmed at a later checkpoint.
        """
        log = log_ranges(split_of(SerializedSplit, split, self) for split in splits)
        if not log:
            return
        # A range of the log is read only after all pages.
        self.open_snapshot.close()
        end = max(each.end for each in log)
        with self._connected() as connection:
            when_free(lambda: self.slot.confirm(connection, end), _CONFIRM_SECONDS)

    @property
    def _beside(self) -> str:
        return ", ".join([f"{ROW_KIND} string", *(f"{name} {METADATA[name]}" for name in self.metadata)])

    def _connected(self) -> AbstractContextManager[psycopg.Connection[Any]]:
        return self.database.connected(SourceError, self)

    def _bound_table(self) -> ChangedTable:
        if self.bound_to is not None:
            return self.bound_to
        with self._connected() as connection:
            return table_for_changes(connection, self)

    def _columns(self, table: Table) -> tuple[ReadColumn, ...]:
        # The log does not contain values of generated columns.
        return tuple(ReadColumn.of(column) for column in table.columns if not column.is_generated)

    def _rows(self, session: SparkSession, work: ReadPages | ReadChanges, tasks: int) -> DataFrame:
        columns = work.values.columns
        declared, beside = [as_texts(columns), self._beside], [ROW_KIND, *self.metadata]
        if (aside := self.side_output) is not None:
            declared.append(f"{aside.column} {aside.columns.simpleString()}")
            beside.append(aside.column)
        texts = session.range(0, tasks, 1, tasks).mapInArrow(work, ", ".join(declared))
        return decoded(texts, columns, beside)


def _older_rows(table: Table, columns: Sequence[int] | None) -> dict[str, str | None]:
    """Return columns added since the table had only `columns`, with their values in older rows if these are known."""
    if columns is None:
        return {}
    added = (column for column in table.columns if column.number not in columns)
    return {column.name: value[0] for column in added if (value := column.value_of_older_rows) is not None}


def _check_word(option: str, word: str, words: Sequence[str]) -> None:
    if word not in words:
        allowed = " or ".join(f'"{each}"' for each in words)
        raise ValueError(f"{option} is {allowed}, not {word!r}")


logger = logging.getLogger("flykka.spark_bridge")

_FLUSHED = "SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint"
_INSERTED = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"


class PostgresCdcDiscovery:
    """Discovers pages of the table and ranges of its log. Not thread-safe. Each discovery opens a connection.

    Splits are the pages of the table, followed by ranges of the growing log. The first discovery creates the slot
    before the snapshot, so the slot's log contains all transactions that are not visible in the snapshot. Transactions
    that are in both are skipped by transaction id.
    """

    changed: Callable[[], bool] | None = None

    def __init__(self, source: CdcSourceSettings, operator_id: OperatorId) -> None:
        self._source = source
        self._operator_id = operator_id
        self.interval_ms: int | None = source.poll_interval_ms

    def discover(self, position: bytes) -> SplitsDiscovered:
        """Return the pages of the table and the ranges of the log after `position`.

        Raises:
            SourceError: the database does not respond, or does not retain the next changes.
            SchemaChangedError: the columns of the table have changed.
            MissingChangesError: rows were added or removed together with a partition.
        """
        with self._source.database.connected(SourceError, self._source) as connection:
            if position:
                at = CdcPosition.read(position)
                self._source.slot.check_retained(connection, at.lsn)
                check_published(connection, self._source)
            else:
                at = self._initial_position(connection)
            if self._source.is_bounded and at.until is None:
                at.until = _number(connection, _FLUSHED) if self._source.until is None else self._source.until
            splits: list[SerializedSplit] = []
            while at.snapshot is not None and len(splits) < SPLITS_PER_LOOK:
                splits.append(at.next_pages())
            end = _number(connection, _FLUSHED)
            # Read after the end position, so the columns are at least as new as the last change before that position.
            changed = table_for_changes(connection, self._source)
            self._record_columns(at, changed.table)
            members = self._record_members(connection, at, changed)
            retained = self._source.slot.retained(connection)
        end = end if at.until is None else min(end, at.until)
        while at.snapshot is None and at.lsn < end and len(splits) < SPLITS_PER_LOOK:
            splits.append(at.next_log(min(end, at.lsn + LOG_BYTES_PER_SPLIT), members))
        if at.snapshot is None and at.lsn >= end:
            at.columns = changed.table.column_numbers
        return SplitsDiscovered(
            operator_id=self._operator_id,
            splits=tuple(splits),
            finished=at.until is not None and at.snapshot is None and at.lsn >= at.until,
            begun_at=position,
            position=at.written(),
            more=at.snapshot is not None or at.lsn < end,
            retained=None if retained is None else f"{retained} for {self._source}",
        )

    def _record_columns(self, at: CdcPosition, table: Table) -> None:
        """Record the columns that are ignored from here on, and report formerly ignored columns that are read now."""
        source = self._source
        added = check_schema(source, source.bound_to.table if source.bound_to else table, table)
        for name in sorted(added - at.ignored.keys()):
            logger.warning(
                "%s: the column %r was added while the job runs: its values are omitted until the job is started"
                " again, and rows that change until then stay without them",
                source,
                name,
            )
            at.ignored[name] = at.lsn
        for name in sorted(at.ignored.keys() - added):
            since = at.ignored.pop(name)
            if table.column(name) is not None:
                logger.warning(
                    "%s: rows that were changed between %s and %s were read without the column %r, and cannot be read"
                    " again from a checkpoint: to have its values in all rows, begin without a checkpoint, with a new"
                    " slot",
                    source,
                    lsn_text(since),
                    lsn_text(at.lsn),
                    name,
                )

    def _record_members(
        self, connection: psycopg.Connection[Any], at: CdcPosition, changed: ChangedTable
    ) -> tuple[int, ...]:
        """Record the tables with the source's rows, and return the OIDs of the tables that may have changes up to
        now.
        """
        now = attached(changed.members)
        before = now if at.members is None else at.members
        if before != now:
            check_attached(connection, self._source, before, changed.members)
        at.members = now
        return tuple(sorted(map(int, {*before, *now, str(changed.table.oid)})))

    def _initial_position(self, connection: psycopg.Connection[Any]) -> CdcPosition:
        source = self._source
        changed = table_for_changes(connection, source)
        source.slot.create(connection, changed.table)
        check_published(connection, source)
        confirmed = source.slot.confirmed(connection)
        if confirmed is None:
            raise SourceError(f"the replication slot {source.slot.name!r} was dropped right after it was created")
        # Read before the snapshot is taken, which then contains all rows of these tables.
        at = CdcPosition(lsn=confirmed, members=attached(changed.members))
        match source.startup_mode:
            case "initial":
                at.snapshot = source.open_snapshot.open(source.database)
                at.seen = at.snapshot.seen
                at.seen_to = _number(connection, _INSERTED)
                size = connection.execute("SELECT pg_relation_size(%s::oid)", (changed.table.oid,)).fetchone()
                assert size is not None
                at.pages = -(-size[0] // BYTES_PER_PAGE)
            case "latest-offset":
                at.lsn = max(confirmed, _number(connection, _INSERTED))
            case "committed-offset":
                pass
        if source.startup_mode != "committed-offset":
            at.columns = changed.table.column_numbers
        return at


def _number(connection: psycopg.Connection[Any], query: Any) -> int:
    row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])
