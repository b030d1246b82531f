"""Writes rows as files into a new folder, which is used or discarded as a unit, and reads them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from flykka.runtime.permissions import inherit_permissions, make_inheriting_folder
from flykka.spark_bridge.rows.file_formats import SPARK_FORMATS, FileFormat
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.rows.materialise import together

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

    from flykka.spark_bridge.rows.filesystem import FileStatus

Options = tuple[tuple[str, str], ...]

_COMMITTER: Options = (
    # The folder is read only when it is complete, so neither a second rename nor a marker file is needed.
    ("mapreduce.fileoutputcommitter.algorithm.version", "2"),
    ("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false"),
)


_PATTERN = frozenset("{}[]*?\\")

_RUN_FILES = 128
_RUN_BYTES = 8 * 1024**2
"""Minimum size in bytes of files that several tasks read and sort faster than one task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout:
    format: FileFormat = "parquet"
    options: Options = ()
    partition_by: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.format + (f" partitioned by {', '.join(self.partition_by)}" if self.partition_by else "")


PARQUET = FileLayout()


def read_parquet(
    session: SparkSession, paths: Sequence[str], schema: StructType | None = None, **options: str
) -> DataFrame:
    # No row may be skipped, whatever the application has configured for its own reads.
    reader = session.read.format("parquet").options(ignoreMissingFiles=False, ignoreCorruptFiles=False, **options)
    return rows_at(reader if schema is None else reader.schema(schema), paths)


def rows_at(reader: DataFrameReader, paths: Sequence[str]) -> DataFrame:
    """Read paths literally: a bracket in a name is not a pattern.

    Without pattern matching, Spark 4 reads all given paths once for each path that looks like a pattern. So each such
    path is read separately.
    """
    reader = reader.option("__globPaths__", "false")
    alone = [path for path in paths if _PATTERN.intersection(path)]
    others = [path for path in paths if not _PATTERN.intersection(path)]
    return together([reader.load(some) for some in ([others] if others else []) + [[path] for path in alone]])


def read_in_order(scan: Callable[[Sequence[str]], DataFrame], paths: Sequence[str]) -> DataFrame:
    """Read files completely, in the order of `paths` and, within each file, in the file's order.

    A scan of several files begins with the largest file. So a few files at a time are scanned and sorted in one
    partition. A scan of one file is in order, even if the file is split.
    """
    return together(list(_runs(scan, paths)))


def _runs(scan: Callable[[Sequence[str]], DataFrame], paths: Sequence[str]) -> Iterator[DataFrame]:
    if len(paths) == 1:
        yield scan(paths)
        return
    if len(paths) <= _RUN_FILES and not any(_PATTERN.intersection(path) for path in paths):
        rows = scan(paths)
        if int(rows._jdf.queryExecution().analyzed().stats().sizeInBytes()) <= _RUN_BYTES:
            yield _sorted_by_file(rows.coalesce(1), paths)
            return
    middle = len(paths) // 2
    yield from _runs(scan, paths[:middle])
    yield from _runs(scan, paths[middle:])


def _sorted_by_file(rows: DataFrame, paths: Sequence[str]) -> DataFrame:
    file, filesystem = rows.metadataColumn("_metadata"), FileSystem(rows.sparkSession)
    # A text that Spark splits is a constant too, but needs fewer calls than a constant for each path.
    uris = F.split(F.lit("\n".join(map(filesystem.uri, paths))), "\n")
    unknown = F.raise_error(F.concat(F.lit("Spark has read an unexpected file: "), file["file_path"]))
    place = F.coalesce(F.nullif(F.array_position(uris, file["file_path"]), F.lit(0)), unknown)
    # Rows of a file split are in the file's order, but the splits of a file may arrive in any order.
    return rows.sortWithinPartitions(place, file["file_block_start"], F.monotonically_increasing_id())


def write_files(
    filesystem: FileSystem, rows: DataFrame, folder: str, layout: FileLayout = PARQUET
) -> tuple[FileStatus, ...]:
    """Write rows into a new folder with one Spark job, and return the files. Errors get a note with the folder."""
    writer = rows.write.mode("error").options(**dict(layout.options)).options(**dict(_COMMITTER))
    try:
        writer.partitionBy(*layout.partition_by).format(SPARK_FORMATS[layout.format].data_source).save(folder)
    except Exception as raised:
        # Spark does not report which disk is full.
        raised.add_note(f"written was to {folder}")
        raise
    return tuple(filesystem.files_below(folder))


def write_checkpoint_files(filesystem: FileSystem, rows: DataFrame, folder: str) -> tuple[FileStatus, ...]:
    """Write files like `write_files`; on a local file system with the permissions of the checkpoint's folder.

    Spark's JVM creates files with Hadoop's umask. Until the permissions are set, the parent folder denies access to
    others.
    """
    local = filesystem.local(folder)
    if local is not None:
        make_inheriting_folder(os.path.dirname(local))
    files = write_files(filesystem, rows, folder)
    if local is not None:
        inherit_permissions(local)
    return files
