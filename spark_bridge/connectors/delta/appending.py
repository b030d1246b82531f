"""Publishes staged files: they are moved into the folder of the table, and the log is told of them in one commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from flykka.spark_bridge.connectors.delta.added_files import FileNumbers, added, now_ms, numbers_in
from flykka.spark_bridge.connectors.delta.columns import columns_of, delta_schema, new_columns
from flykka.spark_bridge.connectors.delta.commits import commit_once, noting
from flykka.spark_bridge.connectors.delta.evolution import fitted, schema_of
from flykka.spark_bridge.connectors.delta.log import plain, text_of
from flykka.spark_bridge.connectors.delta.staged_files import StagedFile, StagedFiles
from flykka.spark_bridge.errors import SinkError

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction
    from pyspark.sql.types import StructType

    from flykka.spark_bridge.connectors.delta.table import TableLocation
    from flykka.spark_bridge.connectors.transactional import Transaction


@dataclass(slots=True, kw_only=True)
class Append:
    """The staged files of one transaction, added to a table; `replaces`: instead of what is in their partitions."""

    location: TableLocation
    transaction: Transaction
    partition_by: tuple[str, ...]
    merges_schema: bool
    replaces: bool
    _moved: list[tuple[StagedFile, FileNumbers]] | None = field(default=None, init=False)

    def publish(self) -> None:
        """Add them, unless that was done. Raises `SinkError` where the table does not take them."""
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
        files = self._in_the_table(table)
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
            commit_properties=noting(self.transaction),
        )

    def _create(self, rows: StructType, actions: list[AddAction]) -> None:
        from deltalake.transaction import create_table_with_add_actions

        create_table_with_add_actions(
            self.location.uri,
            delta_schema(rows),
            actions,
            partition_by=list(self.partition_by),
            storage_options=self.location.storage_options,
            commit_properties=noting(self.transaction),
        )

    def _in_the_table(self, table: DeltaTable | None) -> list[tuple[StagedFile, FileNumbers]]:
        """Move the files, and return them; a second try of the commit finds them moved."""
        if self._moved is None:
            staged = StagedFiles(self.transaction, self.location.path)
            files = staged.listed()
            found = [(file, numbers_in(staged.place(file))) for file in files]
            if table is not None:
                _check_nulls(columns_of(table), found, self.location.path)
            staged.move(files)
            self._moved = found
        return self._moved

    def _replaced(self, table: DeltaTable, files: Sequence[tuple[StagedFile, FileNumbers]]) -> Iterator[RemoveAction]:
        from deltalake.transaction import RemoveAction

        touched = {_values(file.partition, self.partition_by) for file, _ in files}
        for entry in pa.table(table.get_add_actions()).select(["path", "size_bytes", "partition"]).to_pylist():
            partition = {name: text_of(value) for name, value in entry["partition"].items()}
            if _values(partition, self.partition_by) in touched:
                yield RemoveAction(
                    path=plain(entry["path"]),
                    data_change=True,
                    deletion_timestamp=now_ms(),
                    size=entry["size_bytes"],
                    partition_values=partition,
                )


def _values(partition: Mapping[str, str | None], columns: Sequence[str]) -> tuple[str | None, ...]:
    return tuple(partition[column] for column in columns)


def _check_nulls(table: StructType, files: Sequence[tuple[StagedFile, FileNumbers]], path: str) -> None:
    """Raise `SinkError` where a column of the files has nulls that must have none in the table."""
    required = [field.name for field in table if not field.nullable]
    for file, numbers in files:
        for name in required:
            nulls = numbers.nulls.get(name, 0) if name not in file.partition else file.partition[name] is None
            if nulls:
                raise SinkError(f"rows cannot be written to {path}: the column {name!r} must not be null in the table")
