"""DeltaSink: rows of a Delta table that appear exactly once, when the checkpoint that contains them is complete.

Exactly-once uses Delta's transactions: the commit that adds the rows of a checkpoint also records the checkpoint's id,
as the transaction of an application named after the writer. A restore checks the table for this id first.

Appended rows are staged as the files that the table will have, in `_flykka-staging` below it, and moved when their
checkpoint is complete. So they are written only once. Changes are staged in the same folder and merged, which rewrites
the files that contain rows with their keys, or removed rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, ClassVar, Self

from pyspark.sql.types import StringType, StructType

from flykka.actors.checkpoint_storage.file_names import file_name_part
from flykka.runtime.secrets import masked_uri
from flykka.spark_bridge.connectors.connector import require
from flykka.spark_bridge.connectors.delta.columns import (
    columns_of,
    partition_mismatch,
    schema_mismatch,
    schema_of,
    unknown_type,
    unwritable,
)
from flykka.spark_bridge.connectors.delta.publishing import AppendToDelta, UpsertIntoDelta
from flykka.spark_bridge.connectors.delta.staged_files import STAGING
from flykka.spark_bridge.connectors.delta.table import StorageOptions, TableLocation, checked_options
from flykka.spark_bridge.connectors.delta.whole_rows import ChangeWholeRows
from flykka.spark_bridge.connectors.staging import check_staging
from flykka.spark_bridge.connectors.transactional import Transaction, TransactionalSink
from flykka.spark_bridge.connectors.written_columns import check_written
from flykka.spark_bridge.errors import SinkError
from flykka.spark_bridge.program.prototype import PrototypeError
from flykka.spark_bridge.rows.files import PARQUET, FileLayout
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.rows.row_kind import ROW_KIND

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

    from flykka.messages.wire.ids import JobId

_WHAT = "a DeltaSink"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSink(TransactionalSink):
    """A Delta table to write to, whose readers see only rows of completed checkpoints.

    Created by `append`, `overwrite_partitions`, `upsert` or `apply_changes`; the other methods return changed copies. A
    missing table is created with the first checkpoint that has rows. Others may write to the table at the same time.
    """

    needs_order: ClassVar[bool] = False
    removes: ClassVar[bool] = False
    """True if the sink removes existing rows of the table."""

    path: str
    partition_columns: tuple[str, ...] = ()
    merges_schema: bool = False
    options: StorageOptions = field(default=(), repr=False)

    @staticmethod
    def append(path: str | PathLike[str]) -> DeltaSink:
        """Append all rows to the table.

        Raises:
            MissingExtraError: deltalake is not installed.
        """
        return DeltaSink(path=_checked(path))

    @staticmethod
    def overwrite_partitions(path: str | PathLike[str], *columns: str) -> DeltaOverwriteSink:
        """Replace the partitions to which the rows of a checkpoint belong, by these rows. Other partitions stay
        unchanged.

        The table is partitioned by these columns. Raises the same errors as `append`, and `ValueError` without a
        column.
        """
        if not columns:
            raise ValueError("overwrite_partitions needs the columns that the table is partitioned by, such as 'day'")
        return DeltaOverwriteSink(path=_checked(path), partition_columns=columns)

    @staticmethod
    def upsert(
        path: str | PathLike[str],
        *,
        keys: Sequence[str],
        sequence_by: str | Sequence[str] = (),
        row_kind: str | None = None,
    ) -> DeltaUpsertSink:
        """Keep one row for each key: the last row received, unless that was a deletion.

        `row_kind` is the column with `+I` or `+U` for a row to be inserted or updated, and `-D` for a row to be deleted
        (Flink's RowKind; rows of kind `-U` are ignored). The column is not written to the table. By default a column
        named `row_kind` is used if the rows have one, otherwise all rows are inserted or updated.

        `sequence_by` are columns that order the changes of a key, and are stored in the table: changes older than the
        stored row are ignored. Without these columns, changes are ordered by arrival.

        Raises the same errors as `append`, and `ValueError` without a key.
        """
        by = (sequence_by,) if isinstance(sequence_by, str) else tuple(sequence_by)
        if isinstance(keys, str) or not keys:
            raise ValueError(f"upsert needs a list of key columns, such as keys=['id'], not {keys!r}")
        return DeltaUpsertSink(path=_checked(path), keys=tuple(keys), sequence=by, kind=row_kind)

    @staticmethod
    def apply_changes(path: str | PathLike[str], *, row_kind: str = ROW_KIND) -> DeltaChangesSink:
        """Add a row, or remove a row that is equal in all columns, for each change.

        `row_kind` names the column with the kind of a row: `-D` and `-U` remove one row with these values, `+I` and
        `+U` add one. It is not written. The job fails if there is no such row: only the job may change the rows of the
        table. Raises the same errors as `append`.
        """
        return DeltaChangesSink(path=_checked(path), keys=(), kind=row_kind)

    def partition_by(self, *columns: str) -> Self:
        """Partition a new table by these columns. An existing table must be partitioned by the same columns."""
        return replace(self, partition_columns=columns)

    def merge_schema(self) -> Self:
        """Add columns to the table that only the rows have. Types never change."""
        return replace(self, merges_schema=True)

    def storage_options(self, **options: object) -> Self:
        """Set delta-rs's options for the storage of the log, such as `aws_region="eu-west-1"`.

        Spark writes the data files, with the settings of its session.
        """
        return replace(self, options=checked_options({**dict(self.options), **options}, _WHAT))

    @property
    def format(self) -> str:
        return "delta"

    @property
    def read_as(self) -> str:
        return str(FileLayout(partition_by=self.partition_columns)).replace("parquet", self.format)

    def __str__(self) -> str:
        return f"{self.format} {masked_uri(self.path)}"

    @property
    def staged_as(self) -> FileLayout:
        return FileLayout(partition_by=self.partition_columns)

    def bound(self, session: SparkSession) -> Self:
        return replace(self, path=FileSystem(session).absolute(self.path))

    def check_rows(self, prototype: DataFrame) -> None:
        check_written(prototype, self.staged_as)
        rows = self._stored(prototype.schema)
        wrong = partition_mismatch(rows, self.partition_columns)
        if wrong is not None:
            raise PrototypeError(wrong)
        session = prototype.sparkSession
        table = self.bound(session)._table(FileSystem(session))
        wrong = None if table is None else self._refusal(table)
        if wrong is not None:
            raise PrototypeError(wrong)
        wrong = unknown_type(rows, is_new=table is None)
        if wrong is None and table is not None:
            wrong = schema_mismatch(columns_of(table), rows, merges_schema=self.merges_schema)
        if wrong is not None:
            raise PrototypeError(f"rows cannot be written to {self}: {wrong}")

    def check_target(self, filesystem: FileSystem) -> None:
        table = self._table(filesystem)
        if table is None:
            check_staging(filesystem, self.path, STAGING)
            return
        wrong = self._refusal(table)
        if wrong is not None:
            raise SinkError(wrong)

    def target(self, filesystem: FileSystem) -> str | None:
        return filesystem.qualified(self.path)

    def staging_folder(self, job_id: JobId, checkpoint_directory: str) -> str:
        return f"{self.path}/{STAGING}/{file_name_part(job_id)}"

    def publish(self, transaction: Transaction) -> None:
        self._append(transaction, replaces=False)

    def _append(self, transaction: Transaction, *, replaces: bool) -> None:
        AppendToDelta(
            location=self._location(transaction.filesystem),
            transaction=transaction,
            partition_by=self.partition_columns,
            merges_schema=self.merges_schema,
            replaces=replaces,
        ).publish()

    def _table(self, filesystem: FileSystem) -> DeltaTable | None:
        from deltalake.exceptions import DeltaError

        if filesystem.exists(self.path) and not filesystem.is_folder(self.path):
            raise SinkError(f"{self.path} is a file: pass the path of a folder for the Delta table")
        try:
            return self._location(filesystem).find()
        except DeltaError as refused:
            raise SinkError(f"the Delta table {self.path} cannot be opened: {refused}") from refused

    def _refusal(self, table: DeltaTable) -> str | None:
        return unwritable(self.path, table, self.partition_columns, removes=self.removes)

    def _location(self, filesystem: FileSystem) -> TableLocation:
        return TableLocation.of(self.path, self.options, filesystem)

    def _stored(self, rows: StructType) -> StructType:
        return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaOverwriteSink(DeltaSink):
    """Replaces the partitions to which the rows of a checkpoint belong. Created by `DeltaSink.overwrite_partitions`.

    It runs in one subtask, because two subtasks would replace each other's rows of the same checkpoint.
    """

    parallelism_limit: ClassVar[int | None] = 1
    removes: ClassVar[bool] = True

    def publish(self, transaction: Transaction) -> None:
        self._append(transaction, replaces=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaUpsertSink(DeltaSink):
    """Keeps one row for each key. Created by `DeltaSink.upsert`.

    It runs in one subtask, because a merge uses all cores, and two concurrent merges would conflict.
    """

    parallelism_limit: ClassVar[int | None] = 1
    needs_order: ClassVar[bool] = True
    removes: ClassVar[bool] = True

    keys: tuple[str, ...]
    sequence: tuple[str, ...] = ()
    kind: str | None = None

    @property
    def staged_as(self) -> FileLayout:
        return PARQUET

    def check_rows(self, prototype: DataFrame) -> None:
        DeltaSink.check_rows(self, prototype)
        required = (*self.keys, *self.sequence, *self.partition_columns, *(() if self.kind is None else (self.kind,)))
        if missing := [name for name in required if name not in prototype.columns]:
            raise PrototypeError(f"there is no column {missing[0]!r}; the columns are {', '.join(prototype.columns)}")
        kind = self._kind_in(prototype.schema)
        if kind is not None and kind in (*self.keys, *self.sequence, *self.partition_columns):
            raise PrototypeError(
                f"the column {kind!r} contains kinds of changes and is not written to the table: use other"
                " columns as keys, sequence or partitions"
            )
        if kind is not None and not isinstance(prototype.schema[kind].dataType, StringType):
            kind_type = prototype.schema[kind].dataType.simpleString()
            raise PrototypeError(f"the kind of a row is a string such as '+I', but {kind!r} is of type {kind_type}")

    def publish(self, transaction: Transaction) -> None:
        rows = schema_of(transaction)
        UpsertIntoDelta(
            location=self._location(transaction.filesystem),
            transaction=transaction,
            rows=self._stored(rows),
            keys=self.keys,
            sequence=self.sequence,
            kind=self._kind_in(rows),
            partition_by=self.partition_columns,
            merges_schema=self.merges_schema,
        ).publish()

    def _stored(self, rows: StructType) -> StructType:
        kind = self._kind_in(rows)
        return StructType([field for field in rows if field.name != kind])

    def _kind_in(self, rows: StructType) -> str | None:
        return ROW_KIND if self.kind is None and ROW_KIND in rows.names else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaChangesSink(DeltaUpsertSink):
    """Adds rows, and removes equal rows. Created by `DeltaSink.apply_changes`.

    It runs in one subtask: a row must not be removed before another subtask has added it.
    """

    needs_order: ClassVar[bool] = False

    def check_rows(self, prototype: DataFrame) -> None:
        DeltaUpsertSink.check_rows(self, prototype)
        rows = prototype.sparkSession.createDataFrame([], self._stored(prototype.schema))
        check_written(rows, FileLayout(partition_by=self.partition_columns))

    def publish(self, transaction: Transaction) -> None:
        assert self.kind is not None, "there is no column of kinds"
        ChangeWholeRows(
            location=self._location(transaction.filesystem),
            transaction=transaction,
            rows=self._stored(schema_of(transaction)),
            kind=self.kind,
            partition_by=self.partition_columns,
            merges_schema=self.merges_schema,
        ).publish()


def _checked(path: str | PathLike[str]) -> str:
    require("deltalake", extra="delta", what=_WHAT)
    if not str(path):
        raise ValueError("a DeltaSink needs the path of a table, and got an empty text")
    return str(path)
