"""The splits of a PostgresCdcSource: the pages of the table, then the log as it grows, in ranges.

The first look makes the slot, and only then the snapshot: all that the snapshot has not seen is in the slot's log. What
it has seen and the log has too is left out by the numbers of the transactions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flykka.messages.tasks.source import SerializedSplit, SplitsDiscovered
from flykka.spark_bridge.connectors.postgres.changed_table import (
    check_attached,
    check_published,
    check_schema,
    table_for_changes,
)
from flykka.spark_bridge.connectors.postgres.log_ranges import BYTES_PER_PAGE, LOG_BYTES_PER_SPLIT, Position, lsn_text
from flykka.spark_bridge.connectors.postgres.members import ChangedTable, attached
from flykka.spark_bridge.errors import SourceError
from flykka.spark_bridge.program.source import SPLITS_PER_LOOK

if TYPE_CHECKING:
    import psycopg

    from flykka.messages.wire.ids import OperatorId
    from flykka.spark_bridge.connectors.postgres.cdc_settings import CdcSourceSettings
    from flykka.spark_bridge.connectors.postgres.tables import Table

logger = logging.getLogger("flykka.spark_bridge")

_FLUSHED = "SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint"
_INSERTED = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"


class PostgresCdcDiscovery:
    """Asks the database how far its log goes. Used by one call at a time. Connects for each look."""

    changed: Callable[[], bool] | None = None

    def __init__(self, source: CdcSourceSettings, operator_id: OperatorId) -> None:
        self._source = source
        self._operator_id = operator_id
        self.interval_ms: int | None = source.poll_interval_ms

    def discover(self, position: bytes) -> SplitsDiscovered:
        """The pages and the log that are there and were not found before.

        Raises:
            SourceError: the database does not answer, or does not keep the changes that come next.
            SchemaChangedError: the columns of the table have changed.
            MissingChangesError: rows have come or gone with a partition.
        """
        with self._source.database.connected(SourceError, self._source) as connection:
            if position:
                at = Position.read(position)
                self._source.slot.kept_from(connection, at.lsn)
                check_published(connection, self._source)
            else:
                at = self._begun(connection)
            if self._source.is_bounded and at.until is None:
                at.until = _number(connection, _FLUSHED) if self._source.until is None else self._source.until
            splits: list[SerializedSplit] = []
            while at.snapshot is not None and len(splits) < SPLITS_PER_LOOK:
                splits.append(at.next_pages())
            end = _number(connection, _FLUSHED)
            # Looked at after the end was read: the columns are those of a change before it, or newer.
            changed = table_for_changes(connection, self._source)
            self._note_columns(at, changed.table)
            members = self._note_members(connection, at, changed)
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

    def _note_columns(self, at: Position, table: Table) -> None:
        """Note the columns that are ignored from here on, and report those that were and are read now."""
        source = self._source
        added = check_schema(source, source.bound_to.table if source.bound_to else table, table)
        for name in sorted(added - at.ignored.keys()):
            logger.warning(
                "%s: the column %r was added while the job runs: its values are left out until the job is started"
                " again, and rows that are changed until then stay without them",
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

    def _note_members(
        self, connection: psycopg.Connection[Any], at: Position, changed: ChangedTable
    ) -> tuple[int, ...]:
        """Note the tables that rows lie in, and return the numbers of those that may have changes up to now."""
        now = attached(changed.members)
        known = now if at.members is None else at.members
        if known != now:
            check_attached(connection, self._source, known, changed.members)
        at.members = now
        return tuple(sorted(map(int, {*known, *now, str(changed.table.oid)})))

    def _begun(self, connection: psycopg.Connection[Any]) -> Position:
        """The position at which a job begins that has no checkpoint."""
        source = self._source
        changed = table_for_changes(connection, source)
        source.slot.create(connection, changed.table)
        check_published(connection, source)
        confirmed = source.slot.confirmed(connection)
        if confirmed is None:
            raise SourceError(f"the replication slot {source.slot.name!r} was dropped when it had just been made")
        # Of before the snapshot: it must have all rows of these.
        at = Position(lsn=confirmed, members=attached(changed.members))
        match source.startup_mode:
            case "initial":
                at.snapshot = source.held.open(source.database)
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
    found = connection.execute(query).fetchone()
    assert found is not None
    return int(found[0])
