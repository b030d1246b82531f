"""FileSource: reads the files of a folder, in batches of several files or of a range of rows of one file.

A split is one file, and the reader combines waiting splits to batches that take about a second. If the user sets a
batch size, discovery groups the files, and a split is one batch. With `monitor_continuously` a batch contains the files
that exist, and never waits for more. Files must not change, so a file must get its final name only when it is complete.
Names that begin with `.` or `_` are ignored, as in Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.messages.tasks.source import FileBatchSplit, FileSplit, SourceSplit
from flykka.messages.wire.ids import SplitId
from flykka.runtime.durations import Duration, positive_duration_ms
from flykka.runtime.secrets import remember_secrets
from flykka.spark_bridge.connectors.file.footers import checked_columns, files_with_columns
from flykka.spark_bridge.connectors.file.formats import (
    AVRO,
    CSV,
    JSON,
    ORC,
    PARQUET,
    TEXT,
    OptionValue,
    ReadFormat,
    checked_options,
    merged,
    merges_schemas,
)
from flykka.spark_bridge.connectors.file.object_reading import check_readable, read_objects, schema_of_objects
from flykka.spark_bridge.connectors.file.object_store import ObjectStore
from flykka.spark_bridge.connectors.file.source_settings import FileSourceSettings, Until
from flykka.spark_bridge.connectors.file.split_discovery import FileSplitDiscovery
from flykka.spark_bridge.connectors.written_columns import check_file_types, check_known
from flykka.spark_bridge.diagnosis.unreadable import reason
from flykka.spark_bridge.errors import EmptySourceError, SourceError, SourceNotFoundError, UnreadableFileError
from flykka.spark_bridge.program.prototype import check_types, declared_columns
from flykka.spark_bridge.program.source import Boundedness, Source, SplitNumbers, positive, split_of
from flykka.spark_bridge.rows.file_formats import SPARK_FORMATS, FileFormat
from flykka.spark_bridge.rows.files import read_in_order, rows_at
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.rows.type_support import Use

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

    from flykka.messages.wire.ids import OperatorId
    from flykka.spark_bridge.rows.materialise import Slices

_READ: Mapping[FileFormat, Use] = {"avro": Use.AVRO_READ, "json": Use.JSON}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource(FileSourceSettings, Source):
    """A source of files, with the size of its batches.

    Created by methods with the names of formats, such as `parquet`; the other methods return changed copies. `schema`
    is a StructType or DDL text; without it, the schema is inferred from the files that exist when the source is used in
    a program. `event_time` names the timestamp column with the event time of a row. Options are those of Spark's
    readers.
    """

    @classmethod
    def parquet(
        cls,
        path: str | PathLike[str],
        *,
        schema: StructType | str | None = None,
        event_time: str | None = None,
        **options: OptionValue,
    ) -> Self:
        """Read the parquet files in and below a folder, or one file.

        Every file must have all columns of the schema, with types that Spark can convert to the types of the schema.
        With `mergeSchema=True` files may have different columns, and missing columns are null.
        """
        return cls._of(PARQUET, path, schema, event_time, options)

    @classmethod
    def orc(
        cls,
        path: str | PathLike[str],
        *,
        schema: StructType | str | None = None,
        event_time: str | None = None,
        **options: OptionValue,
    ) -> Self:
        """Read the orc files in and below a folder, or one file. Columns that a file lacks are null."""
        return cls._of(ORC, path, schema, event_time, options)

    @classmethod
    def avro(
        cls,
        path: str | PathLike[str],
        *,
        schema: StructType | str | None = None,
        event_time: str | None = None,
        **options: OptionValue,
    ) -> Self:
        """Read the avro files in and below a folder, or one file. Columns that a file lacks are null."""
        return cls._of(AVRO, path, schema, event_time, options)

    @classmethod
    def text(cls, path: str | PathLike[str], **options: OptionValue) -> Self:
        """Read the lines of the files in and below a folder, or of one file, as rows with a column `value`.

        With `wholetext=True`, each file is one row.
        """
        return cls._of(TEXT, path, "value string", None, options)

    @classmethod
    def json(
        cls,
        path: str | PathLike[str],
        *,
        schema: StructType | str | None = None,
        event_time: str | None = None,
        **options: OptionValue,
    ) -> Self:
        """Read the json files in and below a folder, or one file: one object per line or, with `multiLine=True`, per
        file.

        A line that does not fit the schema fails the job, unless the option `mode` is set. Missing fields are null.
        Without a schema, all files are read once before the job.
        """
        return cls._of(JSON, path, schema, event_time, options)

    @classmethod
    def csv(
        cls,
        path: str | PathLike[str],
        *,
        schema: StructType | str | None = None,
        event_time: str | None = None,
        **options: OptionValue,
    ) -> Self:
        """Read the csv files in and below a folder, or one file: `csv(path, schema=..., header=True, sep=";")`.

        A line that does not fit the schema fails the job, unless the option `mode` is set. A header with other columns
        fails the job unless `enforceSchema` is true. Without a schema, all files are read once before the job.
        """
        return cls._of(CSV, path, schema, event_time, options)

    @classmethod
    def _of(
        cls,
        file_format: ReadFormat,
        path: str | PathLike[str],
        schema: StructType | str | None,
        event_time: str | None,
        options: Mapping[str, OptionValue],
    ) -> Self:
        checked = checked_options(options.items())
        return cls(
            file_format=file_format, path=str(path), schema=schema, event_time=event_time, reader_options=checked
        )

    def option(self, key: str, value: OptionValue) -> Self:
        """Set an option of Spark's reader, like `DataFrameReader.option`. Raises `ValueError` like `options`."""
        return self.options(**{key: value})

    def options(self, **options: OptionValue) -> Self:
        """Set options of Spark's reader.

        Raises:
            ValueError: Spark has no such `mode`, or an option selects files.
        """
        return replace(self, reader_options=(*self.reader_options, *checked_options(options.items())))

    def storage_options(self, **options: Any) -> Self:
        """Read the files of an object store with fsspec, with these options of its file system.

        `FileSource.parquet("s3://bucket/orders").storage_options(anon=True)` needs no jar: Spark's Python workers read
        parquet, and the lines of json, csv and text. A schema is required, except for parquet without partition
        folders.

        Raises:
            MissingExtraError: a package that fsspec needs for such a path is not installed.
            SourceError: fsspec does not support the path or an option.
        """
        # The names that fsspec uses for the credentials of S3 are `key` and `secret`.
        remember_secrets({**options, "path": self.path, "access key": options.get("key")})
        made = replace(self, storage=tuple(sorted(options.items())), watches=False)
        made.store.check_usable()
        return made

    def files_per_batch(self, files: int) -> Self:
        """Read at most this many files per batch. Raises `ValueError` for less than 1."""
        return replace(self, files_limit=positive(files, "files per batch"), rows_limit=None)

    def rows_per_batch(self, rows: int) -> Self:
        """Read whole files up to this many rows per batch, and split larger files.

        Raises:
            ValueError: the number is below 1, or the files of this format do not contain their row count.
        """
        if not self.file_format.has_footers:
            raise ValueError(
                f"rows_per_batch is for parquet files, which contain their number of rows: {self.format} files are"
                " counted by files_per_batch(...)"
            )
        return replace(self, rows_limit=positive(rows, "rows per batch"))

    def monitor_continuously(self, interval: Duration, until: Until = "_SUCCESS", *, watch: bool = True) -> Self:
        """Look for new files at this interval (`"500ms"`, `"10s"`, a timedelta, ms) until no more are expected.

        Discovery ends when a file named `until` is in the folder or the function `until` returns true; if `until` is
        None, when the job is cancelled. In a local folder new files are noticed within milliseconds, unless `watch` is
        False.

        Raises:
            DurationError: the interval cannot be parsed, or is not positive.
        """
        interval_ms = positive_duration_ms(interval, "discovery interval")
        return replace(self, interval_ms=interval_ms, until=until, watches=watch)

    @property
    def boundedness(self) -> Boundedness:
        """Continuous if new files are discovered, even if that discovery ends."""
        return Boundedness.CONTINUOUS_UNBOUNDED if self.interval_ms is not None else Boundedness.BOUNDED

    @property
    def reads_columns(self) -> bool:
        return self.file_format.is_columnar and self.storage is None

    def bound(self, session: SparkSession, event_time: str | None) -> Self:
        """Return a copy with this event-time column, an absolute path, and the current schema.

        Raises the errors of `prototype`, and an error if Spark does not know an option or there is nothing to read.
        Only a monitored folder need not exist yet.
        """
        check_known(session, self.format, (key for key, _ in self.reader_options))
        if self.storage is not None:
            check_readable(self)
        path = self._filesystem(FileSystem(session)).absolute(self.path)
        here = replace(self, path=path, path_as_written=self.path_as_written or self.path, event_time=event_time)
        if here.interval_ms is None:
            here._check_there(session)
        return replace(here, schema=here.prototype(session).schema)

    def in_order(self) -> Self:
        """Return the source for rows in the order of the files, which needs more and smaller scans."""
        return replace(self, keeps_order=True)

    def prototype(self, session: SparkSession) -> DataFrame:
        """Return an empty DataFrame with the columns of the source.

        Raises:
            SourceNotFoundError: the path does not exist, and no schema is declared.
            EmptySourceError: there is no file from which to infer the schema.
            FileSchemaError: parquet files in different folders have different columns.
            UnreadableFileError: Spark finds no schema in the files.
            PrototypeError: the declared schema cannot be parsed, or the format does not support its types.
        """
        made = empty_frame(session, self._schema_there(session) if self.schema is None else self.schema, str(self))
        check_file_types(made, self.format)
        if self.format in _READ:
            check_types(made.schema, _READ[self.format])
        if self.storage is not None:
            check_types(made.schema, Use.STORE)
        return made

    def check_input(self, operator_id: OperatorId, filesystem: FileSystem) -> None:
        """Check the existing files and their schemas. A monitored folder is only checked by the job.

        Raises the errors of `FileSplitDiscovery.discover`.
        """
        if self.interval_ms is None:
            discovery = self.split_discovery(operator_id, filesystem)
            found = discovery.discover(b"")
            while found.more:
                found = discovery.discover(found.position)

    def split_discovery(self, operator_id: OperatorId, filesystem: FileSystem) -> FileSplitDiscovery:
        return FileSplitDiscovery(self, operator_id, self._filesystem(filesystem))

    def numbers_of(self, split: SourceSplit) -> SplitNumbers:
        batch = split_of(FileBatchSplit, split, self)
        rows = batch.rows if self.file_format.has_footers else None
        return SplitNumbers(rows=rows, event_time_max=batch.event_time_max)

    def read(
        self, session: SparkSession, schema: StructType, splits: Sequence[SourceSplit], *, in_slices: bool
    ) -> Slices:
        """Return the rows of batches. All files that are not split are read in one scan."""
        batches = joined(split_of(FileBatchSplit, split, self) for split in splits)
        if self.storage is not None:
            return tuple(read_objects(session, self, schema, batch.files) for batch in batches)
        read = read_sliced if in_slices and self.file_format.has_footers else read_split
        return tuple(rows for batch in batches for rows in read(session, self, schema, batch))

    def _filesystem(self, of_hadoop: FileSystem) -> FileSystem | ObjectStore:
        return of_hadoop if self.storage is None else self.store

    def _schema_there(self, session: SparkSession) -> StructType:
        self._check_there(session)
        return inferred_schema(session, self) if self.storage is None else schema_of_objects(self)

    def _check_there(self, session: SparkSession) -> None:
        filesystem = self._filesystem(FileSystem(session))
        try:
            there = filesystem.exists(self.path)
            empty = there and filesystem.is_folder(self.path) and next(filesystem.paths_below(self.path), None) is None
        except (Py4JJavaError, OSError) as refused:
            raise SourceError(f"{self.path} cannot be read: {reason(refused)}") from None
        if not there:
            hint = "" if self.interval_ms is None else " yet to take the schema from: declare it with schema=..."
            raise SourceNotFoundError(f"nothing to read at {self.path}: there is no such folder or file{hint}")
        if empty:
            if self.schema is None:
                raise EmptySourceError(
                    f"{self.path} contains no file yet from which to infer the schema: declare it with schema=..."
                )
            raise EmptySourceError(f"no files to read in {self.path}")


SLICE_FILES = 24
SLICE_ROWS = 200_000
"""Minimum number of rows in a slice: a smaller slice takes longer to plan than to read."""


_LARGE_FILE_ROWS = 4_000_000


def empty_frame(session: SparkSession, schema: StructType | str, source: str) -> DataFrame:
    return session.createDataFrame([], declared_columns(schema, f"the columns of {source}"))


def inferred_schema(session: SparkSession, source: FileSource) -> StructType:
    """Return the schema of the existing files.

    Raises:
        FileSchemaError: parquet files in different folders have different columns, and `mergeSchema` is not set.
        UnreadableFileError: Spark finds no schema.
        EmptySourceError: the files have no columns.
    """
    options = merged({**source.file_format.reading, **source.file_format.inferring}, source.reader_options)
    reader, paths = _reader(session, source, options), [source.path]
    if source.format == "parquet":
        filesystem = FileSystem(session)
        files = files_with_columns(source, filesystem)
        if len(files) > 1 and not merges_schemas(source.reader_options):
            checked_columns(source, filesystem, [*files.values()])
        if any("=" not in folder for name in files for folder in name.split("/")[:-1]):
            # Without this option Spark only reads folders that are named like partitions.
            reader, paths = reader.option("basePath", source.path), [*files.values()]
    try:
        schema = rows_at(reader, paths).schema
    except (PySparkException, Py4JJavaError) as refused:
        why = reason(refused)
        hint = ": write timestamps in microseconds" if "TIMESTAMP(NANOS" in why else ""
        raise UnreadableFileError(f"no schema can be taken from {source}: {why}{hint}") from None
    if not schema.names:
        raise EmptySourceError(
            f"{source.path} contains no files yet from which to infer the schema: declare it with schema=..."
        )
    return schema


def joined(batches: Iterable[FileBatchSplit]) -> tuple[FileBatchSplit, ...]:
    """Combine batches of whole files, which Spark reads in one scan. Batches of a set size stay separate."""
    found = tuple(batches)
    if len(found) < 2 or any(batch.size_bytes is None for batch in found):
        return found
    one = FileBatchSplit(
        split_id=SplitId("+".join(batch.split_id for batch in found)),
        files=tuple(file for batch in found for file in batch.files),
        rows=sum(batch.rows for batch in found),
    )
    return (one,)


def read_split(
    session: SparkSession, source: FileSource, schema: StructType, split: FileBatchSplit
) -> tuple[DataFrame, ...]:
    rows = _read(session, source, schema, split.files)
    return (rows if split.files[0].whole_file else _range(rows, split.files[0]),)


def read_sliced(
    session: SparkSession, source: FileSource, schema: StructType, split: FileBatchSplit
) -> tuple[DataFrame, ...]:
    """Return the rows of a batch in slices of one Spark partition each; see `number_of_slices`.

    Aggregating slice by slice needs no shuffle. For a file too large for one core, Spark chooses the partitions.
    """
    if any(not file.whole_file or file.rows > _LARGE_FILE_ROWS for file in split.files):
        return read_split(session, source, schema, split)
    rows = sum(file.rows for file in split.files)
    slices = number_of_slices(len(split.files), rows, session.sparkContext.defaultParallelism)
    return tuple(_read(session, source, schema, split.files[number::slices]).coalesce(1) for number in range(slices))


def number_of_slices(files: int, rows: int, cores: int) -> int:
    """Return the number of slices for some files: at most one per core, and none that is too small."""
    worth = max(files // SLICE_FILES, rows // SLICE_ROWS, 1)
    return min(worth, files, max(1, cores))


def _read(session: SparkSession, source: FileSource, schema: StructType, files: Sequence[FileSplit]) -> DataFrame:
    reader = _reader(session, source, merged(source.file_format.reading, source.reader_options)).schema(schema)

    def scan(paths: Sequence[str]) -> DataFrame:
        if all("/" not in file.split_id for file in files):
            return rows_at(reader, paths)
        # Relative to the source's folder, because the names of the folders in between may be partition columns. Spark
        # appends the found columns to the declared columns.
        rows = rows_at(reader.option("basePath", source.path), paths)
        return rows.select(*map(quoted, schema.names))

    paths = [file.path for file in files]
    return read_in_order(scan, paths) if source.keeps_order else scan(paths)


def _reader(session: SparkSession, source: FileSource, options: dict[str, str]) -> DataFrameReader:
    return session.read.format(SPARK_FORMATS[source.format].data_source).options(**options)


def _range(rows: DataFrame, split: FileSplit) -> DataFrame:
    """Return a range of a file's rows, by row number.

    The bounds differ from batch to batch, and Spark inlines integers into the code that it compiles. Decimals are
    passed by reference, unless Spark can convert the comparison to integers. So the first bound is subtracted.
    """
    number = F.col("_metadata.row_index").cast("decimal(17,0)") - F.lit(Decimal(split.start_row))
    return rows.where((number >= 0) & (number < F.lit(Decimal(split.rows))))
