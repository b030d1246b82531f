"""The location of a Delta table: opened with delta-rs, and checked for features that Spark's files do not support.

Spark writes and reads the files, and delta-rs the log. So a table is rejected if its files must have more than columns:
column names that differ from those in the files, rows deleted separately from the files, or values that are computed or
checked when rows are written.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flykka.runtime.secrets import remember_secrets
from flykka.spark_bridge.connectors.connector import require

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from flykka.spark_bridge.rows.filesystem import FileSystem

StorageOptions = tuple[tuple[str, str], ...]

LOG = "_delta_log"

_READ = frozenset({"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Features that do not affect files, or that a table may have without using them."""
_WRITTEN = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "columnMapping",
        "deletionVectors",
        "generatedColumns",
        "invariants",
        "timestampNtz",
        "v2Checkpoint",
    }
)
"""Features of tables to which delta-rs can commit, and which do not affect files."""

_COLUMN_MAPPING = "delta.columnMapping.mode"
_CONSTRAINT = "delta.constraints."
_OF_COLUMNS = {
    "delta.generationExpression": "generated columns",
    "delta.identity.start": "identity columns",
    "delta.invariants": "invariants",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """Features, properties, and columns (as JSON, if known) of a table, which determine how it can be used."""

    reader_features: Collection[str]
    writer_features: Collection[str]
    properties: Mapping[str, str]
    columns: Mapping[str, Any] | None

    def unreadable(self) -> str | None:
        if self.properties.get(_COLUMN_MAPPING, "none") != "none":
            return "column mapping"
        return next(iter(sorted(set(self.reader_features) - _READ)), None)

    def unwritable(self) -> str | None:
        if self.properties.get(_COLUMN_MAPPING, "none") != "none":
            return "column mapping"
        if checks := sorted(key for key in self.properties if key.startswith(_CONSTRAINT)):
            return f"the check constraint {checks[0].removeprefix(_CONSTRAINT)}"
        for column in (self.columns or {"fields": ()})["fields"]:
            for key in sorted(_OF_COLUMNS.keys() & column["metadata"].keys()):
                return f"{_OF_COLUMNS[key]}, such as {column['name']}"
        return next(iter(sorted({*self.reader_features, *self.writer_features} - _WRITTEN)), None)


@dataclass(frozen=True, slots=True)
class TableLocation:
    """The path of a table for Spark, its URI for delta-rs, and delta-rs's options for the storage."""

    path: str
    uri: str
    options: StorageOptions = field(default=(), repr=False)

    @classmethod
    def of(cls, path: str, options: StorageOptions, filesystem: FileSystem) -> TableLocation:
        return cls(path, filesystem.local(path) or path, options)

    @property
    def storage_options(self) -> dict[str, str] | None:
        return dict(self.options) or None

    def open(self, version: int | None = None) -> DeltaTable:
        from deltalake import DeltaTable

        return DeltaTable(self.uri, version=version, storage_options=self.storage_options)

    def find(self) -> DeltaTable | None:
        from deltalake.exceptions import TableNotFoundError

        try:
            return self.open()
        except TableNotFoundError:
            return None

    def commit(self, version: int) -> str:
        return f"{self.path}/{LOG}/{version:020d}.json"


def checked_options(options: Mapping[str, object], what: str) -> StorageOptions:
    require("deltalake", extra="delta", what=what)
    remember_secrets(options)
    return tuple(sorted((key, str(value)) for key, value in options.items()))


def facts_of(table: DeltaTable) -> TableFacts:
    protocol = table.protocol()
    return TableFacts(
        reader_features=protocol.reader_features or (),
        writer_features=protocol.writer_features or (),
        properties=table.metadata().configuration,
        columns=json.loads(table.schema().to_json()),
    )


def has_deletion_vectors(table: DeltaTable) -> bool:
    """Return True if some rows of the version are deleted, but still contained in their files."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return False
    return any(batch.num_rows for batch in table.deletion_vectors())
