"""DeltaSource: the rows of a Delta table as of a version, and the rows that later versions add.

The log tells the files of a version, and Spark reads them: rows never pass the driver. What a version adds is its rows.
A version that deletes or rewrites rows fails the job, unless it is said to be passed over: a stream cannot take rows
back (the rules, and the names of the options, are those of Delta's own streaming source).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from os import PathLike
from typing import TYPE_CHECKING, Self

from pyspark.sql.types import StructType

from flykka.messages.tasks.source import SerializedSplit, SourceSplit
from flykka.runtime.durations import Duration, positive_duration_ms
from flykka.runtime.secrets import masked_uri
from flykka.spark_bridge.connectors.delta.columns import columns_of
from flykka.spark_bridge.connectors.delta.discovery import DeltaSplitDiscovery
from flykka.spark_bridge.connectors.delta.reading import read_files, slices_of
from flykka.spark_bridge.connectors.delta.source_settings import DeltaSourceSettings
from flykka.spark_bridge.connectors.delta.splits import file_of_split, numbers_in
from flykka.spark_bridge.connectors.delta.table import TableLocation, checked_options, facts_of
from flykka.spark_bridge.connectors.delta.versions import check_readable, check_whole_files, last_version, opened
from flykka.spark_bridge.program.source import Boundedness, Source, SplitNumbers, checked_millis, split_of
from flykka.spark_bridge.rows.filesystem import FileSystem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flykka.messages.wire.ids import OperatorId
    from flykka.spark_bridge.rows.materialise import Slices

_WHAT = "a DeltaSource"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSource(DeltaSourceSettings, Source):
    """A Delta table to read. Made by `of_path`; the other methods return changed copies.

    Without more it is the table as it is when the job begins. `schema` is set when the job is bound, to the columns of
    the table.
    """

    @classmethod
    def of_path(cls, path: str | PathLike[str], *, event_time: str | None = None) -> Self:
        """The table at a path; `event_time` names the timestamp column that says when a row happened.

        Raises:
            MissingExtraError: deltalake is not installed.
        """
        if not str(path):
            raise ValueError("a DeltaSource needs the path of a table, and got an empty text")
        return cls(path=str(path), event_time=event_time, options=checked_options({}, _WHAT))

    def version_as_of(self, version: int) -> Self:
        """Read the table as it was at a version. Raises `ValueError` beside `starting_version` and its like."""
        self._check_one_beginning(self.starting is not None or self.starting_ms is not None)
        return replace(self, as_of=version, as_of_ms=None)

    def timestamp_as_of(self, timestamp: datetime | int) -> Self:
        """Read the table as it was at a time (ms since the epoch, or a datetime with its zone).

        Raises `ValueError` as `version_as_of` does, and for a datetime without a zone.
        """
        self._check_one_beginning(self.starting is not None or self.starting_ms is not None)
        return replace(self, as_of=None, as_of_ms=checked_millis(timestamp))

    def starting_version(self, version: int) -> Self:
        """Read what this version and those behind it add, and not what was there before.

        Raises `ValueError` beside `version_as_of` and `timestamp_as_of`.
        """
        self._check_one_beginning(self.as_of is not None or self.as_of_ms is not None)
        return replace(self, starting=version, starting_ms=None)

    def starting_timestamp(self, timestamp: datetime | int) -> Self:
        """Read what versions add that were committed at this time or later. Raises as `starting_version` does."""
        self._check_one_beginning(self.as_of is not None or self.as_of_ms is not None)
        return replace(self, starting=None, starting_ms=checked_millis(timestamp))

    def monitor_continuously(self, interval: Duration) -> Self:
        """Look for new versions at this interval (`"500ms"`, `"10s"`, a timedelta, ms) until the job is cancelled.

        In a folder of this machine they are noticed within some milliseconds. Raises `DurationError`.
        """
        return replace(self, interval_ms=positive_duration_ms(interval, "discovery interval"))

    def ignore_deletes(self) -> Self:
        """Pass over versions that only delete rows."""
        return replace(self, ignores_deletes=True)

    def skip_change_commits(self) -> Self:
        """Pass over versions that delete or rewrite rows, with all that they add."""
        return replace(self, skips_change_commits=True)

    def storage_options(self, **options: object) -> Self:
        """Set delta-rs's options for the storage of the log, such as `aws_region="eu-west-1"`.

        Files are read by Spark, with the settings of its session.
        """
        return replace(self, options=checked_options({**dict(self.options), **options}, _WHAT))

    @property
    def boundedness(self) -> Boundedness:
        """Continuous where new versions are looked for."""
        return Boundedness.BOUNDED if self.interval_ms is None else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def format(self) -> str:
        """The name of the format."""
        return "delta"

    def __str__(self) -> str:
        return f"{self.format} {masked_uri(self.path)}"

    def bound(self, session: SparkSession, event_time: str | None) -> Self:
        """With this event-time column, an absolute path, and the columns that the table has."""
        filesystem = FileSystem(session)
        here = replace(self, path=filesystem.absolute(self.path), event_time=event_time)
        return replace(here, schema=here._columns(filesystem))

    def prototype(self, session: SparkSession) -> DataFrame:
        """An empty DataFrame with the columns of the table. Raises `SourceError` where there is none to read."""
        return session.createDataFrame([], self.schema or self._columns(FileSystem(session)))

    def check_input(self, operator_id: OperatorId, filesystem: FileSystem) -> None:
        """Look for the first files. Raises `SourceError` where the table cannot be read."""
        self.split_discovery(operator_id, filesystem).discover(b"")

    def split_discovery(self, operator_id: OperatorId, filesystem: FileSystem) -> DeltaSplitDiscovery:
        """Looks into the log."""
        return DeltaSplitDiscovery(self, operator_id, filesystem)

    def numbers_of(self, split: SourceSplit) -> SplitNumbers:
        """The numbers that the log tells of a file."""
        return numbers_in(split_of(SerializedSplit, split, self))

    def read(
        self, session: SparkSession, schema: StructType, splits: Sequence[SourceSplit], *, in_slices: bool
    ) -> Slices:
        """The rows of files, as one scan, or in slices of one Spark partition each."""
        files = [file_of_split(split_of(SerializedSplit, split, self)) for split in splits]
        if not in_slices:
            return (read_files(session, self.path, schema, files),)
        slices = slices_of(files, cores=session.sparkContext.defaultParallelism)
        return tuple(read_files(session, self.path, schema, some).coalesce(1) for some in slices)

    def _columns(self, filesystem: FileSystem) -> StructType:
        location = TableLocation.of(self.path, self.options, filesystem)
        is_now = self.as_of is None and self.as_of_ms is None
        table = opened(location, None if is_now else last_version(self, location))
        check_readable(location, facts_of(table))
        if self.starting is None and self.starting_ms is None:
            check_whole_files(location, table)
        return columns_of(table)

    def _check_one_beginning(self, has_other: bool) -> None:
        if has_other:
            raise ValueError(
                f"{self} is to be read as of a version or a time, and to start at one: say either, for the table as a"
                " whole or for what is added from then on"
            )
