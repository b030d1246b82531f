"""Keeps the rows of a table without a key: each change adds a row, or removes one of the rows that are equal to it.

Spark adds up the changes of equal rows, finds the rows to remove in files whose statistics do not exclude them, and
writes the other rows of these files, and the added rows, into new files. One commit replaces the files and records the
checkpoint. Rows are equal by the rule of Spark's `GROUP BY` in all columns that the changes have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, IntegerType, LongType, ShortType, StringType

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.messages.state.handles import StagedBatch
from flykka.spark_bridge.connectors.delta.columns import columns_of, fitted
from flykka.spark_bridge.connectors.delta.log import entries_at, file_of, plain, removal
from flykka.spark_bridge.connectors.delta.publishing import (
    CHANGES,
    added,
    checked_kind,
    commit_once,
    created,
    moved_files,
    recording,
)
from flykka.spark_bridge.connectors.delta.source import place_of, read_files
from flykka.spark_bridge.errors import SinkError
from flykka.spark_bridge.rows.equality import normalised_column
from flykka.spark_bridge.rows.files import FileLayout, read_parquet, write_files
from flykka.spark_bridge.rows.row_kind import DELETE, UPDATE_BEFORE

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from flykka.spark_bridge.connectors.delta.log import AddedFile
    from flykka.spark_bridge.connectors.delta.table import TableLocation
    from flykka.spark_bridge.connectors.transactional import Transaction

_BOUNDED = (ByteType, ShortType, IntegerType, LongType, StringType)
"""Types whose bounds in the log Python compares as Spark compares values."""
_FILE_BYTES = 128 * 1024**2
_ROW, _KEY, _FILE, _NUMBER, _TAKEN = "row", "key", "file", "number", "taken"
_Bounds = Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class _Change:
    """Files that a table with `columns` gets instead of others."""

    columns: StructType
    replaced: Sequence[AddedFile]
    added: Sequence[AddAction]

    def fits(self, table: DeltaTable) -> bool:
        paths = {plain(entry["path"]) for entry in entries_at(table)}
        return self.columns == columns_of(table) and all(file.path in paths for file in self.replaced)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeWholeRows:
    """Applies the staged changes of one transaction. `rows` are their columns without `kind`."""

    location: TableLocation
    transaction: Transaction
    rows: StructType
    kind: str
    partition_by: tuple[str, ...]
    merges_schema: bool

    def publish(self) -> None:
        net: DataFrame | None = None
        change: _Change | None = None

        def commit(table: DeltaTable | None) -> None:
            nonlocal net, change
            table = fitted(
                self.location,
                table or created(self.location, self.rows, self.partition_by),
                self.rows,
                partition_by=self.partition_by,
                merges_schema=self.merges_schema,
                removes=True,
            )
            if net is None:
                net = self._stored("net", self._net())
            if change is None or not change.fits(table):
                replaced, rows = self._changed(table, net)
                change = _Change(columns_of(table), replaced, self._moved(table, rows))
            table.create_write_transaction(
                [*map(removal, change.replaced), *change.added],
                "append",
                table.schema(),
                list(self.partition_by),
                commit_properties=recording(self.transaction, removes=True),
            )

        commit_once(self.location, self.transaction, commit)

    def _net(self) -> DataFrame:
        """Return the changed rows with the numbers of equal rows that they add, or remove if negative."""
        number = F.when(checked_kind(self.kind).isin(DELETE, UPDATE_BEFORE), -1).otherwise(1)
        row = F.struct(*(self._as_written(field.name).alias(field.name) for field in self.rows))
        changes = self.transaction.rows.select(row.alias(_ROW), number.alias(_NUMBER))
        totals = changes.groupBy(self._key(F.col(_ROW)).alias(_KEY)).agg(
            F.any_value(_ROW).alias(_ROW), F.sum(_NUMBER).alias(_NUMBER)
        )
        return totals.where(F.col(_NUMBER) != 0).select(_ROW, _NUMBER)

    def _as_written(self, name: str) -> Column:
        column = F.col(quoted(name))
        is_folder = name in self.partition_by and isinstance(self.rows[name].dataType, StringType)
        # The partition of an empty text is that of null.
        return F.nullif(column, F.lit("")) if is_folder else column

    def _key(self, row: Column) -> Column:
        return normalised_column(row, self.rows)

    def _changed(self, table: DeltaTable, net: DataFrame) -> tuple[Sequence[AddedFile], DataFrame]:
        """Return the files to be replaced, and the rows that replace them."""
        columns = columns_of(table)
        values = (
            F.col(_ROW).getField(each.name) if each.name in self.rows.names else F.lit(None).cast(each.dataType)
            for each in columns
        )
        row = F.struct(*(value.alias(each.name) for value, each in zip(values, columns, strict=True)))
        copies = F.explode(F.sequence(F.lit(1), F.col(_NUMBER)))
        rows = net.where(F.col(_NUMBER) > 0).select(row.alias(_ROW), copies).select(_ROW)
        removed = net.where(F.col(_NUMBER) < 0).withColumn(_KEY, self._key(F.col(_ROW)))
        bounds = self._bounds(removed)
        if bounds is None:
            return (), rows
        uri = self.transaction.filesystem.uri
        possible = (file_of(entry) for entry in entries_at(table) if not _is_outside(entry, bounds))
        files = {uri(place_of(self.location.path, file)): file for file in possible}
        taken = self._stored(_TAKEN, self._taken(removed, self._scan(columns, files.values())))
        self._check_taken(removed, taken)
        replaced = [files[each.file] for each in taken.select(_FILE).distinct().sort(_FILE).collect()]
        # Without a shuffle of the other rows, so that they keep their order, and files their narrow bounds.
        number = 1 + sum(file.size_bytes for file in replaced) // _FILE_BYTES
        return replaced, rows.unionAll(_others(self._scan(columns, replaced), taken).coalesce(number))

    def _bounds(self, removed: DataFrame) -> _Bounds | None:
        """Return bounds of removed rows in columns without nulls, if rows are removed at all."""
        names = [field.name for field in self.rows if isinstance(field.dataType, _BOUNDED)]
        columns = [F.col(_ROW).getField(name) for name in names]
        total, *found = removed.agg(
            F.count("*"), *(F.struct(F.count(each), F.min(each), F.max(each)) for each in columns)
        ).collect()[0]
        if not total:
            return None
        return {name: (low, high) for name, (count, low, high) in zip(names, found, strict=True) if count == total}

    def _scan(self, columns: StructType, files: Iterable[AddedFile]) -> DataFrame:
        session, there = self.transaction.session, list(files)
        rows = session.createDataFrame([], columns)
        if there:
            rows = read_files(session, self.location.path, columns, there)
        # Without `_metadata`, which a union does not have. Only here Spark writes a local file with three slashes.
        file = F.regexp_replace(F.input_file_name(), "^file:/+", "file:/")
        row, compared = (F.struct(*map(quoted, names)) for names in (columns.names, self.rows.names))
        return rows.select(row.alias(_ROW), self._key(compared).alias(_KEY), file.alias(_FILE))

    @staticmethod
    def _taken(removed: DataFrame, there: DataFrame) -> DataFrame:
        """Return how many rows of each key are taken out of each file, in the order of files."""
        found = (
            there.join(removed.select(_KEY, _NUMBER), _KEY)
            .groupBy(_KEY, _NUMBER, _FILE)
            .agg(F.count("*").alias("rows"))
        )
        earlier = Window.partitionBy(_KEY).orderBy(_FILE).rowsBetween(Window.unboundedPreceding, -1)
        needed = -F.col(_NUMBER) - F.coalesce(F.sum("rows").over(earlier), F.lit(0))
        taken = found.select(_KEY, _FILE, F.least("rows", needed).alias(_TAKEN))
        return taken.where(F.col(_TAKEN) > 0)

    def _check_taken(self, removed: DataFrame, taken: DataFrame) -> None:
        totals = taken.groupBy(_KEY).agg(F.sum(_TAKEN).alias(_TAKEN))
        lost = removed.join(totals, _KEY, "left").where(F.coalesce(_TAKEN, F.lit(0)) + F.col(_NUMBER) < 0)
        row = lost.select(F.to_json(_ROW, {"ignoreNullFields": "false"})).first()
        if row is not None:
            raise SinkError(
                f"the Delta table {self.location.path} does not have the row {row[0]} as often as it is removed: only"
                " the job may change the rows of the table"
            )

    def _moved(self, table: DeltaTable, rows: DataFrame) -> list[AddAction]:
        layout, folder = FileLayout(partition_by=self.partition_by), self._folder("rows")
        write_files(self.transaction.filesystem, rows.select(f"{_ROW}.*"), folder, layout)
        batch = StagedBatch(checkpoint_id=self.transaction.checkpoint_id, path=folder, schema="")
        files = moved_files(self.location.path, replace(self.transaction, batches=(batch,)), table)
        return [added(file, numbers, ()) for file, numbers in files]

    def _stored(self, name: str, rows: DataFrame) -> DataFrame:
        files = write_files(self.transaction.filesystem, rows, self._folder(name))
        return read_parquet(self.transaction.session, [file.path for file in files if file.size_bytes], rows.schema)

    def _folder(self, name: str) -> str:
        folder = f"{self.transaction.batches[0].path}/{CHANGES}/{name}"
        self.transaction.filesystem.delete(folder)
        return folder


def _is_outside(entry: Mapping[str, Any], bounds: _Bounds) -> bool:
    """Return True if a file in the log cannot contain rows with these bounds."""
    for name, (low, high) in bounds.items():
        if name in entry.get("partition", {}):
            lowest = highest = entry["partition"][name]
        else:
            lowest, highest = ((entry.get(side) or {}).get(name) for side in ("min", "max"))
        if None not in (lowest, highest) and (highest < low or high < lowest):
            return True
    return False


def _others(there: DataFrame, taken: DataFrame) -> DataFrame:
    """Return the rows that are not taken out of their files."""
    place = F.row_number().over(Window.partitionBy(_KEY, _FILE).orderBy(_FILE))
    equal = there.join(taken, [_KEY, _FILE]).withColumn("place", place).where(F.col("place") > F.col(_TAKEN))
    return there.join(taken, [_KEY, _FILE], "left_anti").select(_ROW).unionAll(equal.select(_ROW))
