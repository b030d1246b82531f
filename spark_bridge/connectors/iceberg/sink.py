"""IcebergSink: rows of an Iceberg table that appear exactly once, when the checkpoint that holds them is complete.

Rows are staged as the files that the table will have, in `_flykka-staging` beside its files, and are added to it by
a commit that also notes the id of their checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from flykka.actors.checkpoint_storage.file_names import in_a_name
from flykka.runtime.secrets import remember_secrets
from flykka.spark_bridge.connectors.delta.columns import misfit
from flykka.spark_bridge.connectors.delta.staged_files import STAGING
from flykka.spark_bridge.connectors.extras import require
from flykka.spark_bridge.connectors.iceberg.publishing import Append
from flykka.spark_bridge.connectors.iceberg.table import TableName, columns_of, data_path, unwritable
from flykka.spark_bridge.connectors.transactional import Transaction, TransactionalSink
from flykka.spark_bridge.errors import SinkError
from flykka.spark_bridge.program.prototype import PrototypeError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flykka.messages.wire.ids import JobId
    from flykka.spark_bridge.rows.filesystem import FileSystem


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergSink(TransactionalSink):
    """An Iceberg table to add rows to. Made by `append`; `merge_schema` returns a changed copy.

    The table must be there, and have no partitions. Spark must reach its location, as the catalog names it.
    """

    table: TableName
    data_path: str = ""
    merges_schema: bool = False

    @classmethod
    def append(cls, identifier: str, *, catalog: str = "default", **properties: object) -> Self:
        """Add all rows to a table, `<namespace>.<name>`, of a catalog.

        `properties` are pyiceberg's for loading the catalog: `type="rest"`, `uri="http://..."`, or as in
        `**{"s3.region": "eu-west-1"}`. Without any they are those of its configuration file.

        Raises:
            MissingExtraError: pyiceberg is not installed.
        """
        require("pyiceberg", extra="iceberg", what="an IcebergSink")
        remember_secrets(properties)
        given = tuple(sorted((key, str(value)) for key, value in properties.items()))
        return cls(table=TableName(identifier, catalog, given))

    def merge_schema(self) -> Self:
        """Add columns to the table that the rows have and it does not. Types never change."""
        return replace(self, merges_schema=True)

    @property
    def format(self) -> str:
        """The name of the format."""
        return "iceberg"

    def __str__(self) -> str:
        return f"{self.format} {self.table}"

    def bound(self, session: SparkSession) -> Self:
        """With the folder of the table's files. Raises `SinkError` where the catalog does not have the table."""
        with self.table.opened() as table:
            return replace(self, data_path=data_path(table))

    def check_rows(self, prototype: DataFrame) -> None:
        """Raise `PrototypeError` where the rows do not fit the table."""
        TransactionalSink.check_rows(self, prototype)
        with self.table.opened() as table:
            wrong = misfit(columns_of(table), prototype.schema, merges_schema=self.merges_schema)
        if wrong is not None:
            raise PrototypeError(f"rows cannot be written to {self}: {wrong}")

    def check_target(self, filesystem: FileSystem) -> None:
        """Raise `SinkError` where files cannot be added to the table."""
        with self.table.opened() as table:
            wrong = unwritable(table)
        if wrong is not None:
            raise SinkError(f"rows cannot be written to {self}: {wrong}")

    def target(self, filesystem: FileSystem) -> str:
        """The folder of the table's files, with its scheme."""
        return filesystem.qualified(self.data_path)

    def staging_folder(self, job_id: JobId, checkpoint_directory: str) -> str:
        """Beside the table's files, for a rename must not leave the file system."""
        return f"{self.data_path}/{STAGING}/{in_a_name(job_id)}"

    def publish(self, transaction: Transaction) -> None:
        """Move the files, and commit them with the id."""
        Append(name=self.table, transaction=transaction, merges_schema=self.merges_schema).publish()
