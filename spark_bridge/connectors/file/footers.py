"""Footers of parquet files: row count, latest event time, and columns, without reading rows.

If a source infers its columns, the columns of one folder's files must not be silently assumed for all files. Declared
columns are checked against each file, because Spark would read missing columns as nulls, and detect a wrong type only
when rows are read. Only types that Spark cannot read are rejected: a file may have narrower numbers, or timestamps of
either type.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow
from pyarrow import parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type

from flykka.spark_bridge.connectors.file.formats import merges_schemas
from flykka.spark_bridge.diagnosis.unreadable import plain_path
from flykka.spark_bridge.errors import FileSchemaError, UnreadableFileError
from flykka.spark_bridge.functions.times import millis_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from flykka.spark_bridge.connectors.file.object_store import ObjectStore
    from flykka.spark_bridge.connectors.file.source_settings import FileSourceSettings
    from flykka.spark_bridge.rows.filesystem import FileSystem


_TIMESTAMP = pyarrow.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """`event_time_max` is in ms, None if the statistics lack it. `schema` is None if Arrow does not know the type of a
    column, which Spark may know.
    """

    rows: int
    event_time_max: int | None
    schema: pyarrow.Schema | None


def footer(path: str, event_time: str | None, open_file: Callable[[str], Any]) -> Footer:
    """Read the footer of a file. Raises `UnreadableFileError`, which names the file, if it is not parquet."""
    try:
        with open_file(path) as file:
            metadata = pq.read_metadata(file)
    except (pyarrow.ArrowException, OSError) as broken:
        raise UnreadableFileError(f"cannot read {plain_path(path)} as parquet: {broken}") from broken
    latest = None if event_time is None else _latest(metadata, event_time)
    return Footer(rows=metadata.num_rows, event_time_max=latest, schema=_schema(metadata.schema))


def _schema(parquet: Any) -> pyarrow.Schema | None:
    try:
        arrow_schema = parquet.to_arrow_schema()
    except pyarrow.ArrowException:
        return None
    old = {column.path for column in map(parquet.column, range(len(parquet))) if column.physical_type == "INT96"}
    # Arrow reads old timestamps as nanoseconds, but Spark writes and reads them as microseconds.
    fields = (field.with_type(_TIMESTAMP) if field.name in old else field for field in arrow_schema)
    return pyarrow.schema(fields) if old else arrow_schema


def _latest(metadata: Any, column: str) -> int | None:
    """Return the maximum over the row groups; None if a row group has no statistics, like old timestamps (INT96)."""
    latest: int | None = None
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        chunks = (row_group.column(place) for place in range(row_group.num_columns))
        chunk = next((chunk for chunk in chunks if chunk.path_in_schema == column), None)
        statistics = None if chunk is None else chunk.statistics
        if statistics is None or not statistics.has_min_max or not isinstance(statistics.max, datetime):
            return None
        in_ms = millis_of(statistics.max)
        latest = in_ms if latest is None else max(latest, in_ms)
    return latest


def files_with_columns(source: FileSourceSettings, filesystem: FileSystem | ObjectStore) -> dict[str, str]:
    """Return paths of files by names relative to the source: all with mergeSchema, else the first file in each
    folder.
    """
    root = filesystem.qualified(source.path)
    if not filesystem.is_folder(root):
        return {root.rpartition("/")[2]: root}
    files = {path.removeprefix(root).lstrip("/"): path for path in filesystem.paths_below(root)}
    files = {name: path for name, path in files.items() if name != source.until}
    if merges_schemas(source.reader_options):
        return files
    first = {name.rpartition("/")[0]: name for name in reversed(files)}
    return {name: files[name] for name in sorted(first.values())}


def checked_columns(
    source: FileSourceSettings, filesystem: FileSystem | ObjectStore, paths: list[str]
) -> pyarrow.Schema:
    """Return the columns of all files together.

    Raises:
        FileSchemaError: columns differ, in name or with mergeSchema in type; the message names two files.
        UnreadableFileError: a file is not parquet.
    """
    together: pyarrow.Schema | None = None
    for path in paths:
        file_schema = footer(path, None, filesystem.open).schema
        if file_schema is None:
            continue
        together = file_schema if together is None else together
        if merges_schemas(source.reader_options):
            together = _united(together, file_schema, path)
        elif odd := sorted({*map(str.lower, file_schema.names)} ^ {*map(str.lower, together.names)}):
            has, lacks = (path, paths[0]) if odd[0] in map(str.lower, file_schema.names) else (paths[0], path)
            raise FileSchemaError(
                f"{plain_path(has)} has a column {odd[0]!r}, and {plain_path(lacks)} has none: declare the columns of"
                f" {source} with schema=..., or read those of all files with mergeSchema=True"
            )
    return pyarrow.schema([]) if together is None else together


def _united(together: pyarrow.Schema, other: pyarrow.Schema, path: str) -> pyarrow.Schema:
    try:
        return pyarrow.unify_schemas([together, other])
    except pyarrow.ArrowException as differ:
        raise FileSchemaError(f"{plain_path(path)} does not fit the files before it: {differ}") from differ


_INTEGERS = frozenset({"tinyint", "smallint", "int"})
_TEXTS = frozenset({"string", "binary"})
_TIMESTAMPS = frozenset({"timestamp", "timestamp_ntz"})
_READABLE_AS = {
    "boolean": frozenset({"boolean"}),
    "tinyint": _INTEGERS,
    "smallint": _INTEGERS,
    "int": _INTEGERS,
    "bigint": _INTEGERS | {"bigint"},
    "float": frozenset({"float"}),
    "double": _INTEGERS | {"float", "double"},
    "decimal": _INTEGERS | {"bigint", "decimal"},
    "string": _TEXTS,
    "binary": _TEXTS,
    "date": frozenset({"date"}),
    "timestamp": _TIMESTAMPS,
    "timestamp_ntz": _TIMESTAMPS | {"date"},
    "array": frozenset({"array"}),
    "map": frozenset({"map"}),
    "struct": frozenset({"struct"}),
}


def schema_mismatch(
    declared: StructType, file_schema: pyarrow.Schema, *, elsewhere: Set[str] = frozenset(), may_lack: bool = False
) -> str | None:
    """Describe the first column that does not fit; None if all columns fit.

    `elsewhere` are the columns, in lower case, that the names of folders contain. With `may_lack`, files may have
    different columns.
    """
    types = {field.name.lower(): field.type for field in file_schema}
    for column in declared:
        if column.name.lower() in elsewhere:
            continue
        expected = column.dataType.simpleString()
        if column.name.lower() not in types:
            if may_lack:
                continue
            columns = ", ".join(file_schema.names)
            return (
                f"it has no column {column.name!r} (expected {expected}); its columns are {columns}; with the option"
                " mergeSchema=True missing columns are read as nulls"
            )
        there = types[column.name.lower()]
        if pyarrow.types.is_timestamp(there) and there.unit == "ns" and expected in _TIMESTAMPS:
            return f"its column {column.name!r} has nanoseconds, which Spark does not read: write it in microseconds"
        name = _spark_name(there)
        readable = _READABLE_AS.get(_kind(expected))
        if readable is not None and name is not None and _kind(name) not in readable:
            return f"its column {column.name!r} is of type {name}, not {expected}"
    return None


def _spark_name(there: pyarrow.DataType) -> str | None:
    """Return Spark's name of a type; None if only Spark can determine whether it can read the type."""
    if pyarrow.types.is_null(there):
        return None
    try:
        return from_arrow_type(there, prefer_timestamp_ntz=True).simpleString()
    except PySparkException:
        return None


def _kind(name: str) -> str:
    """Return the type's name without parameters: `decimal` for `decimal(10,2)`, but `string` for `varchar(3)`."""
    kind = name.partition("(")[0].partition("<")[0]
    return "string" if kind in {"char", "varchar"} else kind
