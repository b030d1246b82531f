"""Commits the rows of a checkpoint of a writer once: a property of the table notes its id in the same commit.

pyiceberg would put a commit that has come too late behind a faster one, also behind that of the same checkpoint. So it
is told not to, on our side alone, and the work is done again with the table as it is then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flykka.actors.checkpoint_storage.file_digests import is_local, sync_files
from flykka.spark_bridge.connectors.delta.columns import misfit, new_columns
from flykka.spark_bridge.connectors.delta.evolution import schema_of
from flykka.spark_bridge.connectors.delta.staged_files import StagedFiles
from flykka.spark_bridge.connectors.iceberg.table import (
    TableName,
    columns_of,
    data_path,
    iceberg_columns,
    unwritable,
)
from flykka.spark_bridge.errors import SinkError

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from flykka.spark_bridge.connectors.transactional import Transaction

_TRIES = 20
_WRITER, _CHECKPOINT = "flykka.writer", "flykka.checkpoint-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """The staged files of one transaction, added to a table."""

    name: TableName
    transaction: Transaction
    merges_schema: bool

    def publish(self) -> None:
        """Add them, unless that was done.

        Raises:
            SinkError: the table does not take them, or others commit to it all the time.
        """
        from pyiceberg.exceptions import CommitFailedException

        for _ in range(_TRIES):
            try:
                with self.name.opened() as table:
                    if not self._is_noted(table):
                        self._commit(table)
                    self._sync(table)
                return
            except CommitFailedException as conflict:
                last = conflict
        raise SinkError(
            f"the rows of checkpoint {self.transaction.checkpoint_id} cannot be committed to {self.name}: {_TRIES}"
            f" times others were faster, at last with {last}"
        ) from last

    @property
    def _property(self) -> str:
        return f"{_CHECKPOINT}.{self.transaction.writer}"

    def _is_noted(self, table: Table) -> bool:
        return int(table.properties.get(self._property, -1)) >= self.transaction.checkpoint_id

    def _commit(self, table: Table) -> None:
        from pyiceberg.table import TableProperties

        self._fit(table)
        staged = StagedFiles(self.transaction, data_path(table))
        files = staged.listed()
        staged.move(files)
        table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
        checkpoint_id = str(self.transaction.checkpoint_id)
        with table.transaction() as transaction:
            transaction.add_files(
                [staged.target(file) for file in files],
                snapshot_properties={_WRITER: self.transaction.writer, _CHECKPOINT: checkpoint_id},
                # Their names are of this batch alone, and to look for them takes as long as the table is large.
                check_duplicate_files=False,
            )
            transaction.set_properties({self._property: checkpoint_id})

    def _sync(self, table: Table) -> None:
        """Make the current version durable, whose files pyiceberg has written without a sync."""
        snapshot = table.current_snapshot()
        if not self.transaction.fsync or snapshot is None or not is_local(table.metadata_location):
            return
        manifests = (manifest.manifest_path for manifest in snapshot.manifests(table.io))
        files = [*manifests, snapshot.manifest_list, table.metadata_location]
        sync_files(files)
        self.transaction.sync_names(path.rpartition("/")[0] for path in files)

    def _fit(self, table: Table) -> None:
        """Add new columns, if that is wanted. Raises `SinkError` where the rows do not fit; the text names a column."""
        rows = schema_of(self.transaction)
        wrong = unwritable(table) or misfit(columns_of(table), rows, merges_schema=self.merges_schema)
        if wrong is not None:
            raise SinkError(f"rows cannot be written to {self.name}: {wrong}")
        added = new_columns(columns_of(table), rows)
        if added.fields:
            with table.update_schema() as update:
                update.union_by_name(iceberg_columns(added))
