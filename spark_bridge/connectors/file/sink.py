"""FileSink: files that appear exactly once, when the checkpoint that holds them is complete."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Self

from flykka.actors.checkpoint_storage.file_digests import sync_files
from flykka.actors.checkpoint_storage.file_names import in_a_name
from flykka.runtime.memory_size import MemorySize, positive_size_bytes
from flykka.runtime.secrets import masked_uri
from flykka.spark_bridge.connectors.file.published_files import published_files
from flykka.spark_bridge.connectors.file.writer import STAGING, FileWriter
from flykka.spark_bridge.connectors.staging import check_staging, sync_names
from flykka.spark_bridge.connectors.written_columns import check_written
from flykka.spark_bridge.errors import SinkError
from flykka.spark_bridge.program.sink import PublishedFiles, Sink, SinkContext
from flykka.spark_bridge.rows.file_formats import FileFormat
from flykka.spark_bridge.rows.files import FileLayout
from flykka.spark_bridge.rows.filesystem import FileSystem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flykka.messages.wire.ids import JobId

OptionValue = str | int | float | bool

_ROWS_PER_FILE = "maxRecordsPerFile"
SUCCESS = "_SUCCESS"
"""As Spark and Hadoop call the file that says that a folder is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSink(Sink):
    """A folder to write to, whose readers see the rows of completed checkpoints, at every moment, and no others.

    Made by the names of formats, such as `parquet`; the other methods return changed copies. The folder may hold files
    already, and others may write to it: nothing is overwritten, and nothing deleted but what the job itself has staged,
    in `.flykka-staging` below the folder. Sinks of one job may share a folder if they write one format, partitioned by
    the same columns.
    """

    path: str
    layout: FileLayout
    files_limit: int | None = None
    file_size_bytes: int | None = None
    marks_success: bool = False

    @classmethod
    def parquet(cls, path: str | PathLike[str], **options: OptionValue) -> Self:
        """Parquet files in a folder; options are those of Spark's writer: `parquet(path, compression="zstd")`."""
        return cls._of("parquet", path, options)

    @classmethod
    def orc(cls, path: str | PathLike[str], **options: OptionValue) -> Self:
        """Files of orc in a folder; options are those of Spark's writer: `orc(path, compression="zlib")`."""
        return cls._of("orc", path, options)

    @classmethod
    def avro(cls, path: str | PathLike[str], **options: OptionValue) -> Self:
        """Files of avro in a folder; options are those of Spark's writer: `avro(path, recordName="order")`."""
        return cls._of("avro", path, options)

    @classmethod
    def text(cls, path: str | PathLike[str], **options: OptionValue) -> Self:
        """Files of text: rows have one column beside those that they are partitioned by, and each is a line."""
        return cls._of("text", path, options)

    @classmethod
    def json(cls, path: str | PathLike[str], **options: OptionValue) -> Self:
        """Files of json, an object a line; options are those of Spark's writer: `json(path, compression="gzip")`."""
        return cls._of("json", path, options)

    @classmethod
    def csv(cls, path: str | PathLike[str], **options: OptionValue) -> Self:
        """Files of csv; options are those of Spark's writer: `csv(path, header=True, sep=";")`."""
        return cls._of("csv", path, options)

    @classmethod
    def _of(cls, file_format: FileFormat, path: str | PathLike[str], options: dict[str, OptionValue]) -> Self:
        if not str(path):
            raise ValueError("a FileSink needs the path of a folder, and got an empty text")
        return cls(path=str(path), layout=FileLayout(format=file_format)).options(**options)

    def partition_by(self, *columns: str) -> Self:
        """Write the rows that agree in these columns to folders of their own, `<column>=<value>/`, as Spark does.

        The columns are in the names of the folders, and not in the files. Raises `TypeError` for what is no name.
        """
        if strange := [column for column in columns if not isinstance(column, str)]:
            raise TypeError(f"partition_by takes names of columns, not {strange[0]!r}")
        return replace(self, layout=replace(self.layout, partition_by=columns))

    def option(self, key: str, value: OptionValue) -> Self:
        """Set an option of Spark's writer, as `DataFrameWriter.option` does."""
        return self.options(**{key: value})

    def options(self, **options: OptionValue) -> Self:
        """Set options of Spark's writer. Spark does not look at the case of their names, and takes the last word.

        Raises:
            ValueError: an option is to say where the files go.
        """
        given = {key.lower() for key in options}
        if "path" in given:
            raise ValueError(f"the option 'path' does not apply: this FileSink writes to {self.path}")
        kept = tuple((key, value) for key, value in self.layout.options if key.lower() not in given)
        added = tuple((key, _text(value)) for key, value in options.items())
        return replace(self, layout=replace(self.layout, options=kept + added))

    def rows_per_file(self, rows: int) -> Self:
        """Begin another file after this many rows. Raises `ValueError` below 1."""
        return self.option(_ROWS_PER_FILE, _positive(rows, "rows per file"))

    def files_per_checkpoint(self, files: int) -> Self:
        """Make no more files than this of a checkpoint in each subtask, and in each partition where it is partitioned.

        Else every batch makes files of its own. Rows are written twice for it: as parquet when they come, and as what
        they are to be when the checkpoint is taken, which takes that much longer. Raises `ValueError` below 1.
        """
        return replace(self, files_limit=_positive(files, "files per checkpoint"))

    def file_size(self, size: MemorySize) -> Self:
        """Make files of about this size (`"128MB"`, or bytes) of a checkpoint, and one of less.

        Small batches are put together, and the rows of large ones go to several files: as with `files_per_checkpoint`,
        which may limit them besides, in each subtask, and with the same price. It is the size as parquet that counts.
        Raises `ValueError` where the size cannot be read.
        """
        return replace(self, file_size_bytes=positive_size_bytes(size, "the file size"))

    def mark_success(self) -> Self:
        """Put an empty file `_SUCCESS` into the folder when the job has read all of its input and published its rows.

        As Spark's own writers do. A `FileSource` that monitors the folder ends with it. A job that is stopped, and may
        be continued, does not put it there.
        """
        return replace(self, marks_success=True)

    @property
    def format(self) -> FileFormat:
        """The format of the files."""
        return self.layout.format

    @property
    def read_as(self) -> str:
        """Format and partitions: Spark reads a folder in one way."""
        return str(self.layout)

    def writer(self, context: SinkContext) -> FileWriter:
        """Make the writer of one attempt, which stages and publishes files."""
        return FileWriter(
            context, self.path, self.layout, files_limit=self.files_limit, file_size_bytes=self.file_size_bytes
        )

    def bound(self, session: SparkSession) -> Self:
        """With an absolute path."""
        return replace(self, path=FileSystem(session).absolute(self.path))

    def check_rows(self, prototype: DataFrame) -> None:
        """Raise `PrototypeError` where the columns, the partitions or the options do not fit."""
        check_written(prototype, self.layout)

    def check_target(self, filesystem: FileSystem) -> None:
        """Raise `SinkError` where the path is a file, or no folder can be made in it."""
        if filesystem.exists(self.path) and not filesystem.is_folder(self.path):
            raise SinkError(f"{self.path} is a file; a FileSink writes into a folder: give the path of one")
        check_staging(filesystem, self.path, STAGING)

    def target(self, filesystem: FileSystem) -> str:
        """The folder, with its scheme."""
        return filesystem.qualified(self.path)

    def published_files(self, filesystem: FileSystem, job_name: str) -> PublishedFiles:
        """The files in the folder and its partitions, by who has published them."""
        if not filesystem.is_folder(self.path):
            # Where it is a file, `check_target` says so.
            return PublishedFiles(folder=self.path)
        found = published_files(self.path, filesystem.paths_below(self.path), job_name)
        staging = filesystem.list(f"{self.path}/{STAGING}")
        return replace(found, staging=tuple(status.name for status in staging))

    def unpublish(self, filesystem: FileSystem, published: PublishedFiles) -> None:
        """Delete the job's files, the partitions that are empty behind them, and what marks the folder as complete."""
        for path in published.own:
            filesystem.delete(path)
        if self.layout.partition_by:
            for folder in sorted({path.rsplit("/", 1)[0] for path in published.own}):
                filesystem.delete_if_empty(folder)
        if self.marks_success:
            filesystem.delete(f"{self.path}/{SUCCESS}")

    def finalize_global(self, filesystem: FileSystem) -> None:
        """Mark the folder as complete, where that is wanted."""
        if self.marks_success:
            folder = filesystem.qualified(self.path)
            filesystem.write(f"{folder}/{SUCCESS}", b"")
            sync_files([f"{folder}/{SUCCESS}"])
            sync_names([folder])

    def staging_folder(self, job_id: JobId, checkpoint_directory: str) -> str:
        """Below the folder itself, for a rename must not leave the file system."""
        return f"{self.path}/{STAGING}/{in_a_name(job_id)}"

    def __str__(self) -> str:
        return f"{self.format} {masked_uri(self.path)}"


def _text(value: OptionValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _positive(number: int, what: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ValueError(f"{what} must be a whole number from 1, not {number!r}")
    return number
