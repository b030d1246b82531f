"""FileSource: parquet files of a folder, each batch a group of files or a range of rows of one.

A split is one batch. Discovery groups what it finds; with `monitor_continuously` it takes what is there and never waits
for a batch to fill. Files are immutable: one must appear under its final name when it is complete. Names that begin
with `.` or `_` are ignored, as in Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from flykka.runtime.durations import Duration, positive_duration_ms
from flykka.spark_bridge.errors import EmptySourceError, SourceNotFoundError
from flykka.spark_bridge.filesystem import FileSystem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Until = str | Callable[[], bool] | None
"""What ends a continuous discovery: the name of a marker file, or a function that says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """Where to read, and in which portions. Made by `parquet`; the other methods return changed copies."""

    format: ClassVar[str] = "parquet"

    path: str
    schema: StructType | str | None = None
    event_time: str | None = None
    files_limit: int = 1
    rows_limit: int | None = None
    interval_ms: int | None = None
    until: Until = None

    @classmethod
    def parquet(cls, path: str, *, schema: StructType | str | None = None, event_time: str | None = None) -> FileSource:
        """The parquet files in and below a folder, or one file.

        `schema` is Spark's, declared or as DDL text; without one it is taken from the files that are there.
        `event_time` names the timestamp column that says when a row happened.
        """
        return cls(path=str(path), schema=schema, event_time=event_time)

    def files_per_batch(self, files: int) -> FileSource:
        """Read this many files at once. Raises `ValueError` below 1."""
        return replace(self, files_limit=_positive(files, "files per batch"), rows_limit=None)

    def rows_per_batch(self, rows: int) -> FileSource:
        """Read whole files up to this many rows at once, and cut larger files. Raises `ValueError` below 1."""
        return replace(self, rows_limit=_positive(rows, "rows per batch"))

    def monitor_continuously(self, interval: Duration, until: Until = "_SUCCESS") -> FileSource:
        """Look for new files at this interval (`"500ms"`, `"10s"`, a timedelta, ms) until told that no more come.

        `until` is the name of a file in the folder, or a function; None: until the job is cancelled.

        Raises:
            DurationError: the interval cannot be read, or is not positive.
        """
        return replace(self, interval_ms=positive_duration_ms(interval, "discovery interval"), until=until)

    def __str__(self) -> str:
        return f"{self.format} {self.path}"

    def prototype(self, session: SparkSession) -> DataFrame:
        """An empty DataFrame with the columns of the source.

        Raises:
            SourceNotFoundError: there is no such path and no declared schema.
            EmptySourceError: no file is there to take the schema from.
        """
        if self.schema is not None:
            return session.createDataFrame([], self.schema)
        filesystem = FileSystem(session)
        if not filesystem.exists(self.path):
            raise SourceNotFoundError(f"nothing to read at {self.path}: there is no such folder or file")
        if filesystem.is_folder(self.path) and next(filesystem.files_below(self.path), None) is None:
            raise EmptySourceError(f"no file in {self.path} yet to take the schema from: declare it with schema=...")
        return session.createDataFrame([], session.read.parquet(self.path).schema)


def _positive(number: int, what: str) -> int:
    if number < 1:
        raise ValueError(f"{what} must be at least 1, not {number}")
    return number
