"""DeltaSource: reads the rows of a Delta table at a version, and the rows that later versions add.

The log lists the files of a version, and Spark reads them, so rows never pass through the driver. A version that
deletes or rewrites rows fails the job, unless such versions are skipped, because a stream cannot retract rows. The
rules and the names of the options are the same as in Delta's own streaming source.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from operator import itemgetter
from os import PathLike
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, TimestampType

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.messages.tasks.source import SerializedSplit, SourceSplit, SplitsDiscovered
from flykka.messages.wire.ids import SplitId
from flykka.runtime.durations import Duration, positive_duration_ms
from flykka.runtime.secrets import masked_uri
from flykka.spark_bridge.connectors.delta.columns import columns_of, spark_schema
from flykka.spark_bridge.connectors.delta.log import AddedFile, Commit, commit_of, files_at
from flykka.spark_bridge.connectors.delta.table import (
    StorageOptions,
    TableLocation,
    checked_options,
    facts_of,
    has_deletion_vectors,
)
from flykka.spark_bridge.connectors.file.source import number_of_slices
from flykka.spark_bridge.errors import FileSchemaError, SourceError, SourceNotFoundError
from flykka.spark_bridge.program.source import (
    SPLITS_PER_LOOK,
    Boundedness,
    Source,
    SplitNumbers,
    checked_millis,
    split_of,
)
from flykka.spark_bridge.rows.file_formats import partition_in
from flykka.spark_bridge.rows.files import read_in_order, read_parquet
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.rows.materialise import together

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import Column, DataFrame, SparkSession

    from flykka.messages.wire.ids import OperatorId
    from flykka.spark_bridge.connectors.delta.table import TableFacts
    from flykka.spark_bridge.rows.materialise import Slices


_WHAT = "a DeltaSource"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSource(Source):
    """A source that reads a Delta table. Created by `of_path`; the other methods return changed copies.

    By default it reads the table as it is when the job begins. `schema` is set to the columns of the table when a
    program uses the source.
    """

    path: str
    schema: StructType | None = None
    event_time: str | None = None
    as_of: int | None = None
    as_of_ms: int | None = None
    starting: int | None = None
    starting_ms: int | None = None
    interval_ms: int | None = None
    ignores_deletes: bool = False
    skips_change_commits: bool = False
    keeps_order: bool = False
    options: StorageOptions = field(default=(), repr=False)

    @classmethod
    def of_path(cls, path: str | PathLike[str], *, event_time: str | None = None) -> Self:
        """Read the table at a path. `event_time` names the timestamp column with the event time of a row.

        Raises:
            MissingExtraError: deltalake is not installed.
        """
        if not str(path):
            raise ValueError("a DeltaSource needs the path of a table, and got an empty text")
        return cls(path=str(path), event_time=event_time, options=checked_options({}, _WHAT))

    def version_as_of(self, version: int) -> Self:
        """Read the table as it was at a version. Raises `ValueError` if a starting version or time is set."""
        self._check_one_beginning(self.starting is not None or self.starting_ms is not None)
        return replace(self, as_of=version, as_of_ms=None)

    def timestamp_as_of(self, timestamp: datetime | int) -> Self:
        """Read the table as it was at a time (ms since the epoch, or a datetime with a time zone).

        Raises `ValueError` like `version_as_of`, and for a datetime without a time zone.
        """
        self._check_one_beginning(self.starting is not None or self.starting_ms is not None)
        return replace(self, as_of=None, as_of_ms=checked_millis(timestamp))

    def starting_version(self, version: int) -> Self:
        """Read the rows that this version and later versions add, without the rows of earlier versions.

        Raises `ValueError` after `version_as_of` and `timestamp_as_of`.
        """
        self._check_one_beginning(self.as_of is not None or self.as_of_ms is not None)
        return replace(self, starting=version, starting_ms=None)

    def starting_timestamp(self, timestamp: datetime | int) -> Self:
        """Read the rows of versions committed at this time or later. Raises `ValueError` like `starting_version`."""
        self._check_one_beginning(self.as_of is not None or self.as_of_ms is not None)
        return replace(self, starting=None, starting_ms=checked_millis(timestamp))

    def monitor_continuously(self, interval: Duration) -> Self:
        """Look for new versions at this interval (`"500ms"`, `"10s"`, a timedelta, ms) until the job is cancelled.

        In a local folder new versions are noticed within milliseconds. Raises `DurationError`.
        """
        return replace(self, interval_ms=positive_duration_ms(interval, "discovery interval"))

    def ignore_deletes(self) -> Self:
        """Skip versions that only delete rows."""
        return replace(self, ignores_deletes=True)

    def skip_change_commits(self) -> Self:
        """Skip versions that delete or rewrite rows, even if they also add rows."""
        return replace(self, skips_change_commits=True)

    def storage_options(self, **options: object) -> Self:
        """Set delta-rs's options for the storage of the log, such as `aws_region="eu-west-1"`.

        Spark reads the data files, with the settings of its session.
        """
        return replace(self, options=checked_options({**dict(self.options), **options}, _WHAT))

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self.interval_ms is None else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def format(self) -> str:
        return "delta"

    def __str__(self) -> str:
        return f"{self.format} {masked_uri(self.path)}"

    def bound(self, session: SparkSession, event_time: str | None) -> Self:
        filesystem = FileSystem(session)
        here = replace(self, path=filesystem.absolute(self.path), event_time=event_time)
        return replace(here, schema=here._columns(filesystem))

    def in_order(self) -> Self:
        return replace(self, keeps_order=True)

    def prototype(self, session: SparkSession) -> DataFrame:
        return session.createDataFrame([], self.schema or self._columns(FileSystem(session)))

    def check_input(self, operator_id: OperatorId, filesystem: FileSystem) -> None:
        self.split_discovery(operator_id, filesystem).discover(b"")

    def split_discovery(self, operator_id: OperatorId, filesystem: FileSystem) -> DeltaSplitDiscovery:
        return DeltaSplitDiscovery(self, operator_id, filesystem)

    def numbers_of(self, split: SourceSplit) -> SplitNumbers:
        return numbers_in(split_of(SerializedSplit, split, self))

    def read(
        self, session: SparkSession, schema: StructType, splits: Sequence[SourceSplit], *, in_slices: bool
    ) -> Slices:
        files = [file_of_split(split_of(SerializedSplit, split, self)) for split in splits]
        if self.keeps_order or not in_slices:
            return (read_files(session, self.path, schema, files, keeps_order=self.keeps_order),)
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
                f"{self} has both an `as of` and a starting version or time: use the first to read the"
                " whole table, or the second to read the rows added since then"
            )


@dataclass(slots=True, kw_only=True)
class _Position:
    snapshot: int | None
    version: int
    files: int = 0
    end: int | None = None

    @classmethod
    def of(cls, position: bytes) -> _Position:
        try:
            return cls(**json.loads(position))
        except (ValueError, TypeError):
            raise SourceError(f"the checkpoint's position {position!r} is not a position of a Delta source") from None

    def encoded(self) -> bytes:
        return json.dumps(asdict(self)).encode()


class DeltaSplitDiscovery:
    """Discovers files in the log of a table. Only `changed` may be called concurrently with other calls.

    A split is a file of the first version read, or a file that a later version adds. The position is JSON: `snapshot`
    is the version whose files are being listed, or null after all were listed; `version` is the first version whose
    changes were not all listed; `files` is the number of listed files of that snapshot or version; and `end` is the
    last version of a bounded source.
    """

    def __init__(self, source: DeltaSource, operator_id: OperatorId, filesystem: FileSystem) -> None:
        self._source = source
        self._operator_id = operator_id
        self._filesystem = filesystem
        self._location = TableLocation.of(source.path, source.options, filesystem)
        self._listed: tuple[int, bool, Sequence[AddedFile]] | None = None
        self._next_commit: str | None = None
        self._has_begun = False
        self.interval_ms = source.interval_ms
        is_local = filesystem.local(source.path) is not None
        self.changed: Callable[[], bool] | None = self._changed if self.interval_ms is not None and is_local else None

    def discover(self, position: bytes) -> SplitsDiscovered:
        """Return the files after `position`.

        Raises:
            SourceError: the table cannot be read, or a version has removed rows.
        """
        at = _Position.of(position) if position else self._beginning()
        if not self._has_begun:
            self._check_log(at)
            self._has_begun = True
        splits: list[SerializedSplit] = []
        while len(splits) < SPLITS_PER_LOOK:
            found = self._files(at)
            if found is None:
                break
            version = at.version if at.snapshot is None else at.snapshot
            room = SPLITS_PER_LOOK - len(splits)
            splits += (split_of_file(file, version) for file in found[at.files : at.files + room])
            at.files += room
            if at.files >= len(found):
                at.files = 0
                if at.snapshot is None:
                    at.version += 1
                at.snapshot = None
        is_over = at.snapshot is None and at.end is not None and at.version > at.end
        self._next_commit = self._location.commit(at.version)
        return SplitsDiscovered(
            operator_id=self._operator_id,
            splits=tuple(splits),
            finished=is_over,
            begun_at=position,
            position=at.encoded(),
            more=not is_over and len(splits) >= SPLITS_PER_LOOK,
        )

    def _beginning(self) -> _Position:
        first = first_version(self._source, self._location)
        end = None if self._source.interval_ms is not None else last_version(self._source, self._location)
        if first is not None:
            return _Position(snapshot=None, version=first, end=end)
        whole = last_version(self._source, self._location)
        return _Position(snapshot=whole, version=whole + 1, end=end)

    def _files(self, at: _Position) -> Sequence[AddedFile] | None:
        """Return the files of the snapshot, or the files that the version adds, by path; None if it does not exist."""
        is_whole = at.snapshot is not None
        version = at.version if at.snapshot is None else at.snapshot
        if self._listed is not None and self._listed[:2] == (version, is_whole):
            return self._listed[2]
        if is_whole:
            files = self._files_at(version)
        elif at.end is not None and version > at.end:
            return None
        else:
            commit = self._commit(version)
            if commit is None:
                return None
            files = commit.added
        for file in files:
            if file.has_deletion_vector:
                raise SourceError(f"{file.path} of {self._source.path} has deletion vectors{NO_DELETION_VECTORS}")
        self._listed = version, is_whole, sorted(files, key=lambda file: file.path)
        return self._listed[2]

    def _files_at(self, version: int) -> Sequence[AddedFile]:
        table = opened(self._location, version)
        check_whole_files(self._location, table)
        return list(files_at(table, self._source.event_time))

    def _commit(self, version: int) -> Commit | None:
        """Return the changes of a version; None if it does not exist yet. Raises `SourceError` for removed rows."""
        try:
            commit = commit_of(self._location, version, self._source.event_time)
        except FileNotFoundError:
            return None
        if commit.facts is not None:
            check_readable(self._location, commit.facts)
            if commit.facts.columns is not None and isinstance(self._source.schema, StructType):
                self._check_columns(spark_schema(commit.facts.columns), version)
        if not commit.removed:
            return commit
        if self._source.skips_change_commits:
            return Commit()
        if self._source.ignores_deletes and not commit.added:
            return commit
        what = "rewritten" if commit.added else "deleted"
        skip = "skip_change_commits()" if commit.added else "ignore_deletes() or skip_change_commits()"
        raise SourceError(
            f"version {version} of {self._source.path} has {what} rows, in {len(commit.removed)} files such as"
            f" {commit.removed[0]}, but a DeltaSource reads only added rows: {skip} skips such versions, and"
            f" starting_version({version + 1}) starts after this one"
        )

    def _check_log(self, at: _Position) -> None:
        table = opened(self._location)
        check_readable(self._location, facts_of(table))
        latest = table.version()
        if at.version > latest + 1:
            raise SourceError(
                f"{self._source.path} is to be read from version {at.version}, but its last version is {latest}: was"
                " it deleted and created again?"
            )
        needed = at.snapshot is None and at.version <= latest
        if needed and not self._filesystem.exists(self._location.commit(at.version)):
            raise SourceError(
                f"the log of {self._source.path} no longer contains version {at.version}, from which it is to be read:"
                " start without state, at the current table or at a later version"
            )

    def _check_columns(self, columns: StructType, version: int) -> None:
        assert isinstance(self._source.schema, StructType)
        there = {field.name: field.dataType.simpleString() for field in columns}
        for read in self._source.schema:
            found, wanted = there.get(read.name), read.dataType.simpleString()
            if found != wanted:
                now = "has no" if found is None else f"has the type {found} for the"
                raise FileSchemaError(
                    f"version {version} of {self._source.path} {now} column {read.name!r}, which the job reads as"
                    f" {wanted}: stop the job with a savepoint, and start it with the columns as they are now"
                )

    def _changed(self) -> bool:
        return self._next_commit is not None and self._filesystem.exists(self._next_commit)


def split_of_file(file: AddedFile, version: int) -> SerializedSplit:
    content = {
        "version": version,
        "path": file.path,
        "partition": dict(file.partition),
        "rows": file.rows,
        "latest": file.event_time_max,
    }
    return SerializedSplit(
        split_id=SplitId(f"{version}/{quote(file.path)}"),
        rows=file.rows or 0,
        content=json.dumps(content),
        size_bytes=file.size_bytes,
    )


def file_of_split(split: SerializedSplit) -> AddedFile:
    content = json.loads(split.content)
    return AddedFile(
        path=content["path"],
        partition=content["partition"],
        size_bytes=split.size_bytes or 0,
        rows=content["rows"],
        event_time_max=content["latest"],
    )


def numbers_in(split: SerializedSplit) -> SplitNumbers:
    file = file_of_split(split)
    return SplitNumbers(rows=file.rows, event_time_max=file.event_time_max)


_Partition = tuple[tuple[str, str | None], ...]

_ZONE = re.compile(r"(Z|[+-]\d\d:?\d\d)$")
"""The time zone at the end of a time. A time without a time zone is in UTC."""


def read_files(
    session: SparkSession, table: str, schema: StructType, files: Iterable[AddedFile], *, keeps_order: bool = False
) -> DataFrame:
    """Return the rows of files of the table at a path.

    Nearly all files are in folders named after their partitions. These files are read in one scan, because Spark reads
    the partition columns from the names. The protocol allows other folders, and then each partition is read in its own
    scan. With `keeps_order` the rows are in the order of the files, so only consecutive files are read together.
    """
    located = ((_partition(file, schema), place_of(table, file)) for file in files)
    if keeps_order:
        runs = ((partition, [path for _, path in run]) for partition, run in groupby(located, itemgetter(0)))
        return together(
            [read_in_order(partial(_scan, session, table, schema, partition), paths) for partition, paths in runs]
        )
    of_partition: dict[_Partition | None, list[str]] = {}
    for partition, path in located:
        of_partition.setdefault(partition, []).append(path)
    return together([_scan(session, table, schema, partition, paths) for partition, paths in of_partition.items()])


def _scan(
    session: SparkSession, table: str, schema: StructType, partition: _Partition | None, paths: Sequence[str]
) -> DataFrame:
    if partition is None:
        return read_parquet(session, paths, schema, basePath=table).select(*map(_named, schema.names))
    values = dict(partition)
    rows = read_parquet(session, paths, StructType([field for field in schema if field.name not in values]))
    return rows.select(*(_value(field, values) if field.name in values else _named(field.name) for field in schema))


def _partition(file: AddedFile, schema: StructType) -> _Partition | None:
    """Return the values of a file's partition; None if Spark reads the same values from the names of folders."""
    # Spark would read a time in folder names in the session's time zone, but the log has it in UTC.
    has_times = any(isinstance(field.dataType, TimestampType) for field in schema if field.name in file.partition)
    is_in_folders = not has_times and not _is_whole(file.path) and partition_in(file.path) == file.partition
    return None if is_in_folders else tuple(sorted(file.partition.items()))


def place_of(table: str, file: AddedFile) -> str:
    return file.path if _is_whole(file.path) else f"{table}/{file.path}"


def slices_of(files: Sequence[AddedFile], *, cores: int) -> list[Sequence[AddedFile]]:
    slices = number_of_slices(len(files), sum(file.rows or 0 for file in files), cores)
    return [files[number::slices] for number in range(slices)]


def _value(field: StructField, partition: Mapping[str, str | None]) -> Column:
    value = partition[field.name]
    if value is not None and isinstance(field.dataType, TimestampType) and not _ZONE.search(value):
        value = f"{value}Z"
    return F.lit(value).cast(field.dataType).alias(field.name)


def _is_whole(path: str) -> bool:
    return ":/" in path or path.startswith("/")


def _named(name: str) -> Column:
    return F.col(quoted(name))


NO_DELETION_VECTORS = (
    ", which a DeltaSource does not read: have the files rewritten without them, with REORG TABLE ... APPLY (PURGE)"
)


def opened(location: TableLocation, version: int | None = None) -> DeltaTable:
    """Open the table at its latest version or at `version`. Raises `SourceError` if delta-rs cannot open it."""
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        return location.open(version)
    except TableNotFoundError:
        raise SourceNotFoundError(f"there is no Delta table at {location.path}") from None
    except DeltaError as refused:
        at = "" if version is None else f" as of version {version}"
        raise SourceError(f"the Delta table {location.path} cannot be opened{at}: {refused}") from refused


def check_readable(location: TableLocation, facts: TableFacts) -> None:
    feature = facts.unreadable()
    if feature is not None:
        raise SourceError(f"{location.path} is a Delta table with {feature}, which a DeltaSource does not read")


def check_whole_files(location: TableLocation, table: DeltaTable) -> None:
    if has_deletion_vectors(table):
        raise SourceError(f"{location.path} has deletion vectors{NO_DELETION_VECTORS}")


def first_version(source: DeltaSource, location: TableLocation) -> int | None:
    """Return the first version whose changes are read; None if all rows of a version are read first."""
    if source.starting_ms is None:
        return source.starting
    times = _commit_times(location)
    later = [version for version, committed_ms in times.items() if committed_ms >= source.starting_ms]
    return min(later, default=max(times) + 1)


def last_version(source: DeltaSource, location: TableLocation) -> int:
    """Return the version whose rows are all read, which is the last version of a bounded source."""
    if source.as_of is not None:
        return source.as_of
    if source.as_of_ms is None:
        return opened(location).version()
    times = _commit_times(location)
    before = [version for version, committed_ms in times.items() if committed_ms <= source.as_of_ms]
    if not before:
        first = datetime.fromtimestamp(min(times.values()) / 1000, UTC)
        raise SourceError(
            f"the log of {location.path} begins at {first}: the table cannot be read as of an earlier time"
        )
    return max(before)


def _commit_times(location: TableLocation) -> dict[int, int]:
    """Return the commit times, in ms, of the versions in the log."""
    commits = opened(location).history()
    times = {commit["version"]: commit["timestamp"] for commit in commits if "timestamp" in commit}
    if not times:
        raise SourceError(f"the log of {location.path} contains no commit times: pass a version")
    return times
