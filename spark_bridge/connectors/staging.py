"""Folders in which a subtask of a sink stages rows.

Their names are `<the job's staging folder>/<owner>/<uid>-<subtask>-of-<parallelism>/<attempt>-<batch>/`. The uid is
followed by a digest, because uids that look alike in a file name must not discard each other's files. With another
parallelism a subtask uses another folder, because files in its former folder may now belong to another subtask. The
owner is the number of the process that runs the job: see `StagingOwner`.

At a barrier the staged files are made durable, and the checkpoint records their sizes and digests. Before they are
published, their sizes are compared, and after a restore their digests.

A job with a new id that continues from a checkpoint of another job has its own staging folder. The other job's folder
stays until the new job has completed a checkpoint, because until then those staged rows may be needed again.
"""

from __future__ import annotations

import json
import logging
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from pathlib import PurePath
from typing import TYPE_CHECKING, Generic, TypeVar

from pyspark.sql.types import StructType

from flykka.actors.checkpoint_storage.file_digests import is_local, split_address, sync_folders
from flykka.actors.checkpoint_storage.file_names import file_name_part
from flykka.actors.checkpoint_storage.staged_paths import (
    BEFORE_NUMBERS,
    FROM,
    batch_folder,
    current_path,
    folders_above,
    job_folder,
)
from flykka.actors.errors import CheckpointFormatError, CheckpointStateMissingError, OwnershipLostError
from flykka.actors.machines.state.operator_state import Committables
from flykka.messages.state.handles import FileDigest, PendingFile, StagedBatch, StagingFolder
from flykka.messages.wire.message import Value
from flykka.spark_bridge.errors import SinkError, StagedFileError
from flykka.spark_bridge.program.sink_writer import SinkWriter, Staged
from flykka.spark_bridge.rows.files import PARQUET, FileLayout, read_parquet, write_files
from flykka.spark_bridge.rows.materialise import counted, numbers_of, together
from flykka.spark_bridge.state.file_digests import seal, verify

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flykka.spark_bridge.program.sink import SinkContext
    from flykka.spark_bridge.rows.filesystem import FileSystem


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingOwner:
    """The owner `number` of the rows that a job stages in `root`, a path with its scheme.

    Owners are processes that run the job one after the other, each with a higher number. A new owner moves the folders
    of earlier owners into its own folder, to `<number>/from-<former number>/`, before it chooses the checkpoint to
    continue from. An earlier owner that was paused and resumes does not find the rows that it was about to publish.
    Rows that it stages later are not published either, because it finds the folder of a later owner first.

    Renaming a folder is atomic on local file systems and HDFS. On an object store it copies object by object: an
    earlier owner that resumes during these copies may publish one more file, between its check for a later owner and
    its rename.
    """

    filesystem: FileSystem
    root: str
    number: int

    @property
    def folder(self) -> str:
        return f"{self.root}/{self.number}"

    def check(self) -> None:
        """Raise `OwnershipLostError` if another process has become the owner. Lists one folder."""
        later = [
            number for number in map(_number, self._names(self.root)) if number is not None and number > self.number
        ]
        if later:
            raise OwnershipLostError(
                f"this process is no longer the owner of {self.root}: it was owner number {self.number}, and number"
                f" {max(later)} has continued the job and publishes the unpublished rows"
            )

    def take_over(self) -> None:
        """Move the staged rows of former owners into this owner's folder. May be repeated.

        Raises:
            OwnershipLostError: there is a later owner already.
            SinkError: a folder cannot be moved.
        """
        self.check()
        former = [name for name in self._names(self.root) if name != str(self.number)]
        if not former:
            return
        # Created before the first move: an earlier owner then finds this folder, or its rows moved away.
        self.filesystem.make_folder(self.folder)
        for name in sorted(former, key=lambda name: (_number(name) is None, name)):
            place = f"{self.root}/{name}"
            if _number(name) is None:
                self._move(place, f"{self.folder}/{FROM}{BEFORE_NUMBERS}/{name}")
                continue
            for status in self.filesystem.list(place):
                if status.name.startswith(FROM):
                    self._move(f"{place}/{status.name}", f"{self.folder}/{status.name}")
            self._move(place, f"{self.folder}/{FROM}{name}")

    def find(self, path: str) -> str:
        """Return the current path of a staged file or folder that a checkpoint of this or another job has recorded as
        `path`.

        The same owner has moved the rows of both jobs.
        """
        return current_path(path, self._names, self.filesystem.exists, self.number)

    def taken_over(self) -> list[str]:
        return [f"{self.folder}/{name}" for name in self._names(self.folder) if name.startswith(FROM)]

    def delete(self) -> None:
        self.filesystem.delete(self.folder)
        if self.filesystem.delete_if_empty(self.root):
            self.filesystem.delete_if_empty(self.root.rsplit("/", 1)[0])

    def _names(self, folder: str) -> list[str]:
        return [status.name for status in self.filesystem.list(folder)]

    def _move(self, source: str, target: str) -> None:
        if not self.filesystem.exists(target):
            self.filesystem.make_folder(target.rsplit("/", 1)[0])
            if self.filesystem.rename(source, target) or not self.filesystem.exists(source):
                return
            raise SinkError(f"{source}, which a former owner of the job has staged, cannot be moved to {target}")
        # Without an atomic rename, an owner that died may have moved only some of the files.
        for status in self.filesystem.list(source):
            self._move(f"{source}/{status.name}", f"{target}/{status.name}")
        self.filesystem.delete(source)


def delete_empty(filesystem: FileSystem, staged: str) -> None:
    for folder in folders_above(staged):
        if not filesystem.delete_if_empty(folder):
            return


def _number(name: str) -> int | None:
    return int(name) if name.isdecimal() else None


logger = logging.getLogger("flykka.spark_bridge")

Pending = TypeVar("Pending", PendingFile, StagedBatch)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBatch:
    folder: str
    files: tuple[str, ...] = ()
    rows: int = 0


class Staging:
    def __init__(self, context: SinkContext) -> None:
        assert context.staging_folder is not None, f"{context.uid!r} has no staging folder"
        self.name = f"{file_name_part(context.uid)}-{context.subtask}"
        self._context = context
        self._filesystem = context.filesystem
        self._job_folder = context.staging_folder
        self._of_parallelism = f"-of-{context.parallelism}"
        self._numbers = count(1)
        self._inherited: frozenset[str] = frozenset()
        # The sizes of files in each batch folder after they were written.
        self._sizes: dict[str, dict[str, int]] = {}
        self._has_durable_name = False

    @cached_property
    def owner(self) -> StagingOwner:
        root = self._filesystem.qualified(self._job_folder)
        return StagingOwner(filesystem=self._filesystem, root=root, number=self._context.owner_number)

    @cached_property
    def folder(self) -> str:
        return f"{self.owner.folder}/{self.name}{self._of_parallelism}"

    def was_published(self, batch: str) -> bool:
        """Return True if an earlier attempt has published a batch: its folder was deleted, and its job's folder exists.

        Raises `SinkError` if the folder of this job is missing, which is never deleted while the job runs.
        """
        job = job_folder(batch)
        is_published = _is_gone(self._filesystem, job, batch)
        if job == self.owner.root and not self._filesystem.exists(self._job_folder):
            raise SinkError(
                f"{self._context.operator}: the folder {self._job_folder} with the staged files of the job"
                " is missing: is its disk or share unavailable? The unpublished files in the folder are not discarded"
            )
        return is_published

    @property
    def folders(self) -> tuple[StagingFolder, ...]:
        """The folders to record in a checkpoint. An attempt that restores the checkpoint clears them."""
        return tuple(StagingFolder(path=path) for path in (self.folder, *sorted(self._inherited)))

    def write(self, rows: DataFrame, layout: FileLayout = PARQUET) -> WrittenBatch:
        """Write one batch, with one Spark job. Thread-safe."""
        self._context.scope.check()
        folder = f"{self.folder}/{self._context.attempt_number}-{next(self._numbers)}"
        observation, observed = counted(rows, {})
        files = write_files(self._filesystem, observed, folder, layout)
        number_of_rows = int(numbers_of(observation).get("rows", 0))
        if not number_of_rows:
            # Spark writes a file even if there are no rows.
            self._filesystem.delete(folder)
            return WrittenBatch(folder=folder)
        if not files:
            raise SinkError(
                f"{self._context.operator} has written {number_of_rows} rows to {folder}, but no file is found there"
            )
        self._sizes[folder] = {status.path: status.size_bytes for status in files}
        return WrittenBatch(folder=folder, files=tuple(status.path for status in files), rows=number_of_rows)

    def seal(self, files: Sequence[str]) -> tuple[FileDigest, ...]:
        """Make staged files durable, and return their digests, by names in the subtask's folder. May run a Spark job.

        Raises:
            StagedFileError: a file has changed since it was written.
            OwnershipLostError: a later owner of the job has moved a file.
        """
        if not files:
            return ()
        if self._context.fsync and not self._has_durable_name:
            _sync_above(self.owner.root)
            self._has_durable_name = True
        session, top = self._context.scope.session, self.owner.root
        try:
            digests = seal(session, files, self.folder, within=top, sync=self._context.fsync)
        except FileNotFoundError as gone:
            self.owner.check()
            raise lost_file(self._filesystem, gone.filename, "its checkpoint") from gone
        for file, digest in zip(files, digests, strict=True):
            check_size(file, written=self._sizes[batch_folder(file)][file], found=digest.size_bytes)
        return digests

    def files_in(self, batches: Iterable[str]) -> list[str]:
        return [file for batch in batches for file in self._sizes[batch]]

    def sync(self, folders: Iterable[str]) -> None:
        if self._context.fsync:
            sync_names(folders)

    def discard(self, batches: Iterable[str]) -> None:
        for folder in set(batches):
            self._filesystem.delete(folder)
            self._sizes.pop(folder, None)

    def restore(self, folders: Iterable[StagingFolder]) -> None:
        """Discard all rows staged by earlier attempts. `folders` are the folders in the restored checkpoint.

        Folders of this job at this parallelism belong to other subtasks, which clear them.
        """
        own = f"{self.name}{self._of_parallelism}"
        self._filesystem.delete(self.folder)
        for folder in self.owner.taken_over():
            self._filesystem.delete(f"{folder}/{own}")
            self._filesystem.delete_if_empty(folder)
        job = f"{self.owner.root}/"
        paths = [self.owner.find(folder.path) for folder in folders]
        self._inherited = frozenset(
            path for path in paths if not (path.startswith(job) and path.endswith(self._of_parallelism))
        )

    def release_inherited(self) -> None:
        """Delete folders inherited from another job, after this job has completed a checkpoint."""
        for folder in self._inherited:
            self._filesystem.delete(folder)
            delete_empty(self._filesystem, folder)
        self._inherited = frozenset()


def check_staging(filesystem: FileSystem, target: str, staging: str) -> None:
    """Create and remove a test folder in the `staging` folder of a sink's target. May block. Raises `SinkError`."""
    was_there = filesystem.exists(target)
    trial = f"{target}/{staging}/trial"
    try:
        filesystem.make_folder(trial)
    except OSError as refused:
        raise SinkError(f"{target} cannot be written to: {refused}") from refused
    for folder in (trial, f"{target}/{staging}", *(() if was_there else (target,))):
        filesystem.delete_if_empty(folder)


Prepared = TypeVar("Prepared", bound=Value)


def restored(
    prepared: Iterable[Value], pending: type[Prepared], operator: str, kind: str
) -> tuple[tuple[Prepared, ...], tuple[StagingFolder, ...]]:
    """Read a sink's state: pending elements, and folders to clear. Raises `SinkError` for another sink's elements."""
    waiting: list[Prepared] = []
    folders: list[StagingFolder] = []
    for piece in prepared:
        match piece:
            case StagingFolder():
                folders.append(piece)
            case _ if isinstance(piece, pending):
                waiting.append(piece)
            case _:
                kind_of_piece = type(piece).__name__
                raise SinkError(
                    f"{operator} is a {kind} sink, but the checkpoint contains a {kind_of_piece} under its uid"
                )
    return tuple(waiting), tuple(folders)


class StagingWriter(SinkWriter["DataFrame"], Generic[Pending]):
    def __init__(self, context: SinkContext) -> None:
        self._context = context
        self._filesystem = context.filesystem
        self._staging = Staging(context)
        self._committables: Committables[Pending] = Committables()

    def commit(self, checkpoint_id: int) -> tuple[str, ...]:
        published = self._commit(self._committables.due(checkpoint_id))
        self._committables.on_committed(checkpoint_id)
        self._staging.release_inherited()
        return published

    @abstractmethod
    def _commit(self, due: tuple[Pending, ...]) -> tuple[str, ...]:
        """Publish rows staged by this attempt. Return the files that readers can see now."""


class StagedRows:
    """Batches that are staged unchanged until they are read again, by this attempt or a later attempt."""

    def __init__(self, staging: Staging, layout: FileLayout = PARQUET) -> None:
        self._staging = staging
        self._layout = layout
        self._schemas: dict[str, str] = {}

    def stage(self, rows: DataFrame) -> Staged:
        """Write one batch, with one Spark job. Thread-safe."""
        batch = self._staging.write(rows, self._layout)
        if not batch.rows:
            return Staged(rows=0)
        self._schemas[batch.folder] = rows.schema.json()
        return Staged(rows=batch.rows, names=(batch.folder,))

    def pop_staged(self, checkpoint_id: int, names: tuple[str, ...]) -> tuple[StagedBatch, ...]:
        return tuple(
            StagedBatch(checkpoint_id=checkpoint_id, path=name, schema=self._schemas.pop(name)) for name in names
        )

    def pop_sealed(self, checkpoint_id: int, names: tuple[str, ...]) -> tuple[StagedBatch, ...]:
        """Return the batches with these names for a checkpoint, durable and with digests. Raises like `seal`."""
        batches = self.pop_staged(checkpoint_id, names)
        files = self._staging.files_in(names)
        digests: dict[str, list[FileDigest]] = {}
        for path, digest in zip(files, self._staging.seal(files), strict=True):
            folder = batch_folder(path)
            digests.setdefault(folder, []).append(replace(digest, name=path.removeprefix(f"{folder}/")))
        return tuple(replace(batch, files=tuple(digests[batch.path])) for batch in batches)


class StagedCheck:
    """Compares staged files with the records of their checkpoint: sizes and, if the checkpoint was `restored`, digests.

    Checkpoints of older versions have no such records.
    """

    def __init__(self, filesystem: FileSystem, session: SparkSession, *, restored: bool) -> None:
        self._filesystem = filesystem
        self._session = session
        self._restored = restored

    def check_batches(self, batches: Iterable[StagedBatch]) -> None:
        checked: list[tuple[str, FileDigest]] = []
        for batch in batches:
            purpose = f"checkpoint {batch.checkpoint_id}"
            if not self._filesystem.exists(batch.path):
                raise lost_file(self._filesystem, batch.path, purpose)
            sizes = {status.path: status.size_bytes for status in self._filesystem.files_below(batch.path)}
            for file in batch.files:
                path = f"{batch.path}/{file.name}"
                if path not in sizes:
                    raise lost_file(self._filesystem, path, purpose)
                check_size(path, written=file.size_bytes, found=sizes[path])
                checked.append((path, file))
        self.check_digests(checked)

    def check_digests(self, files: Sequence[tuple[str, FileDigest]]) -> None:
        """Compare files after a restore. May run a Spark job. Raises `StagedFileError`, which names a file."""
        if not self._restored:
            return
        try:
            verify(self._session, files)
        except CheckpointStateMissingError as missing:
            # The file existed a moment ago. The next attempt will find out whether it is lost.
            raise SinkError(f"{missing}, but has to be published") from None
        except CheckpointFormatError as damaged:
            raise StagedFileError(f"{damaged}: it was staged by a sink and cannot be published") from damaged


def lost_file(filesystem: FileSystem, staged: str, purpose: str, *published: str) -> StagedFileError:
    """Return the error for a missing staged file whose `published` paths are missing too.

    Raises `SinkError` like `check_gone`.
    """
    check_gone(filesystem, staged, *published)
    return StagedFileError(f"{staged} was staged for {purpose} and is missing: its rows would be lost")


def check_gone(filesystem: FileSystem, *paths: str) -> None:
    """Raise `SinkError` if a staged file or folder, or a path to which it was moved, exists or cannot be seen because
    its disk or share is unavailable. The rows are then not lost, and the job can restart.
    """
    # The output folder or the checkpoint directory, which is never deleted together with the staged rows below it.
    top = job_folder(paths[0]).rsplit("/", 2)[0]
    if not _is_gone(filesystem, top, *paths):
        raise SinkError(
            f"{paths[0]} was temporarily missing: is, or was, the disk or share of {top} unavailable? Its"
            " unpublished files are not discarded"
        )


def _is_gone(filesystem: FileSystem, folder: str, *paths: str) -> bool:
    """Return True if none of the paths exists while `folder` does: without the folder, the disk may be unavailable."""
    was_there = filesystem.is_folder(folder)
    current = current_path(
        paths[0], lambda below: [status.name for status in filesystem.list(below)], filesystem.exists
    )
    return was_there and not any(map(filesystem.exists, (*paths, current))) and filesystem.is_folder(folder)


def check_size(path: str, *, written: int, found: int) -> None:
    if found != written:
        raise StagedFileError(
            f"{path} is damaged: {written} bytes were staged, but it has {found}; its rows cannot be published"
        )


def sync_names(folders: Iterable[str]) -> None:
    for folder in sorted(set(folders), key=lambda folder: (-folder.count("/"), folder)):
        # A deleted folder has no names to sync.
        with suppress(FileNotFoundError):
            sync_folders([split_address(folder)[1]] if is_local(folder) else [])


def warn_unchecked(operator: str, digests: Iterable[object]) -> None:
    if None in digests:
        logger.info("%s: its checkpoint was written by an older version, without digests of staged files", operator)


def _sync_above(root: str) -> None:
    """Make the names of all parent folders of a local folder durable, because Spark has created missing parents."""
    if is_local(root):
        _, path = split_address(root)
        sync_folders(map(str, PurePath(path).parents))


def read_staged(session: SparkSession, batches: Sequence[StagedBatch]) -> DataFrame:
    paths: dict[str, list[str]] = {}
    for batch in batches:
        paths.setdefault(batch.schema, []).append(batch.path)
    return together(
        [read_parquet(session, folders, StructType.fromJson(json.loads(schema))) for schema, folders in paths.items()]
    )
