"""The files from which a source of parquet takes its columns: those of one folder must not be silently those of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow

from flykka.spark_bridge.connectors.file.footers import footer
from flykka.spark_bridge.connectors.file.formats import merges_schemas
from flykka.spark_bridge.diagnosis.unreadable import plain_path
from flykka.spark_bridge.errors import FileSchemaError

if TYPE_CHECKING:
    from flykka.spark_bridge.connectors.file.object_store import ObjectStore
    from flykka.spark_bridge.connectors.file.source_settings import FileSourceSettings
    from flykka.spark_bridge.rows.filesystem import FileSystem


def files_with_columns(source: FileSourceSettings, filesystem: FileSystem | ObjectStore) -> dict[str, str]:
    """Paths of files by their names below the source: of all with mergeSchema, else of the first in each folder."""
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
    """The columns of all files together.

    Raises:
        FileSchemaError: they differ, in name or with mergeSchema in type; the text names two files.
        UnreadableFileError: a file is not parquet.
    """
    together: pyarrow.Schema | None = None
    for path in paths:
        found = footer(path, None, filesystem.open).schema
        if found is None:
            continue
        together = found if together is None else together
        if merges_schemas(source.reader_options):
            together = _united(together, found, path)
        elif odd := sorted({*map(str.lower, found.names)} ^ {*map(str.lower, together.names)}):
            has, lacks = (path, paths[0]) if odd[0] in map(str.lower, found.names) else (paths[0], path)
            raise FileSchemaError(
                f"{plain_path(has)} has a column {odd[0]!r}, and {plain_path(lacks)} has none: declare the columns of"
                f" {source} with schema=..., or read those of all files with mergeSchema=True"
            )
    return pyarrow.schema([]) if together is None else together


def _united(together: pyarrow.Schema, found: pyarrow.Schema, path: str) -> pyarrow.Schema:
    try:
        return pyarrow.unify_schemas([together, found])
    except pyarrow.ArrowException as differ:
        raise FileSchemaError(f"{plain_path(path)} does not fit the files before it: {differ}") from differ
