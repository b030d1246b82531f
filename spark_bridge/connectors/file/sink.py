"""FileSink: files that appear exactly once, when the checkpoint that holds them is complete.

Rows are staged out of sight, and published by rename. Staged files lie below `<path>/.flykka-staging/<job>/`, which
Spark's readers ignore. At a snapshot each gets the name it will have, and staged path, name, size and digest go into
the checkpoint. When a checkpoint is complete, what it and those before it hold is renamed. A rename is repeated without
harm: a file whose source is gone and whose target is there has been published. So a restore publishes everything its
checkpoint holds, whatever the attempts before have come to do, and then deletes whatever else this subtask had staged.
Jobs that begin from one savepoint, and the one that goes on behind it, hold copies of a file: the first to publish it
does so for all of them. Nothing of a checkpoint is published unless all of it is as it was staged.

The name of a published file tells the job that has published it:

    part-<job>-<digest>-<uid>-<digest>-<subtask>-<checkpoint>-<number>-<what no other has>.<format>

A name is given with the rename, and stays true where the file is copied or moved to. A file of any other name is
nobody's: others have put it there, or a flykka whose names did not tell the job yet.
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
        found = _NAME.match(name)
        if found is None:
            foreign += 1
        elif name.startswith(published_prefix(job_name)):
            own.append(path)
        else:
            others[found["job"]] += 1
    return PublishedFiles(folder=folder, own=tuple(own), by_others=tuple(sorted(others.items())), foreign=foreign)


logger = logging.getLogger("flykka.spark_bridge")

STAGING = ".flykka-staging"

_NAME_OF_SPARK = re.compile(r"(?P<unique>[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})[-.]c\d+(?P<suffix>\..+)$")


class FileWriter(StagingWriter[PendingFile]):
    """The staged and pending files of one sink in one attempt.

    Where the number or the size of files is settled, batches are staged as parquet first, and written again at the
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
        """With a limit of files, or their size, batches are staged to be written again for each checkpoint."""
        super().__init__(context)
        self._path_as_given = path
        self._layout = layout
        self._files_limit, self._file_size_bytes = files_limit, file_size_bytes
        self._rows = StagedRows(self._staging) if files_limit is not None or file_size_bytes is not None else None

    def restore(self, prepared: Sequence[Value]) -> None:
        prepared = out_of_savepoint(self._filesystem, prepared, self._staging.folder)
        pending, folders = restored(prepared, PendingFile, self._context.operator, "file")
        warn_unchecked(self._context.operator, (file.digest for file in pending))
        # A batch may be published by several subtasks, each some files of it: its folder goes with all that was staged.
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
        # A checkpoint may be restored where a relative path leads elsewhere.
        return self._filesystem.qualified(self._path_as_given)

    def _rewritten(self, rows: StagedRows, checkpoint_id: int, names: tuple[str, ...]) -> tuple[str, ...]:
        if not names:
            return ()
        # What is read here is on disk: fewer partitions make the reading no slower than the writing.
        whole = read_staged(self._context.scope.session, rows.pop_staged(checkpoint_id, names))
        files = self._files_of(names)
        # To several files of one size rows are dealt; a limit alone may leave them where they are.
        grouped = whole.repartition(files) if files > 1 and self._file_size_bytes else whole.coalesce(files)
        batch = self._staging.write(grouped, self._layout)
        self._staging.discard(names)
        return batch.files

    def _files_of(self, batches: tuple[str, ...]) -> int:
        limit, size = self._files_limit, self._file_size_bytes
        wanted = limit if size is None else -(-sum(map(self._filesystem.bytes_below, batches)) // size)
        assert wanted is not None, "either is set where batches are staged to be written again"
        return wanted if limit is None else min(wanted, limit)

    def _named(self, checkpoint_id: int, number: int, path: str, digest: FileDigest) -> PendingFile:
        *_, name = parts = path.split("/")
        found = _NAME_OF_SPARK.search(name)
        assert found is not None, f"Spark's names of files have a UUID and a number, but {path} has none"
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
        # Of all files: renames that an attempt before has made may not be durable yet. The new names come first: a file
        # must not lose both.
        self._staging.sync(folder for file in files for folder in self._folders_of(file.target))
        self._staging.sync(_parent(file.staged) for file in waiting)

    def _waiting(self, files: tuple[PendingFile, ...], *, restored: bool) -> tuple[PendingFile, ...]:
        """The files that have yet to be published. Raises `StagedFileError` if one is missing or was changed."""
        batches = {batch_folder(file.staged) for file in files}
        staged = {status.path: status.size_bytes for batch in batches for status in self._filesystem.files_below(batch)}
        for file in files:
            if file.staged in staged and file.digest is not None:
                check_size(file.staged, written=file.digest.size_bytes, found=staged[file.staged])
            if file.staged not in staged and not self._filesystem.exists(file.target):
                self._check_taken_away(file, restored=restored)
        waiting = tuple(file for file in files if file.staged in staged)
        StagedCheck(self._filesystem, self._context.scope.session, restored=restored).check_digests(
            [(file.staged, file.digest) for file in waiting if file.digest is not None]
        )
        return waiting

    def _check_taken_away(self, file: PendingFile, *, restored: bool) -> None:
        """Raise unless a missing file was published by an attempt before, and moved from the output since.

        While the folder of its job is there, what is staged goes by being published and in no other way, and then its
        batch's folder goes too. Flink's local committer passes over such files as well. What another job has staged may
        have gone with its folder.

        Raises:
            StagedFileError: the file is lost.
            SinkError: the disk is away, or was, and not the file.
            OwnershipLostError: a later owner of the job has moved the file.
        """
        if restored and self._staging.was_published(batch_folder(file.staged)):
            logger.warning("%s: %s is no longer there: taken for published", self._context.operator, file.target)
            return
        self._staging.owner.check()
        raise lost_file(self._filesystem, file.staged, file.target, file.target)

    def _rename(self, file: PendingFile) -> None:
        if self._filesystem.exists(file.target):
            if not self._is_same(file):
                raise StagedFileError(f"{file.target} is there already, and {file.staged} waits to become it")
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
        """True if what is there is a copy of the file, out of a savepoint: no other file has its name."""
        return self._filesystem.size_bytes(file.staged) == self._filesystem.size_bytes(file.target)


def _parent(path: str) -> str:
    return path.rsplit("/", 1)[0]


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

    needs_order: ClassVar[bool] = False

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
        return self.layout.format

    @property
    def read_as(self) -> str:
        """Format and partitions: Spark reads a folder in one way."""
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
            raise SinkError(f"{self.path} is a file; a FileSink writes into a folder: give the path of one")
        check_staging(filesystem, self.path, STAGING)

    def target(self, filesystem: FileSystem) -> str:
        return filesystem.qualified(self.path)

    def published_files(self, filesystem: FileSystem, job_name: str) -> PublishedFiles:
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
        if self.marks_success:
            folder = filesystem.qualified(self.path)
            filesystem.write(f"{folder}/{SUCCESS}", b"")
            sync_files([f"{folder}/{SUCCESS}"])
            sync_names([folder])

    def staging_folder(self, job_id: JobId, checkpoint_directory: str) -> str:
        """Below the folder itself, for a rename must not leave the file system."""
        return f"{self.path}/{STAGING}/{file_name_part(job_id)}"

    def __str__(self) -> str:
        return f"{self.format} {masked_uri(self.path)}"


def _text(value: OptionValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _positive(number: int, what: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ValueError(f"{what} must be a whole number from 1, not {number!r}")
    return number
