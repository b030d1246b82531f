"""Writes rows as files into a new folder, which is used or discarded as a whole, and reads them."""

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
    # The folder is read only once it is complete: neither a second rename nor a marker is needed.
    ("mapreduce.fileoutputcommitter.algorithm.version", "2"),
    ("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false"),
)


_PATTERN = frozenset("{}[]*?\\")

_RUN_FILES = 128
_RUN_BYTES = 8 * 1024**2
"""Files with more bytes than this are read and sorted faster by several tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout:
    """The layout of files: the format, the options of Spark's writer, and the partition columns."""

    format: FileFormat = "parquet"
    options: Options = ()
    partition_by: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.format + (f" partitioned by {', '.join(self.partition_by)}" if self.partition_by else "")


PARQUET = FileLayout()


def read_parquet(
    session: SparkSession, paths: Sequence[str], schema: StructType | None = None, **options: str
) -> DataFrame:
    """Return the rows of files, or of folders written by `write_files`: all of them, or an error."""
    # Whatever the application has configured for its own reading, no row may be left out.
    reader = session.read.format("parquet").options(ignoreMissingFiles=False, ignoreCorruptFiles=False, **options)
    return rows_at(reader if schema is None else reader.schema(schema), paths)


def rows_at(reader: DataFrameReader, paths: Sequence[str]) -> DataFrame:
    """Read paths literally, not as patterns: a bracket in a name is a bracket.

    Without pattern matching, Spark 4 reads all given paths once for each path that looks like a pattern. So each such
    path is read separately.
    """
    reader = reader.option("__globPaths__", "false")
    alone = [path for path in paths if _PATTERN.intersection(path)]
    others = [path for path in paths if not _PATTERN.intersection(path)]
    return together([reader.load(some) for some in ([others] if others else []) + [[path] for path in alone]])


def read_in_order(scan: Callable[[Sequence[str]], DataFrame], paths: Sequence[str]) -> DataFrame:
    """Read whole files so that their rows are in the order of `paths` and, in each file, in that of the file.

    A scan of several files begins with the largest, so few files at a time are scanned and sorted in one partition. A
    scan of one file is in order, also if it is cut.
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
    # Split by Spark, one text is a constant too, and takes fewer calls than a constant of each path.
    uris = F.split(F.lit("\n".join(map(filesystem.uri, paths))), "\n")
    unknown = F.raise_error(F.concat(F.lit("Spark has read an unexpected file: "), file["file_path"]))
    place = F.coalesce(F.nullif(F.array_position(uris, file["file_path"]), F.lit(0)), unknown)
    # Rows are read in the order of the file, but the parts of one that is cut may come in any.
    return rows.sortWithinPartitions(place, file["file_block_start"], F.monotonically_increasing_id())


def write_files(
    filesystem: FileSystem, rows: DataFrame, folder: str, layout: FileLayout = PARQUET
) -> tuple[FileStatus, ...]:
    """Write rows into a new folder with one Spark job; return the files. Errors get a note with the folder."""
    writer = rows.write.mode("error").options(**dict(layout.options)).options(**dict(_COMMITTER))
    try:
        writer.partitionBy(*layout.partition_by).format(SPARK_FORMATS[layout.format].data_source).save(folder)
    except Exception as raised:
        # Spark does not report where a disk is full.
        raised.add_note(f"written was to {folder}")
        raise
    return tuple(filesystem.files_below(folder))


def write_checkpoint_files(filesystem: FileSystem, rows: DataFrame, folder: str) -> tuple[FileStatus, ...]:
    """Write files as `write_files` does; on a local file system with the permissions of the checkpoint's folder.

    Spark's JVM creates files with Hadoop's umask. Until then the parent folder keeps other users out.
    """
    local = filesystem.local(folder)
    if local is not None:
        make_inheriting_folder(os.path.dirname(local))
    files = write_files(filesystem, rows, folder)
    if local is not None:
        inherit_permissions(local)
    return files
