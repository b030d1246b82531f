"""Publishes staged changes of rows: the last change of each key is merged into the table, by delta-rs in this process.

Spark finds the last changes and writes them beside what was staged, and delta-rs reads them batch by batch. Which
change is the last is told by the columns of `sequence_by`, and without or behind them by the order of arrival: that of
the batches, and of the rows in their files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import parquet as pq
from pyspark.sql import functions as F

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.spark_bridge.connectors.delta.columns import delta_schema
from flykka.spark_bridge.connectors.delta.commits import commit_once, is_noted, noting
from flykka.spark_bridge.connectors.delta.evolution import fitted
from flykka.spark_bridge.connectors.delta.staged_files import opened
from flykka.spark_bridge.rows.equality import normalised_column
from flykka.spark_bridge.rows.files import write_files
from flykka.spark_bridge.rows.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from flykka.spark_bridge.connectors.delta.table import TableLocation
    from flykka.spark_bridge.connectors.transactional import Transaction

_CHANGES = "_changes"
_KIND, _ARRIVAL = "__kind", "__arrival"
_ROWS_AT_ONCE = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert:
    """The staged changes of one transaction, merged into a table by `keys`.

    `rows` are the columns that the table has too, and `kind` that of the rows' kinds; None where all rows are inserted
    or updated.
    """

    location: TableLocation
    transaction: Transaction
    rows: StructType
    keys: tuple[str, ...]
    sequence: tuple[str, ...]
    kind: str | None
    partition_by: tuple[str, ...]
    merges_schema: bool

    def publish(self) -> None:
        """Merge them, unless that was done. Raises `SinkError` where the table does not take them."""
        changes: list[str] | None = None

        def commit(table: DeltaTable | None) -> None:
            nonlocal changes
            table = fitted(
                self.location,
                table or self._created(),
                self.rows,
                partition_by=self.partition_by,
                merges_schema=self.merges_schema,
                removes=True,
            )
            if changes is None:
                changes = self._written()
            if changes:
                self._merge(table, changes)
            # A merge that changes nothing is no commit.
            table = self.location.open()
            if not is_noted(table, self.transaction):
                table.create_write_transaction(
                    [], "append", table.schema(), list(self.partition_by), commit_properties=noting(self.transaction)
                )

        commit_once(self.location, self.transaction, commit)

    def _created(self) -> DeltaTable:
        from deltalake import DeltaTable

        return DeltaTable.create(
            self.location.uri,
            delta_schema(self.rows),
            partition_by=list(self.partition_by),
            storage_options=self.location.storage_options,
        )

    def _written(self) -> list[str]:
        """Write the last changes to files; their paths. One Spark job."""
        filesystem = self.transaction.filesystem
        # It is deleted with what was staged.
        folder = f"{self.transaction.folders()[0]}/{_CHANGES}"
        filesystem.delete(folder)
        return [status.path for status in write_files(filesystem, self._last(), folder) if status.size_bytes]

    def _last(self) -> DataFrame:
        kind = F.lit(INSERT) if self.kind is None else self._known_kind(F.col(quoted(self.kind)))
        rows = self.transaction.rows_with_arrival(_ARRIVAL).withColumn(_KIND, kind).where(F.col(_KIND) != UPDATE_BEFORE)
        for name in (*self.keys, *self.sequence):
            rows = rows.withColumn(name, normalised_column(_never_null(name), rows.schema[name].dataType))
        order = F.struct(*(quoted(name) for name in self.sequence), _ARRIVAL)
        names = [name for name in rows.columns if name not in (_ARRIVAL, self.kind)]
        whole = F.struct(*(quoted(name) for name in names))
        last = rows.groupBy(*(quoted(name) for name in self.keys)).agg(F.max_by(whole, order).alias("last"))
        return last.select("last.*")

    def _known_kind(self, kind: Column) -> Column:
        known = kind.isin(INSERT, UPDATE_AFTER, DELETE, UPDATE_BEFORE)
        told = F.concat(
            F.lit(f"the column {self.kind!r} has "),
            F.coalesce(kind, F.lit("null")),
            F.lit(f", which is no kind of a row: {INSERT}, {UPDATE_AFTER}, {UPDATE_BEFORE} and {DELETE} are"),
        )
        return F.when(known, kind).otherwise(F.raise_error(told))

    def _merge(self, table: DeltaTable, changes: Sequence[str]) -> None:
        newer = newer_than_stored(self.sequence)
        merger = table.merge(
            _reader(changes),
            " AND ".join(f"target.{_quoted(key)} = source.{_quoted(key)}" for key in self.keys),
            source_alias="source",
            target_alias="target",
            commit_properties=noting(self.transaction),
        )
        # By hand: what takes all columns by itself does not quote odd names.
        values = {_quoted(name): f"source.{_quoted(name)}" for name in self.rows.names}
        deletes, stays = f"source.{_KIND} = '{DELETE}'", f"source.{_KIND} <> '{DELETE}'"
        (
            merger.when_matched_delete(predicate=f"{deletes} AND {newer}")
            .when_matched_update(values, predicate=f"{stays} AND {newer}")
            .when_not_matched_insert(values, predicate=stays)
            .execute()
        )


def newer_than_stored(sequence: Sequence[str]) -> str:
    """SQL that is true where a change is not older than the row that is there; always, where nothing orders them."""
    if not sequence:
        return "TRUE"
    newer = ""
    for name in reversed(sequence):
        new, old = f"source.{_quoted(name)}", f"target.{_quoted(name)}"
        newer = f"({new} > {old} OR ({new} = {old} AND {newer}))" if newer else f"{new} >= {old}"
    return f"(target.{_quoted(sequence[0])} IS NULL OR {newer})"


def _never_null(name: str) -> Column:
    column = F.col(quoted(name))
    told = f"a change has no {name!r}, by which it is merged"
    return F.when(column.isNotNull(), column).otherwise(F.raise_error(F.lit(told)))


def _reader(paths: Sequence[str]) -> pa.RecordBatchReader:
    """The rows of files, read as they are asked for."""
    with closing(opened(paths[0])) as file:
        schema = pq.read_schema(file).remove_metadata()

    def batches() -> Iterator[pa.RecordBatch]:
        for path in paths:
            with closing(opened(path)) as file:
                for batch in pq.ParquetFile(file).iter_batches(_ROWS_AT_ONCE):
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))
