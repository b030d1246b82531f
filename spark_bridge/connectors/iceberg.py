"""IcebergSink: rows of an Iceberg table that appear exactly once, when the checkpoint that contains them is complete.

It uses pyiceberg, so Spark needs no jar. Rows are staged as the files that the table will have, in `_flykka-staging`
next to its files, and are added by a commit that also records the id of their checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Self

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from flykka.actors.checkpoint_storage.file_digests import is_local, sync_files
from flykka.actors.checkpoint_storage.file_names import file_name_part
from flykka.runtime.secrets import remember_secrets
from flykka.spark_bridge.connectors.connector import require
from flykka.spark_bridge.connectors.delta.columns import new_columns, schema_mismatch, schema_of
from flykka.spark_bridge.connectors.delta.staged_files import STAGING, TransactionFiles
from flykka.spark_bridge.connectors.transactional import Transaction, TransactionalSink
from flykka.spark_bridge.errors import SinkError
from flykka.spark_bridge.program.prototype import PrototypeError
from flykka.spark_bridge.rows.type_support import nullable
from flykka.spark_bridge.worker.time_columns import arrow_schema

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from flykka.messages.wire.ids import JobId
    from flykka.spark_bridge.rows.filesystem import FileSystem


Properties = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TableName:
    identifier: str
    catalog: str
    properties: Properties = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"{self.catalog}.{self.identifier}"

    @contextmanager
    def opened(self) -> Iterator[Table]:
        """Open the table. Raises `SinkError` if the catalog does not contain it, or does not respond."""
        with closing(self._loaded()) as catalog:
            yield self._table(catalog)

    def _loaded(self) -> Catalog:
        from pyiceberg.catalog import load_catalog

        try:
            return load_catalog(self.catalog, **dict(self.properties))
        except Exception as refused:
            raise SinkError(f"the Iceberg catalog {self.catalog!r} cannot be loaded: {refused}") from refused

    def _table(self, catalog: Catalog) -> Table:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            return catalog.load_table(self.identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            raise SinkError(
                f"there is no Iceberg table {self.identifier} in the catalog {self.catalog!r}: create it"
            ) from None
        except Exception as refused:
            raise SinkError(f"the Iceberg table {self} cannot be loaded: {refused}") from refused


def columns_of(table: Table) -> StructType:
    return from_arrow_schema(table.schema().as_arrow(), prefer_timestamp_ntz=True)


def data_path(table: Table) -> str:
    from pyiceberg.table import TableProperties

    return table.properties.get(TableProperties.WRITE_DATA_PATH, f"{table.location().rstrip('/')}/data")


def iceberg_columns(rows: StructType) -> pa.Schema:
    """Convert Spark's columns to pyiceberg's. All are nullable, because staged rows may contain nulls."""
    return arrow_schema(nullable(rows))


def unwritable(table: Table) -> str | None:
    if not table.spec().is_unpartitioned():
        by = ", ".join(field.name for field in table.spec().fields)
        return f"it is partitioned by {by}, but flykka writes only to tables without partitions"
    if required := [field.name for field in table.schema().fields if field.required]:
        return (
            f"its column {required[0]!r} is required, but files that Spark writes may contain nulls: make it optional"
        )
    return None


_TRIES = 20
_WRITER, _CHECKPOINT = "flykka.writer", "flykka.checkpoint-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendToIceberg:
    """Adds the staged files of one transaction to a table once: the same commit records their checkpoint as a property.

    pyiceberg would rebase a commit on a faster commit, even on a commit of the same checkpoint. So rebasing is
    disabled, and the commit is repeated with the new version of the table.
    """

    name: TableName
    transaction: Transaction
    merges_schema: bool

    def publish(self) -> None:
        """Add the files, unless they were added before. Raises `SinkError` if the table rejects them or is too busy."""
        from pyiceberg.exceptions import CommitFailedException

        for _ in range(_TRIES):
            try:
                with self.name.opened() as table:
                    if not self._is_recorded(table):
                        self._commit(table)
                    self._sync(table)
                return
            except CommitFailedException as conflict:
                last = conflict
        raise SinkError(
            f"the rows of checkpoint {self.transaction.checkpoint_id} could not be committed to {self.name}: {_TRIES}"
            f" times other writers committed first, the last time with {last}"
        ) from last

    @property
    def _property(self) -> str:
        return f"{_CHECKPOINT}.{self.transaction.writer}"

    def _is_recorded(self, table: Table) -> bool:
        return int(table.properties.get(self._property, -1)) >= self.transaction.checkpoint_id

    def _commit(self, table: Table) -> None:
        from pyiceberg.table import TableProperties

        self._fit(table)
        staged = TransactionFiles(self.transaction, data_path(table))
        files = staged.listed()
        staged.move(files)
        table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
        checkpoint_id = str(self.transaction.checkpoint_id)
        with table.transaction() as transaction:
            transaction.add_files(
                [staged.target(file) for file in files],
                snapshot_properties={_WRITER: self.transaction.writer, _CHECKPOINT: checkpoint_id},
                # Their names are unique to this batch, and the duration of the check grows with the table.
                check_duplicate_files=False,
            )
            transaction.set_properties({self._property: checkpoint_id})

    def _sync(self, table: Table) -> None:
        """Make the current version durable; pyiceberg writes its files without a sync."""
        snapshot = table.current_snapshot()
        if not self.transaction.fsync or snapshot is None or not is_local(table.metadata_location):
            return
        manifests = (manifest.manifest_path for manifest in snapshot.manifests(table.io))
        files = [*manifests, snapshot.manifest_list, table.metadata_location]
        sync_files(files)
        self.transaction.sync_names(path.rpartition("/")[0] for path in files)

    def _fit(self, table: Table) -> None:
        """Add new columns, if configured. Raises `SinkError` if the rows do not fit; the message names a column."""
        rows = schema_of(self.transaction)
        wrong = unwritable(table) or schema_mismatch(columns_of(table), rows, merges_schema=self.merges_schema)
        if wrong is not None:
            raise SinkError(f"rows cannot be written to {self.name}: {wrong}")
        added = new_columns(columns_of(table), rows)
        if added.fields:
            with table.update_schema() as update:
                update.union_by_name(iceberg_columns(added))


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergSink(TransactionalSink):
    """An Iceberg table to which rows are appended. Created by `append`; `merge_schema` returns a changed copy.

    The table must exist and be unpartitioned. Spark must have access to its location, as named by the catalog.
    """

    needs_order: ClassVar[bool] = False

    table: TableName
    data_path: str = ""
    merges_schema: bool = False

    @classmethod
    def append(cls, identifier: str, *, catalog: str = "default", **properties: object) -> Self:
        """Append all rows to a table, `<namespace>.<name>`, of a catalog.

        `properties` are pyiceberg's properties for loading the catalog: `type="rest"`, `uri="http://..."`, or
        `**{"s3.region": "eu-west-1"}`. Without properties, those of pyiceberg's configuration file apply.

        Raises:
            MissingExtraError: pyiceberg is not installed.
        """
        require("pyiceberg", extra="iceberg", what="an IcebergSink")
        remember_secrets(properties)
        catalog_properties = tuple(sorted((key, str(value)) for key, value in properties.items()))
        return cls(table=TableName(identifier, catalog, catalog_properties))

    def merge_schema(self) -> Self:
        """Add columns to the table that only the rows have. Types never change."""
        return replace(self, merges_schema=True)

    @property
    def format(self) -> str:
        return "iceberg"

    def __str__(self) -> str:
        return f"{self.format} {self.table}"

    def bound(self, session: SparkSession) -> Self:
        """Return the sink with the folder of the table's files. Raises `SinkError` if the catalog lacks the table."""
        with self.table.opened() as table:
            return replace(self, data_path=data_path(table))

    def check_rows(self, prototype: DataFrame) -> None:
        TransactionalSink.check_rows(self, prototype)
        with self.table.opened() as table:
            wrong = schema_mismatch(columns_of(table), prototype.schema, merges_schema=self.merges_schema)
        if wrong is not None:
            raise PrototypeError(f"rows cannot be written to {self}: {wrong}")

    def check_target(self, filesystem: FileSystem) -> None:
        with self.table.opened() as table:
            wrong = unwritable(table)
        if wrong is not None:
            raise SinkError(f"rows cannot be written to {self}: {wrong}")

    def target(self, filesystem: FileSystem) -> str:
        return filesystem.qualified(self.data_path)

    def staging_folder(self, job_id: JobId, checkpoint_directory: str) -> str:
        return f"{self.data_path}/{STAGING}/{file_name_part(job_id)}"

    def publish(self, transaction: Transaction) -> None:
        AppendToIceberg(name=self.table, transaction=transaction, merges_schema=self.merges_schema).publish()
