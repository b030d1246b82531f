"""The files of a job's checkpoints, on any file system of fsspec. Every call may block.

    <directory>/<job id>/job-graph              the submitted graph
    <directory>/<job id>/chk-<n>/_metadata      checkpoint n, which exists as soon as this file does
    <directory>/<job id>/chk-<n>/_continued     the id of a job that continued from it and left no checkpoint itself
    <directory>/<job id>/shared/                keyed state, written by the data plane and deleted from here
    <directory>/runs/<job name>                 last run of the jobs of this name and its outcome; `.owner`: its owner
    <archive directory>/<job id>.archive        everything that can be queried about an ended job
    <savepoint directory>/savepoint-<...>/      a savepoint: its `_metadata`, and all of its state

The metadata of a savepoint uses paths relative to its folder and refers to nothing outside of it, so that the folder
may be moved (Flink's RelativeFileStateHandle).

A file is one value of the codec after a header (`format.py`). The file is written under a temporary name and renamed,
so that a reader finds the whole file or no file. Deleting a file that does not exist is no error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from glob import escape
from typing import Self, TypeVar

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from flykka.actors.checkpoint_storage.file_digests import split_address, sync_folders
from flykka.actors.checkpoint_storage.file_names import SAVEPOINT, file_name_part, is_savepoint
from flykka.actors.checkpoint_storage.format import is_packed, packed, unpacked
from flykka.actors.checkpoint_storage.private_files import delete, make_folder, move_file
from flykka.actors.errors import (
    CheckpointDirectoryError,
    CheckpointFileNotFoundError,
    CheckpointFormatError,
    CheckpointStorageError,
)
from flykka.actors.machines.state.handles import with_paths
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint, SnapshotType
from flykka.messages.control.job_control import JobEnded, JobRun
from flykka.messages.graph.job_graph import CheckpointingSettings, JobGraph
from flykka.messages.monitoring.job_details import ArchivedJob
from flykka.messages.wire.codec import decode, encode
from flykka.messages.wire.errors import DecodeError
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Value
from flykka.messages.wire.tags import trace_tag
from flykka.runtime.permissions import PRIVATE, of_file

_METADATA = "_metadata"
_JOB = re.compile(r"[0-9a-f]{32}")
_CONTINUED = "_continued"
_JOB_GRAPH = "job-graph"
CHECKPOINT = "chk-"
RUNS = "runs"
_ARCHIVE = ".archive"
_HERE = "./"

V = TypeVar("V", bound=Value)


@trace_tag("checkpoint_storage.plain")
class CheckpointStorage:
    """The checkpoints below one directory: a local path, or an address such as `s3://bucket/checkpoints`.

    The directory is not accessed before the first call, so an actor may create this object in its turn. Every call
    raises `CheckpointDirectoryError` if the address is not supported, or a library that it needs is not installed.
    """

    def __init__(self, directory: str, permissions: int = PRIVATE, *, fsync: bool = True) -> None:
        """`permissions` are those of created folders. Files get the same permissions without the right to execute.

        With `fsync` written files and the folders that were created for them are durable.
        """
        self._directory = directory
        self._permissions = permissions
        self._fsync = fsync

    @classmethod
    def of(cls, settings: CheckpointingSettings) -> Self:
        return cls(settings.directory, settings.permissions, fsync=settings.fsync)

    @cached_property
    def _place(self) -> tuple[AbstractFileSystem, str]:
        try:
            fs, root = url_to_fs(self._directory)
        except (ValueError, ImportError, OSError) as error:
            raise CheckpointDirectoryError(
                f"the checkpoint directory {self._directory!r} cannot be used: {_first_line(error)}"
            ) from None
        return fs, root

    @property
    def _fs(self) -> AbstractFileSystem:
        return self._place[0]

    @property
    def _root(self) -> str:
        return self._place[1]

    @property
    def _is_local(self) -> bool:
        return isinstance(self._fs, LocalFileSystem)

    def write_metadata(self, checkpoint: CompletedCheckpoint, target_location: str | None = None) -> str:
        """Write the checkpoint's metadata. A savepoint's metadata is written below `target_location`. Returns its
        address.
        """
        if target_location is not None:
            # A savepoint may be on another file system than the job's own checkpoints.
            savepoints = CheckpointStorage(target_location, self._permissions, fsync=self._fsync)
            return savepoints._write_checkpoint(savepoints._root, checkpoint)
        return self._write_checkpoint(
            f"{self._job(checkpoint.job_id)}/{CHECKPOINT}{checkpoint.checkpoint_id}", checkpoint
        )

    def read_metadata(self, path: str) -> CompletedCheckpoint:
        """Read the checkpoint at `path` (its folder or metadata file), even if it has been moved.

        Raises:
            CheckpointFileNotFoundError: there is no such file.
            CheckpointFormatError: the file does not contain a checkpoint, or is incomplete.
            CheckpointVersionError: a newer version of flykka wrote the file.
            CheckpointStorageError: the file cannot be read.
        """
        folder = self._path(path).removesuffix(f"/{_METADATA}")
        checkpoint = replace(self._read(f"{folder}/{_METADATA}", CompletedCheckpoint), path=self._address(folder))
        if checkpoint.snapshot_type is not SnapshotType.SAVEPOINT:
            return checkpoint
        below = f"file:{folder}" if self._is_local else checkpoint.path
        return with_paths(
            checkpoint,
            lambda path_in_metadata: (
                below + path_in_metadata.removeprefix(".") if path_in_metadata.startswith(_HERE) else path_in_metadata
            ),
        )

    def beside(self, job: str, *, before: int) -> list[str]:
        folders = self._folders(escape(self._path(job)))
        numbered = {int(folder.rsplit(CHECKPOINT, 1)[1]): folder for folder in folders}
        return [self._address(numbered[number]) for number in sorted(numbered) if number < before]

    def latest(self, job_id: JobId) -> str | None:
        names = [folder.rsplit("/", 1)[-1] for folder in self._folders(escape(self._job(job_id)))]
        ids = [int(name.removeprefix(CHECKPOINT)) for name in names]
        return self._address(f"{self._job(job_id)}/{CHECKPOINT}{max(ids)}") if ids else None

    def addresses(self) -> list[str]:
        return [self._address(folder) for folder in self._folders(f"{escape(self._root)}/*")]

    def savepoints(self) -> list[str]:
        paths = self._fs.glob(f"{escape(self._root)}/{SAVEPOINT}*/{_METADATA}")
        return sorted(self._address(path.rsplit("/", 1)[0]) for path in paths)

    def exists(self, path: str) -> bool:
        return bool(self._fs.exists(self._path(path)))

    def size_of(self, path: str) -> int:
        return int(self._fs.du(self._path(path)))

    def drop_checkpoint(self, path: str) -> None:
        """Delete a checkpoint, its metadata first, so that no reader finds an incomplete checkpoint."""
        fs, folder = split_address(path)
        _remove(fs, f"{folder}/{_METADATA}")
        _remove(fs, folder)

    def discard(self, paths: Iterable[str]) -> None:
        """Delete files and folders of state. The folder of a savepoint is deleted when it is empty.

        If a deletion fails, the others are still done, and the first `OSError` is raised at the end.
        """
        errors: list[OSError] = []
        for address in paths:
            fs, path = split_address(address)
            try:
                _remove(fs, path)
            except OSError as error:
                errors.append(error)
                continue
            folder = path.rsplit("/", 1)[0]
            if is_savepoint(folder):
                with suppress(OSError):  # The folder is not empty.
                    fs.rmdir(folder)
        if errors:
            raise errors[0]

    def dispose(self, checkpoints: Iterable[str], state: Iterable[str]) -> None:
        for path in checkpoints:
            self.drop_checkpoint(path)
        self.discard(state)

    def write_job_graph(self, job_graph: JobGraph) -> None:
        try:
            self._write(f"{self._job(job_graph.job_id)}/{_JOB_GRAPH}", job_graph)
        except OSError as error:
            raise CheckpointDirectoryError(self._unwritable(error)) from error

    def read_job_graph(self, job_id: JobId) -> JobGraph:
        return self._read(f"{self._job(job_id)}/{_JOB_GRAPH}", JobGraph)

    def has_job(self, job_id: JobId) -> bool:
        """Return whether the job has a folder, which exists until the job ends without a retained checkpoint."""
        return bool(self._fs.exists(f"{self._job(job_id)}/{_JOB_GRAPH}"))

    def last_run(self, job_name: str) -> JobRun | None:
        """Return the last recorded run of the jobs with this name. Raises the errors of `read_metadata`."""
        try:
            return self._read(self._run(job_name), JobRun)
        except CheckpointFileNotFoundError:
            return None

    def record_run(self, run: JobRun) -> None:
        self._write(self._run(run.job_name), run)

    def record_end_of_run(self, job_name: str, end: JobEnded) -> None:
        """Record how the job has ended, unless the recorded run belongs to another job."""
        run = self.last_run(job_name)
        if run is not None and run.job_id == end.job_id:
            self.record_run(replace(run, status=end.status, checkpoint_path=end.checkpoint_path))

    def delete_job(self, job_id: JobId, continued: str | None = None) -> None:
        """Delete all files of the job. At the checkpoint `continued`, record that the job has continued from it."""
        try:
            # If that checkpoint has been deleted, no other job can continue from it.
            if continued is not None and self._fs.exists(self._path(continued)):
                self._write_file(f"{self._path(continued)}/{_CONTINUED}", packed(job_id.encode()))
        finally:
            _remove(self._fs, self._job(job_id))

    def continued_by(self, path: str) -> JobId | None:
        """Return the job that continued from the checkpoint at `path` and left no checkpoint itself, or None."""
        try:
            path = f"{self._path(path)}/{_CONTINUED}"
            data: bytes = self._fs.cat_file(path)
        except FileNotFoundError:
            return None
        # Older versions of flykka wrote the id without a header.
        return JobId((unpacked(path, data) if is_packed(data) else data).decode())

    def write_archive(self, archived: ArchivedJob) -> None:
        self._write(f"{self._root}/{archived.overview.job_id}{_ARCHIVE}", archived)

    def read_archive(self, path: str) -> ArchivedJob:
        return self._read(self._path(path), ArchivedJob)

    def archives(self) -> list[str]:
        """Return the addresses of the archives in this directory and below, sorted. Skips folders of jobs and
        savepoints.

        Raises `OSError`.
        """
        self._fs.invalidate_cache()
        addresses: list[str] = []
        for folder, folders, files in self._fs.walk(self._root):
            # The skipped folders contain many files, and in an object store each folder costs a request.
            folders[:] = [name for name in folders if not (_JOB.fullmatch(name) or is_savepoint(name))]
            addresses += [self._address(f"{folder.rstrip('/')}/{name}") for name in files if name.endswith(_ARCHIVE)]
        return sorted(addresses)

    def _write_checkpoint(self, folder: str, checkpoint: CompletedCheckpoint) -> str:
        address = self._address(folder)
        if checkpoint.snapshot_type is SnapshotType.SAVEPOINT:
            checkpoint = with_paths(checkpoint, lambda path: self._from(folder, path))
        try:
            self._write(f"{folder}/{_METADATA}", replace(checkpoint, path=address))
        except BaseException:
            # The file may exist without being durable. Nothing may start from this file, because the caller deletes
            # its state.
            if self._is_local:
                with suppress(OSError):
                    os.unlink(f"{folder}/{_METADATA}")
            raise
        return address

    def _from(self, folder: str, address: str) -> str:
        fs, path = split_address(address)
        is_inside = fs == self._fs and path.startswith(f"{folder}/")
        return _HERE + path.removeprefix(f"{folder}/") if is_inside else address

    def _job(self, job_id: JobId) -> str:
        return f"{self._root}/{job_id}"

    def _run(self, job_name: str) -> str:
        return f"{self._root}/{RUNS}/{file_name_part(job_name)}"

    def _folders(self, below: str) -> list[str]:
        return [path.rsplit("/", 1)[0] for path in self._fs.glob(f"{below}/{CHECKPOINT}*/{_METADATA}")]

    def _unwritable(self, error: OSError) -> str:
        if self._fs.isfile(self._root):
            return f"the checkpoint directory {self._root!r} is a file"
        return f"the checkpoint directory {self._root!r} cannot be written: {error.strerror or error}"

    def _path(self, address: str) -> str:
        stripped: str = self._fs._strip_protocol(address)
        return stripped

    def _address(self, path: str) -> str:
        return path if self._is_local else str(self._fs.unstrip_protocol(path))

    def _write(self, path: str, value: Value) -> None:
        self._write_file(path, packed(encode(value)))

    def _write_file(self, path: str, data: bytes) -> None:
        unfinished = f"{path}.inprogress"
        folder = path.rsplit("/", 1)[0]
        syncs = self._is_local and self._fsync
        try:
            make_folder(self._fs, folder, self._permissions, self._root, sync=syncs)
            with self._fs.open(unfinished, "wb") as file:
                file.write(data)
                if self._is_local:
                    os.fchmod(file.fileno(), of_file(self._permissions))
                if syncs:
                    file.flush()
                    os.fsync(file.fileno())
            move_file(self._fs, unfinished, path)
            if syncs:
                sync_folders([folder])
        except BaseException:
            _remove(self._fs, unfinished)
            with suppress(OSError):  # The folder is not empty.
                self._fs.rmdir(folder)
            raise

    def _read(self, path: str, expected: type[V]) -> V:
        try:
            data: bytes = self._fs.cat_file(path)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise CheckpointFileNotFoundError(f"{path}: there is no such file") from error
        except OSError as refusal:
            raise CheckpointStorageError(f"{path}: cannot be read: {refusal.strerror or refusal}") from refusal
        body = unpacked(path, data)
        try:
            value = decode(body)
        except DecodeError as refusal:
            raise CheckpointFormatError(f"{path}: {refusal}") from refusal
        if not isinstance(value, expected):
            raise CheckpointFormatError(f"{path}: it contains a {type(value).__name__}, not a {expected.__name__}")
        return value


def initialize_savepoint(directory: str, name: str, permissions: int = PRIVATE) -> str:
    """Create the folder of a new savepoint, and the directory if it does not exist. Returns the folder's address.

    Raises:
        CheckpointDirectoryError: the folder cannot be created.
    """
    cannot = f"the savepoint directory {directory!r} cannot be"
    savepoints = CheckpointStorage(directory, permissions)
    try:
        fs, root = savepoints._place
    except CheckpointDirectoryError as error:
        raise CheckpointDirectoryError(f"{cannot} used: {_first_line(error.__context__)}") from None
    folder = f"{root}/{name}"
    if fs.isfile(root):
        raise CheckpointDirectoryError(f"{cannot} written: it is a file")
    try:
        if fs.exists(folder):
            raise FileExistsError(folder)
        make_folder(fs, folder, permissions, root, sync=True)
    except FileExistsError as there:
        raise CheckpointDirectoryError(f"{folder!r} exists already: a savepoint never replaces another one") from there
    except OSError as refusal:
        raise CheckpointDirectoryError(f"{cannot} written: {refusal.strerror or refusal}") from refusal
    return savepoints._address(folder)


def discard_savepoint(location: str) -> None:
    _remove(*split_address(location))


def _first_line(error: BaseException | None) -> str:
    return str(error).partition("\n")[0]


def _remove(fs: AbstractFileSystem, path: str) -> None:
    with suppress(FileNotFoundError):
        delete(fs, path)


@trace_tag("checkpoint_storage.owned")
class OwnedCheckpointStorage(CheckpointStorage):
    """Checks the ownership of the job before each change: `confirm_owner` raises `OwnershipLostError` if it is lost."""

    def __init__(self, settings: CheckpointingSettings, confirm_owner: Callable[[], object]) -> None:
        super().__init__(settings.directory, settings.permissions, fsync=settings.fsync)
        self._confirm_owner = confirm_owner

    def write_metadata(self, checkpoint: CompletedCheckpoint, target_location: str | None = None) -> str:
        self._confirm_owner()
        return super().write_metadata(checkpoint, target_location)

    def dispose(self, checkpoints: Iterable[str], state: Iterable[str]) -> None:
        self._confirm_owner()
        super().dispose(checkpoints, state)

    def delete_job(self, job_id: JobId, continued: str | None = None) -> None:
        self._confirm_owner()
        super().delete_job(job_id, continued)
