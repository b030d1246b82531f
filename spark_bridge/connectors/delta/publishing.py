"""Publishes the rows of a checkpoint in one commit of the log: moves files into the table, or merges changes into it.

The commit also records the id of the checkpoint, as a `txn` of the writer. delta-rs rejects a commit if a `txn` of the
same writer has been committed since the table was opened, and rebases appends on appends of others. Conflicts that it
cannot resolve, such as two commits that remove the same file, are retried with the new version of the table. If another
attempt has committed the same checkpoint, the new version shows that commit, and nothing has to be done.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet as pq
from pyspark.sql import functions as F

from flykka.actors.checkpoint_storage.file_digests import is_local, sync_files
from flykka.actors.machines.state.schema_evolution import quoted
from flykka.spark_bridge.connectors.delta.columns import columns_of, delta_schema, fitted, new_columns, schema_of
from flykka.spark_bridge.connectors.delta.log import files_at, now_ms, plain, removal
from flykka.spark_bridge.connectors.delta.staged_files import StagedFile, TransactionFiles, opened, read_bytes
from flykka.spark_bridge.connectors.delta.table import LOG
from flykka.spark_bridge.errors import SinkError
from flykka.spark_bridge.rows.equality import normalised_column
from flykka.spark_bridge.rows.files import write_files
from flykka.spark_bridge.rows.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable
    from deltalake.transaction import AddAction, RemoveAction
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from flykka.spark_bridge.connectors.delta.table import TableLocation
    from flykka.spark_bridge.connectors.transactional import Transaction


@dataclass(slots=True, kw_only=True)
class AppendToDelta:
    """Adds the staged files of one transaction to a table. With `replaces`, they replace their partitions."""

    location: TableLocation
    transaction: Transaction
    partition_by: tuple[str, ...]
    merges_schema: bool
    replaces: bool
    _moved: list[tuple[StagedFile, FileNumbers]] | None = field(default=None, init=False)

    def publish(self) -> None:
        commit_once(self.location, self.transaction, self._commit)

    def _commit(self, table: DeltaTable | None) -> None:
        rows = schema_of(self.transaction)
        if table is not None:
            table = fitted(
                self.location,
                table,
                rows,
                partition_by=self.partition_by,
                merges_schema=self.merges_schema,
                removes=self.replaces,
            )
        if self._moved is None:
            # A second try of the commit reuses the moved files.
            self._moved = moved_files(self.location.path, self.transaction, table)
        files = self._moved
        lacks = () if table is None else new_columns(rows, columns_of(table)).names
        actions = [added(file, numbers, lacks) for file, numbers in files]
        if table is None:
            self._create(rows, actions)
            return
        removed = list(self._replaced(table, files)) if self.replaces else []
        table.create_write_transaction(
            [*removed, *actions],
            "append",
            table.schema(),
            list(self.partition_by),
            commit_properties=recording(self.transaction, removes=self.replaces),
        )

    def _create(self, rows: StructType, actions: list[AddAction]) -> None:
        from deltalake.transaction import create_table_with_add_actions

        create_table_with_add_actions(
            self.location.uri,
            delta_schema(rows),
            actions,
            partition_by=list(self.partition_by),
            storage_options=self.location.storage_options,
            commit_properties=recording(self.transaction),
        )

    def _replaced(self, table: DeltaTable, files: Sequence[tuple[StagedFile, FileNumbers]]) -> Iterator[RemoveAction]:
        touched = {_values(file.partition, self.partition_by) for file, _ in files}
        for file in files_at(table, None):
            if _values(file.partition, self.partition_by) in touched:
                yield removal(file)


def moved_files(path: str, transaction: Transaction, table: DeltaTable | None) -> list[tuple[StagedFile, FileNumbers]]:
    """Move the staged files of a transaction into the folder of a table, and return them with their statistics."""
    staged = TransactionFiles(transaction, path)
    files = staged.listed()
    files_with_numbers = [(file, numbers_in(staged.place(file))) for file in files]
    if table is not None:
        _check_nulls(columns_of(table), files_with_numbers, path)
    files_with_rows = [(file, numbers) for file, numbers in files_with_numbers if numbers.rows]
    staged.move([file for file, _ in files_with_rows])
    return files_with_rows


def _values(partition: Mapping[str, str | None], columns: Sequence[str]) -> tuple[str | None, ...]:
    return tuple(partition[column] for column in columns)


def _check_nulls(table: StructType, files: Sequence[tuple[StagedFile, FileNumbers]], path: str) -> None:
    required = [field.name for field in table if not field.nullable]
    for file, numbers in files:
        for name in required:
            nulls = numbers.nulls.get(name, 0) if name not in file.partition else file.partition[name] is None
            if nulls:
                raise SinkError(f"rows cannot be written to {path}: the column {name!r} must not be null in the table")


_PREFIX = 32
"""Maximum number of characters in Delta's bounds of texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileNumbers:
    """Statistics of a file: its row count, the null counts of columns, and the bounds of all ordered columns or of
    none.

    Nested columns have no statistics.
    """

    rows: int
    nulls: Mapping[str, int]
    lowest: Mapping[str, object]
    highest: Mapping[str, object]


def numbers_in(path: str) -> FileNumbers:
    with opened(path) as file:
        metadata = pq.read_metadata(file)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    nulls: dict[str, int] = {}
    bounds: dict[str, tuple[object, object] | None] = {}
    for place in range(metadata.num_columns):
        column = metadata.schema.column(place)
        if column.path != column.name:
            continue
        chunks = [group.column(place) for group in groups]
        has_values = [chunk for chunk in chunks if _nulls(chunk) != chunk.num_values]
        if all(_nulls(chunk) is not None for chunk in chunks):
            nulls[column.name] = sum(_nulls(chunk) or 0 for chunk in chunks)
        is_binary = column.physical_type == "BYTE_ARRAY" and column.logical_type.type == "NONE"
        if has_values and not is_binary:
            bounds[column.name] = _bounds([chunk.statistics for chunk in has_values])
    known_bounds = {name: bound for name, bound in sorted(bounds.items()) if bound is not None}
    complete = known_bounds if len(known_bounds) == len(bounds) else {}
    return FileNumbers(
        rows=metadata.num_rows,
        nulls=nulls,
        lowest={name: low for name, (low, _) in complete.items()},
        highest={name: high for name, (_, high) in complete.items()},
    )


def added(file: StagedFile, numbers: FileNumbers, lacks: Sequence[str]) -> AddAction:
    """Return the log entry of a file that `lacks` some columns of the table, which are null for its rows.

    Its statistics, by which readers skip files, are the same that Delta's own writer for Spark would write: bounds of
    texts are truncated like in Delta, and times to milliseconds. If some columns have bounds, delta-rs finds no rows by
    a column without bounds. So all columns of a file have bounds, or none has.
    """
    from deltalake.transaction import AddAction

    stats = {
        "numRecords": numbers.rows,
        **({"minValues": numbers.lowest, "maxValues": numbers.highest} if numbers.lowest else {}),
        "nullCount": {**numbers.nulls, **dict.fromkeys(lacks, numbers.rows)},
    }
    return AddAction(
        path=file.name,
        size=file.size_bytes,
        partition_values=file.partition,
        modification_time=now_ms(),
        data_change=True,
        stats=_json(stats),
    )


def _nulls(chunk: Any) -> int | None:
    return None if chunk.statistics is None else chunk.statistics.null_count


def _bounds(statistics: Sequence[Any]) -> tuple[object, object] | None:
    """Return the bounds of a column over row groups; None if a row group has no bounds, or the bounds cannot be
    written.
    """
    if not all(part is not None and part.has_min_max for part in statistics):
        return None
    try:
        values = [(part.min, part.max) for part in statistics]
    except (ValueError, OverflowError):
        # The bound is a date outside of Python's range, or bytes that are not text.
        return None
    # NaN cannot be a bound.
    if any(isinstance(value, float) and math.isnan(value) for pair in values for value in pair):
        return None
    low, high = min(low for low, _ in values), max(high for _, high in values)
    highest = _upper_bound(high) if isinstance(high, str) else high
    return None if highest is None else (low[:_PREFIX] if isinstance(low, str) else low, highest)


def _upper_bound(text: str) -> str | None:
    """Return the text or, if it is long, a shorter greater text: a prefix followed by a greater character."""
    if len(text) <= _PREFIX:
        return text
    for length in range(_PREFIX, len(text)):
        if text[length] < "\x7f":
            return f"{text[:length]}\x7f"
        if text[length] < "\U0010ffff":
            return f"{text[:length]}\U0010ffff"
    return None


def _json(value: object) -> str:
    """Encode statistics as JSON: decimals as numbers of any length, and other types without JSON numbers as texts."""
    match value:
        case Mapping():
            return "{" + ", ".join(f"{json.dumps(name)}: {_json(part)}" for name, part in value.items()) + "}"
        case Decimal():
            return format(value, "f")
        case float() if math.isinf(value):
            return '"Infinity"' if value > 0 else '"-Infinity"'
        case datetime():
            in_utc = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            # Truncated to milliseconds. By the protocol, readers add a millisecond to an upper bound.
            return json.dumps(in_utc.isoformat(timespec="milliseconds") + ("" if value.tzinfo is None else "Z"))
        case date():
            return json.dumps(value.isoformat())
        case _:
            return json.dumps(value)


CHANGES = "_changes"
"""A folder below the staged rows of a transaction. It is deleted with them, and not read as rows."""
_KIND, _ARRIVAL = "__kind", "__arrival"
_ROWS_AT_ONCE = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertIntoDelta:
    """Merges the staged changes of one transaction into a table by `keys`, with delta-rs in this process.

    Spark finds the last change of each key and writes these changes next to the staged files, and delta-rs reads them
    batch by batch. The last change is determined by the columns of `sequence`, and then by arrival order: the order of
    the batches, and of the rows in their files. `rows` are the columns in the table, and `kind` is the column with the
    rows' kinds, or None if all rows are inserted or updated.
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
        changes: list[str] | None = None

        def commit(table: DeltaTable | None) -> None:
            nonlocal changes
            table = fitted(
                self.location,
                table or created(self.location, self.rows, self.partition_by),
                self.rows,
                partition_by=self.partition_by,
                merges_schema=self.merges_schema,
                removes=True,
            )
            if changes is None:
                changes = self._written()
            if changes:
                self._merge(table, changes)
            # A merge without changes has made no commit.
            table = self.location.open()
            if not is_recorded(table, self.transaction):
                table.create_write_transaction(
                    [], "append", table.schema(), list(self.partition_by), commit_properties=recording(self.transaction)
                )

        commit_once(self.location, self.transaction, commit)

    def _written(self) -> list[str]:
        filesystem = self.transaction.filesystem
        folder = f"{self.transaction.folders()[0]}/{CHANGES}"
        filesystem.delete(folder)
        return [status.path for status in write_files(filesystem, self._last(), folder) if status.size_bytes]

    def _last(self) -> DataFrame:
        kind = F.lit(INSERT) if self.kind is None else checked_kind(self.kind)
        rows = self.transaction.rows_with_arrival(_ARRIVAL).withColumn(_KIND, kind).where(F.col(_KIND) != UPDATE_BEFORE)
        for name in (*self.keys, *self.sequence):
            rows = rows.withColumn(name, normalised_column(_never_null(name), rows.schema[name].dataType))
        order = F.struct(*(quoted(name) for name in self.sequence), _ARRIVAL)
        names = [name for name in rows.columns if name not in (_ARRIVAL, self.kind)]
        whole = F.struct(*(quoted(name) for name in names))
        last = rows.groupBy(*(quoted(name) for name in self.keys)).agg(F.max_by(whole, order).alias("last"))
        return last.select("last.*")

    def _merge(self, table: DeltaTable, changes: Sequence[str]) -> None:
        newer = newer_than_stored(self.sequence)
        merger = table.merge(
            _reader(changes),
            " AND ".join(f"target.{_quoted(key)} = source.{_quoted(key)}" for key in self.keys),
            source_alias="source",
            target_alias="target",
            commit_properties=recording(self.transaction),
        )
        # Columns are listed explicitly, because the methods for all columns do not quote unusual names.
        values = {_quoted(name): f"source.{_quoted(name)}" for name in self.rows.names}
        deletes, stays = f"source.{_KIND} = '{DELETE}'", f"source.{_KIND} <> '{DELETE}'"
        (
            merger.when_matched_delete(predicate=f"{deletes} AND {newer}")
            .when_matched_update(values, predicate=f"{stays} AND {newer}")
            .when_not_matched_insert(values, predicate=stays)
            .execute()
        )


def created(location: TableLocation, rows: StructType, partition_by: Sequence[str]) -> DeltaTable:
    from deltalake import DeltaTable

    return DeltaTable.create(
        location.uri,
        delta_schema(rows),
        partition_by=list(partition_by),
        storage_options=location.storage_options,
    )


def checked_kind(name: str) -> Column:
    """Return the column with the kinds of rows; other values raise an error."""
    kind = F.col(quoted(name))
    is_valid = kind.isin(INSERT, UPDATE_AFTER, DELETE, UPDATE_BEFORE)
    message = F.concat(
        F.lit(f"the column {name!r} has "),
        F.coalesce(kind, F.lit("null")),
        F.lit(f", which is not a row kind; use {INSERT}, {UPDATE_AFTER}, {UPDATE_BEFORE} or {DELETE}"),
    )
    return F.when(is_valid, kind).otherwise(F.raise_error(message))


def newer_than_stored(sequence: Sequence[str]) -> str:
    """Return SQL that is true if a change is not older than the stored row. It is always true without a sequence."""
    if not sequence:
        return "TRUE"
    newer = ""
    for name in reversed(sequence):
        new, old = f"source.{_quoted(name)}", f"target.{_quoted(name)}"
        newer = f"({new} > {old} OR ({new} = {old} AND {newer}))" if newer else f"{new} >= {old}"
    return f"(target.{_quoted(sequence[0])} IS NULL OR {newer})"


def _never_null(name: str) -> Column:
    column = F.col(quoted(name))
    message = f"a change has no value in the column {name!r}, by which changes are merged"
    return F.when(column.isNotNull(), column).otherwise(F.raise_error(F.lit(message)))


def _reader(paths: Sequence[str]) -> pa.RecordBatchReader:
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


_TRIES = 20
_RECENT = 100
"""The number of latest versions that may not be durable yet."""


def commit_once(location: TableLocation, transaction: Transaction, commit: Callable[[DeltaTable | None], None]) -> None:
    """Call `commit` with the table (None if it does not exist), unless the log has this checkpoint or a later
    checkpoint.

    Raises `SinkError` if every try conflicts with other commits.
    """
    from deltalake.exceptions import CommitFailedError, DeltaError

    for _ in range(_TRIES):
        table = location.find()
        version = -1 if table is None else table.version()
        if is_recorded(table, transaction):
            # The attempt that has committed it may have ended before the commit was durable.
            sync_commits(location, transaction, range(version, max(-1, version - _RECENT), -1))
            return
        try:
            commit(table)
            sync_commits(location, transaction, count(version + 1))
            return
        except DeltaError as refused:
            is_conflict = table is None or isinstance(refused, CommitFailedError)
            now = location.find()
            if not is_conflict or now is None or now.version() == version:
                # The table has not changed, so a retry would be rejected too.
                raise
            last = refused
    raise SinkError(
        f"the rows of checkpoint {transaction.checkpoint_id} could not be committed to {location.path}: {_TRIES} times"
        f" other writers committed first, the last time with {last}"
    ) from last


def is_recorded(table: DeltaTable | None, transaction: Transaction) -> bool:
    recorded = None if table is None else table.transaction_version(transaction.writer)
    return recorded is not None and recorded >= transaction.checkpoint_id


def recording(transaction: Transaction, *, removes: bool = False) -> CommitProperties:
    """Return properties that record the checkpoint. A commit that `removes` files is not rebased on other commits:
    delta-rs does not detect that a compaction has already removed one of them, whose rows would be there twice.
    """
    from deltalake import CommitProperties, Transaction

    recorded = [Transaction(transaction.writer, transaction.checkpoint_id)]
    return CommitProperties(app_transactions=recorded, max_commit_retries=0 if removes else None)


def sync_commits(location: TableLocation, transaction: Transaction, versions: Iterable[int]) -> None:
    """Make commits and their added files durable, up to the commit of the transaction or the first missing version.

    delta-rs syncs neither the files of its log nor the files that a merge writes. Raises `OSError`.
    """
    if not transaction.fsync or not is_local(location.path):
        return
    data: list[str] = []
    log: list[str] = []
    for version in versions:
        try:
            lines = read_bytes(location.commit(version)).splitlines()
        except FileNotFoundError:
            break
        entries = [json.loads(line) for line in lines if line.strip()]
        data += [f"{location.path}/{plain(entry['add']['path'])}" for entry in entries if "add" in entry]
        log += [location.commit(version), f"{location.path}/{LOG}/{version:020d}.checkpoint.parquet"]
        if any(_is_of(entry, transaction) for entry in entries):
            break
    sync_files(data)
    transaction.sync_names({location.path, *(path.rpartition("/")[0] for path in data)})
    sync_files([*log, f"{location.path}/{LOG}/_last_checkpoint"])
    transaction.sync_names([f"{location.path}/{LOG}"])


def _is_of(entry: dict[str, Any], transaction: Transaction) -> bool:
    recorded = entry.get("txn")
    return (
        recorded is not None
        and recorded["appId"] == transaction.writer
        and recorded["version"] >= transaction.checkpoint_id
    )
