"""FileSink: files that appear exactly once, when the checkpoint that contains them is complete.

Rows are staged invisibly, and published by rename. Staged files are below `<path>/.flykka-staging/<job>/`, which
Spark's readers ignore. At a snapshot each file is assigned its final name, and the checkpoint records its staged path,
final name, size and digest. When a checkpoint is complete, its files and the files of earlier checkpoints are renamed.
A rename may be repeated: a file whose source is gone and whose target exists has been published. So a restore publishes
all files of its checkpoint, whatever earlier attempts have published, and then deletes all other files that this
subtask had staged. Jobs that start from one savepoint, and the job that continues after it, have copies of a file: if
one of them publishes the file, it is published for all. Files of a checkpoint are only published if none of them has
changed since it was staged.

The name of a published file identifies the job that has published it:

    part-<job>-<digest>-<uid>-<digest>-<subtask>-<checkpoint>-<number>-<unique suffix>.<format>

The name is set by the rename, and stays valid if the file is copied or moved elsewhere. A file with any other name
belongs to no job: it was written by another program, or by an old version of flykka whose names did not identify the
job.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, ClassVar, Self

from flykka.actors.checkpoint_storage.file_digests import sync_files
from flykka.actors.checkpoint_storage.file_names import file_name_part
from flykka.actors.checkpoint_storage.staged_paths import batch_folder
from flykka.messages.state.handles import FileDigest, PendingFile
from flykka.runtime.memory_size import MemorySize, positive_size_bytes
from flykka.runtime.secrets import masked_uri
from flykka.spark_bridge.connectors.staging import (
    StagedCheck,
    StagedRows,
    StagingWriter,
    check_size,
    check_staging,
    lost_file,
    read_staged,
    restored,
    sync_names,
    warn_unchecked,
)
from flykka.spark_bridge.connectors.written_columns import check_written
from flykka.spark_bridge.errors import SinkError, StagedFileError
from flykka.spark_bridge.program.sink import PublishedFiles, Sink, SinkContext
from flykka.spark_bridge.program.sink_writer import Staged
from flykka.spark_bridge.rows.file_formats import FileFormat
from flykka.spark_bridge.rows.files import FileLayout
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.state.savepoint import out_of_savepoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flykka.messages.wire.ids import JobId
    from flykka.messages.wire.message import Value


_NAME = re.compile(r"part-(?P<job>[A-Za-z0-9_.]*)-[0-9a-f]{8}-[A-Za-z0-9_.]*-[0-9a-f]{8}-\d+-\d+-\d+-[0-9a-f]{8}-")


def published_prefix(job_name: str) -> str:
    return f"part-{file_name_part(job_name)}-"


def published_files(folder: str, paths: Iterable[str], job_name: str) -> PublishedFiles:
    own: list[str] = []
    others: Counter[str] = Counter()
    foreign = 0
    for path in paths:
        name = path.rsplit("/", 1)[-1]
        published = _NAME.match(name)
        if published is None:
            foreign += 1
        elif name.startswith(published_prefix(job_name)):
            own.append(path)
        else:
            others[published["job"]] += 1
    return PublishedFiles(folder=folder, own=tuple(own), by_others=tuple(sorted(others.items())), foreign=foreign)


logger = logging.getLogger("flykka.spark_bridge")

STAGING = ".flykka-staging"

_NAME_OF_SPARK = re.compile(r"(?P<unique>[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})[-.]c\d+(?P<suffix>\..+)$")


class FileWriter(StagingWriter[PendingFile]):
    """The staged and pending files of one sink in one attempt.

    If the number or the size of files is configured, batches are first staged as parquet, and rewritten at the
    snapshot.
    """

    def __init__(
        self,
        context: SinkContext,
        path: str,
        layout: FileLayout,
        *,
        files_limit: int | None = None,
        file_size_bytes: int | None = None,
    ) -> None:
        """With a limit, batches are rewritten as fewer files for each checkpoint."""
        super().__init__(context)
        self._path_as_given = path
        self._layout = layout
        self._files_limit, self._file_size_bytes = files_limit, file_size_bytes
        self._rows = StagedRows(self._staging) if files_limit is not None or file_size_bytes is not None else None

    def restore(self, prepared: Sequence[Value]) -> None:
        prepared = out_of_savepoint(self._filesystem, prepared, self._staging.folder)
        pending, folders = restored(prepared, PendingFile, self._context.operator, "file")
        warn_unchecked(self._context.operator, (file.digest for file in pending))
        # Several subtasks may publish files of a batch, so its folder is only deleted with all staged files.
        self._publish(
            tuple(replace(file, staged=self._staging.owner.find(file.staged)) for file in pending), restored=True
        )
        self._staging.restore(folders)

    def stage(self, rows: DataFrame) -> Staged:
        if self._rows is not None:
            return self._rows.stage(rows)
        batch = self._staging.write(rows, self._layout)
        return Staged(rows=batch.rows, names=batch.files)

    def prepare_commit(self, checkpoint_id: int, names: tuple[str, ...]) -> Sequence[Value]:
        staged = names if self._rows is None else self._rewritten(self._rows, checkpoint_id, names)
        digests = self._staging.seal(staged)
        named = tuple(
            self._named(checkpoint_id, number, path, digest)
            for number, (path, digest) in enumerate(zip(staged, digests, strict=True))
        )
        self._committables.pending += named
        return (*self._committables.pending, *self._staging.folders)

    def _commit(self, due: tuple[PendingFile, ...]) -> tuple[str, ...]:
        self._publish(due, restored=False)
        self._staging.discard(batch_folder(file.staged) for file in due)
        return tuple(file.target for file in due)

    @cached_property
    def _path(self) -> str:
        # Absolute, because a checkpoint may be restored in another working directory.
        return self._filesystem.qualified(self._path_as_given)

    def _rewritten(self, rows: StagedRows, checkpoint_id: int, names: tuple[str, ...]) -> tuple[str, ...]:
        if not names:
            return ()
        # The staged rows are on disk, so fewer partitions do not make reading slower than writing.
        whole = read_staged(self._context.scope.session, rows.pop_staged(checkpoint_id, names))
        files = self._files_of(names)
        # Rows are distributed evenly to several files of a given size. With only a limit, they need not be moved.
        grouped = whole.repartition(files) if files > 1 and self._file_size_bytes else whole.coalesce(files)
        batch = self._staging.write(grouped, self._layout)
        self._staging.discard(names)
        return batch.files

    def _files_of(self, batches: tuple[str, ...]) -> int:
        limit, size = self._files_limit, self._file_size_bytes
        wanted = limit if size is None else -(-sum(map(self._filesystem.bytes_below, batches)) // size)
        assert wanted is not None, "batches are rewritten although no limit is set"
        return wanted if limit is None else min(wanted, limit)

    def _named(self, checkpoint_id: int, number: int, path: str, digest: FileDigest) -> PendingFile:
        *_, name = parts = path.split("/")
        found = _NAME_OF_SPARK.search(name)
        assert found is not None, f"the names of Spark's files contain a UUID and a number, but {path} does not"
        folders = parts[-1 - len(self._layout.partition_by) : -1]
        writer = f"{published_prefix(self._context.job_name)}{self._staging.name}"
        target = f"{writer}-{checkpoint_id}-{number}-{found['unique']}{found['suffix']}"
        return PendingFile(
            checkpoint_id=checkpoint_id, staged=path, target="/".join([self._path, *folders, target]), digest=digest
        )

    def _publish(self, files: tuple[PendingFile, ...], *, restored: bool) -> None:
        if not files:
            return
        self._staging.owner.check()
        waiting = self._waiting(files, restored=restored)
        for folder in {_parent(file.target) for file in waiting} - {self._path}:
            self._filesystem.make_folder(folder)
        for file in waiting:
            self._rename(file)
        # For all files, because renames of an earlier attempt may not be durable yet. The new names are synced first,
        # so that a file never loses both names.
        self._staging.sync(folder for file in files for folder in self._folders_of(file.target))
        self._staging.sync(_parent(file.staged) for file in waiting)

    def _waiting(self, files: tuple[PendingFile, ...], *, restored: bool) -> tuple[PendingFile, ...]:
        batches = {batch_folder(file.staged) for file in files}
        staged = {status.path: status.size_bytes for batch in batches for status in self._filesystem.files_below(batch)}
        for file in files:
            if file.staged in staged and file.digest is not None:
                check_size(file.staged, written=file.digest.size_bytes, found=staged[file.staged])
            if file.staged not in staged and not self._filesystem.exists(file.target):
                self._check_moved_away(file, restored=restored)
        waiting = tuple(file for file in files if file.staged in staged)
        StagedCheck(self._filesystem, self._context.scope.session, restored=restored).check_digests(
            [(file.staged, file.digest) for file in waiting if file.digest is not None]
        )
        return waiting

    def _check_moved_away(self, file: PendingFile, *, restored: bool) -> None:
        """Raise an error unless a missing file was published by an earlier attempt, and later moved from the output.

        While the folder of its job exists, staged files only disappear by being published, and then their batch's
        folder disappears too. Flink's local committer ignores such files as well. Files staged by another job may have
        been deleted with its folder.

        Raises:
            StagedFileError: the file is lost.
            SinkError: the disk is not mounted, or was not mounted before.
            OwnershipLostError: a later owner of the job has moved the file.
        """
        if restored and self._staging.was_published(batch_folder(file.staged)):
            logger.warning(
                "%s: %s no longer exists, and is assumed to be published", self._context.operator, file.target
            )
            return
        self._staging.owner.check()
        raise lost_file(self._filesystem, file.staged, file.target, file.target)

    def _rename(self, file: PendingFile) -> None:
        if self._filesystem.exists(file.target):
            if not self._is_same(file):
                raise StagedFileError(f"{file.target} exists already, and {file.staged} must not replace it")
            self._filesystem.delete(file.staged)
            return
        if not self._filesystem.rename(file.staged, file.target) and not self._filesystem.exists(file.target):
            self._staging.owner.check()
            raise SinkError(f"{file.staged} cannot be renamed to {file.target}")

    def _folders_of(self, target: str) -> Iterator[str]:
        folder = _parent(target)
        yield folder
        while folder.startswith(f"{self._path}/"):
            folder = _parent(folder)
            yield folder

    def _is_same(self, file: PendingFile) -> bool:
        """Return True if the target is a copy of the file, from a savepoint: no other file has this name."""
        return self._filesystem.size_bytes(file.staged) == self._filesystem.size_bytes(file.target)


def _parent(path: str) -> str:
    return path.rsplit("/", 1)[0]


OptionValue = str | int | float | bool

_ROWS_PER_FILE = "maxRecordsPerFile"
SUCCESS = "_SUCCESS"
"""The file with which Spark and Hadoop mark a folder as complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSink(Sink):
    """A folder to write to, whose readers always see only rows of completed checkpoints.

    Created by methods with the names of formats, such as `parquet`; the other methods return changed copies. The folder
    may contain files already, and others may write to it: nothing is overwritten, and only files staged by the job
    itself are deleted, in `.flykka-staging` below the folder. Sinks of one job may share a folder if they write one
    format, partitioned by the same columns.
    """

    needs_order: ClassVar[bool] = False

    path: str
    layout: FileLayout
    files_limit: int | None = None
    file_size_bytes: int | None = None
    marks_success: bool = False

    @classmethod
    def parquet(cls, path: str | PathLike[str], **options: OptionValue) -> Self:
        """Write parquet files to a folder, with options of Spark's writer: `parquet(path, compression="zstd")`."""
        return cls._of("parquet", path, options)

    @classmethod
    def orc(cls, path: str | PathLike[str], **options: OptionValue) -> Self:
        """Write orc files to a folder, with options of Spark's writer: `orc(path, compression="zlib")`."""
        return cls._of("orc", path, options)

    @classmethod
    def avro(cls, path: str | PathLike[str], **options: OptionValue) -> Self:
        """Write avro files to a folder, with options of Spark's writer: `avro(path, recordName="order")`."""
        return cls._of("avro", path, options)

    @classmethod
    def text(cls, path: str | PathLike[str], **options: OptionValue) -> Self:
        """Write text files. Rows have one column besides the partition columns, whose value is a line."""
        return cls._of("text", path, options)

    @classmethod
    def json(cls, path: str | PathLike[str], **options: OptionValue) -> Self:
        """Write json files, one object per line, with options of Spark's writer: `json(path, compression="gzip")`."""
        return cls._of("json", path, options)

    @classmethod
    def csv(cls, path: str | PathLike[str], **options: OptionValue) -> Self:
        """Write csv files, with options of Spark's writer: `csv(path, header=True, sep=";")`."""
        return cls._of("csv", path, options)

    @classmethod
    def _of(cls, file_format: FileFormat, path: str | PathLike[str], options: dict[str, OptionValue]) -> Self:
        if not str(path):
            raise ValueError("a FileSink needs the path of a folder, not an empty text")
        return cls(path=str(path), layout=FileLayout(format=file_format)).options(**options)

    def partition_by(self, *columns: str) -> Self:
        """Write rows with equal values of these columns to separate folders, `<column>=<value>/`, like Spark.

        The columns are in the names of the folders, and not in the files. Raises `TypeError` for anything but names.
        """
        if strange := [column for column in columns if not isinstance(column, str)]:
            raise TypeError(f"partition_by takes names of columns, not {strange[0]!r}")
        return replace(self, layout=replace(self.layout, partition_by=columns))

    def option(self, key: str, value: OptionValue) -> Self:
        """Set an option of Spark's writer, like `DataFrameWriter.option`."""
        return self.options(**{key: value})

    def options(self, **options: OptionValue) -> Self:
        """Set options of Spark's writer. Spark ignores the case of their names, and the last value wins.

        Raises:
            ValueError: an option would set the location of the files.
        """
        given = {key.lower() for key in options}
        if "path" in given:
            raise ValueError(f"the option 'path' does not apply: this FileSink writes to {self.path}")
        kept = tuple((key, value) for key, value in self.layout.options if key.lower() not in given)
        added = tuple((key, _text(value)) for key, value in options.items())
        return replace(self, layout=replace(self.layout, options=kept + added))

    def rows_per_file(self, rows: int) -> Self:
        """Start a new file after this many rows. Raises `ValueError` for less than 1."""
        return self.option(_ROWS_PER_FILE, _positive(rows, "rows per file"))

    def files_per_checkpoint(self, files: int) -> Self:
        """Write at most this many files per checkpoint, subtask and, if partitioned, partition.

        By default every batch writes separate files. With this limit, rows are written twice: as parquet when they
        arrive, and in the final format when the checkpoint is taken, which takes longer. Raises `ValueError` for less
        than 1.
        """
        return replace(self, files_limit=_positive(files, "files per checkpoint"))

    def file_size(self, size: MemorySize) -> Self:
        """Write files of about this size (`"128MB"`, or bytes) per checkpoint, and one smaller file with the remaining
        rows.

        Small batches are combined, and the rows of large batches are distributed to several files, as with
        `files_per_checkpoint`, in each subtask and at the same cost. Both limits may be set. The size is measured as
        parquet. Raises `ValueError` if the size cannot be parsed.
        """
        return replace(self, file_size_bytes=positive_size_bytes(size, "the file size"))

    def mark_success(self) -> Self:
        """Write an empty file `_SUCCESS` into the folder when the job has read all input and published its rows.

        Spark's own writers do the same. A `FileSource` that monitors the folder ends when it finds this file. A job
        that is stopped, and may be continued, does not write it.
        """
        return replace(self, marks_success=True)

    @property
    def format(self) -> FileFormat:
        return self.layout.format

    @property
    def read_as(self) -> str:
        return str(self.layout)

    def writer(self, context: SinkContext) -> FileWriter:
        return FileWriter(
            context, self.path, self.layout, files_limit=self.files_limit, file_size_bytes=self.file_size_bytes
        )

    def bound(self, session: SparkSession) -> Self:
        return replace(self, path=FileSystem(session).absolute(self.path))

    def check_rows(self, prototype: DataFrame) -> None:
        check_written(prototype, self.layout)

    def check_target(self, filesystem: FileSystem) -> None:
        if filesystem.exists(self.path) and not filesystem.is_folder(self.path):
            raise SinkError(f"{self.path} is a file: pass the path of a folder, into which a FileSink writes")
        check_staging(filesystem, self.path, STAGING)

    def target(self, filesystem: FileSystem) -> str:
        return filesystem.qualified(self.path)

    def published_files(self, filesystem: FileSystem, job_name: str) -> PublishedFiles:
        if not filesystem.is_folder(self.path):
            # If the path is a file, `check_target` reports that.
            return PublishedFiles(folder=self.path)
        published = published_files(self.path, filesystem.paths_below(self.path), job_name)
        staging = filesystem.list(f"{self.path}/{STAGING}")
        return replace(published, staging=tuple(status.name for status in staging))

    def unpublish(self, filesystem: FileSystem, published: PublishedFiles) -> None:
        """Delete the job's files, partitions that become empty, and the marker of a complete folder."""
        for path in published.own:
            filesystem.delete(path)
        if self.layout.partition_by:
            for folder in sorted({path.rsplit("/", 1)[0] for path in published.own}):
                filesystem.delete_if_empty(folder)
        if self.marks_success:
            filesystem.delete(f"{self.path}/{SUCCESS}")

    def finalize_global(self, filesystem: FileSystem) -> None:
        if self.marks_success:
            folder = filesystem.qualified(self.path)
            filesystem.write(f"{folder}/{SUCCESS}", b"")
            sync_files([f"{folder}/{SUCCESS}"])
            sync_names([folder])

    def staging_folder(self, job_id: JobId, checkpoint_directory: str) -> str:
        """Below the target, because a rename must stay within the file system."""
        return f"{self.path}/{STAGING}/{file_name_part(job_id)}"

    def __str__(self) -> str:
        return f"{self.format} {masked_uri(self.path)}"


def _text(value: OptionValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _positive(number: int, what: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ValueError(f"{what} must be a whole number from 1, not {number!r}")
    return number
