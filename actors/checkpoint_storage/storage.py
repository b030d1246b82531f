"""The files of a job's checkpoints, on whatever fsspec can reach. Every call may block.

    <directory>/<job id>/job-graph              what was submitted
    <directory>/<job id>/chk-<n>/_metadata      checkpoint n, which exists from the moment this file does
    <directory>/<job id>/chk-<n>/_continued     the id of a job that has gone on from it, and has left none of its own
    <directory>/<job id>/shared/                keyed state, written by the data plane and deleted from here
    <directory>/runs/<job name>                 the last run of the jobs of this name, how it ended; `.owner`: its owner
    <archive directory>/<job id>.archive        all that could be asked about a job when it had ended
    <savepoint directory>/savepoint-<...>/      a savepoint: its `_metadata`, and all of its state

What lies in the folder of a savepoint is named in its metadata from there on: it refers to nothing else, and may be
moved (Flink's RelativeFileStateHandle).

A file is one value of the codec behind a header (`format.py`). It is written under another name and renamed,
so that a reader finds it whole or not at all. To delete what is gone is no error.
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

from flykka.actors.checkpoint_storage.file_digests import located, sync_folders
from flykka.actors.checkpoint_storage.file_names import SAVEPOINT, in_a_name, is_savepoint
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
"""The prefix of the folders of checkpoints, which are numbered."""
RUNS = "runs"
_ARCHIVE = ".archive"
_HERE = "./"
"""The prefix of paths that are relative to the folder of a checkpoint."""

V = TypeVar("V", bound=Value)


@trace_tag("checkpoint_storage.plain")
class CheckpointStorage:
    """The checkpoints below one directory: a path of this machine, or an address such as `s3://bucket/checkpoints`.

    Nothing is looked at before the first call: an actor may make one in its turn. Every call raises
    `CheckpointDirectoryError` where there is no way to such an address, or what it needs is not installed.
    """

    def __init__(self, directory: str, permissions: int = PRIVATE, *, fsync: bool = True) -> None:
        """Local folders that are made have these `permissions`, and files the same without the right to execute.

        With `fsync` a file is durable when it was written, with the folders that were made for it.
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
        except (ValueError, ImportError, OSError) as unknown:
            raise CheckpointDirectoryError(
                f"the checkpoint directory {self._directory!r} cannot be used: {_first_line(unknown)}"
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
        """Make the checkpoint exist, below `target_location` if it is a savepoint's; returns its address."""
        if target_location is not None:
            # It may be on another file system than the job's own checkpoints.
            savepoints = CheckpointStorage(target_location, self._permissions, fsync=self._fsync)
            return savepoints._write_checkpoint(savepoints._root, checkpoint)
        return self._write_checkpoint(
            f"{self._job(checkpoint.job_id)}/{CHECKPOINT}{checkpoint.checkpoint_id}", checkpoint
        )

    def read_metadata(self, path: str) -> CompletedCheckpoint:
        """The checkpoint at `path`, its folder or its metadata file, wherever it may have been moved to.

        Raises:
            CheckpointFileNotFoundError: there is none.
            CheckpointFormatError: the file is not a checkpoint's, or not whole.
            CheckpointVersionError: a newer version wrote it.
            CheckpointStorageError: it may not be read.
        """
        folder = self._path(path).removesuffix(f"/{_METADATA}")
        written = replace(self._read(f"{folder}/{_METADATA}", CompletedCheckpoint), path=self._address(folder))
        if written.snapshot_type is not SnapshotType.SAVEPOINT:
            return written
        below = f"file:{folder}" if self._is_local else written.path
        return with_paths(written, lambda named: below + named.removeprefix(".") if named.startswith(_HERE) else named)

    def beside(self, job: str, *, before: int) -> list[str]:
        """The addresses of the checkpoints in the folder of a job whose numbers are lower, in their order."""
        folders = self._folders(escape(self._path(job)))
        numbered = {int(folder.rsplit(CHECKPOINT, 1)[1]): folder for folder in folders}
        return [self._address(numbered[number]) for number in sorted(numbered) if number < before]

    def latest(self, job_id: JobId) -> str | None:
        """The address of the newest checkpoint that exists, None where there is none."""
        names = [folder.rsplit("/", 1)[-1] for folder in self._folders(escape(self._job(job_id)))]
        ids = [int(name.removeprefix(CHECKPOINT)) for name in names]
        return self._address(f"{self._job(job_id)}/{CHECKPOINT}{max(ids)}") if ids else None

    def addresses(self) -> list[str]:
        """The addresses of every checkpoint that exists, of all jobs, in no order."""
        return [self._address(folder) for folder in self._folders(f"{escape(self._root)}/*")]

    def savepoints(self) -> list[str]:
        """The addresses of the savepoints that lie side by side in the directory, by name."""
        found = self._fs.glob(f"{escape(self._root)}/{SAVEPOINT}*/{_METADATA}")
        return sorted(self._address(path.rsplit("/", 1)[0]) for path in found)

    def exists(self, path: str) -> bool:
        return bool(self._fs.exists(self._path(path)))

    def size_of(self, path: str) -> int:
        """The total size of a file, or of the files in a folder, in bytes."""
        return int(self._fs.du(self._path(path)))

    def drop_checkpoint(self, path: str) -> None:
        """Delete a checkpoint: from the first step on it does not exist any more."""
        fs, folder = located(path)
        _remove(fs, f"{folder}/{_METADATA}")
        _remove(fs, folder)

    def discard(self, paths: Iterable[str]) -> None:
        """Delete files and folders of state, and with the last of a savepoint that was given up its folder.

        What can be deleted is, whatever becomes of the rest. Raises the first `OSError` behind that.
        """
        refusals: list[OSError] = []
        for address in paths:
            fs, path = located(address)
            try:
                _remove(fs, path)
            except OSError as refusal:
                refusals.append(refusal)
                continue
            folder = path.rsplit("/", 1)[0]
            if is_savepoint(folder):
                with suppress(OSError):  # It holds something else.
                    fs.rmdir(folder)
        if refusals:
            raise refusals[0]

    def dispose(self, checkpoints: Iterable[str], state: Iterable[str]) -> None:
        """Delete checkpoints, then state that they may have referred to."""
        for path in checkpoints:
            self.drop_checkpoint(path)
        self.discard(state)

    def write_job_graph(self, job_graph: JobGraph) -> None:
        """Persist what was submitted.

        Raises:
            CheckpointDirectoryError: nothing can be written there.
        """
        try:
            self._write(f"{self._job(job_graph.job_id)}/{_JOB_GRAPH}", job_graph)
        except OSError as refusal:
            raise CheckpointDirectoryError(self._unwritable(refusal)) from refusal

    def read_job_graph(self, job_id: JobId) -> JobGraph:
        """The job graph submitted under this id. Raises as `read_metadata` does."""
        return self._read(f"{self._job(job_id)}/{_JOB_GRAPH}", JobGraph)

    def has_job(self, job_id: JobId) -> bool:
        """True if a job is there: from its acceptance until an end that keeps no checkpoint."""
        return bool(self._fs.exists(f"{self._job(job_id)}/{_JOB_GRAPH}"))

    def last_run(self, job_name: str) -> JobRun | None:
        """The last run of the jobs of this name; None where none is noted. Raises as `read_metadata` does."""
        try:
            return self._read(self._run(job_name), JobRun)
        except CheckpointFileNotFoundError:
            return None

    def note_run(self, run: JobRun) -> None:
        """Note that a job runs, in place of the run before it. Raises `OSError`."""
        self._write(self._run(run.job_name), run)

    def note_end_of_run(self, job_name: str, end: JobEnded) -> None:
        """Note how a job has ended whose run is noted; nothing happens where another run is. Raises `OSError`."""
        run = self.last_run(job_name)
        if run is not None and run.job_id == end.job_id:
            self.note_run(replace(run, status=end.status, checkpoint_path=end.checkpoint_path))

    def delete_job(self, job_id: JobId, continued: str | None = None) -> None:
        """Delete everything of the job, and note beside the checkpoint `continued` that it has gone on from there."""
        try:
            # Where that one is gone, nobody else can go on from it.
            if continued is not None and self._fs.exists(self._path(continued)):
                self._write_file(f"{self._path(continued)}/{_CONTINUED}", packed(job_id.encode()))
        finally:
            _remove(self._fs, self._job(job_id))

    def continued_by(self, path: str) -> JobId | None:
        """The job that has gone on from the checkpoint at `path` and has left none of its own, if there is one."""
        try:
            path = f"{self._path(path)}/{_CONTINUED}"
            data: bytes = self._fs.cat_file(path)
        except FileNotFoundError:
            return None
        # An older flykka has written the id alone.
        return JobId((unpacked(path, data) if is_packed(data) else data).decode())

    def write_archive(self, archived: ArchivedJob) -> None:
        """Write the archive of a job right here. Raises `OSError`."""
        self._write(f"{self._root}/{archived.overview.job_id}{_ARCHIVE}", archived)

    def read_archive(self, path: str) -> ArchivedJob:
        """The archive at `path`. Raises as `read_metadata` does."""
        return self._read(self._path(path), ArchivedJob)

    def archives(self) -> list[str]:
        """The addresses of the archives here and in folders below, by name; those of checkpoints have none.

        Raises `OSError`.
        """
        self._fs.invalidate_cache()
        found: list[str] = []
        for folder, folders, files in self._fs.walk(self._root):
            # Their files are many, and in an object store each of their folders is a request.
            folders[:] = [name for name in folders if not (_JOB.fullmatch(name) or is_savepoint(name))]
            found += [self._address(f"{folder.rstrip('/')}/{name}") for name in files if name.endswith(_ARCHIVE)]
        return sorted(found)

    def _write_checkpoint(self, folder: str, checkpoint: CompletedCheckpoint) -> str:
        address = self._address(folder)
        if checkpoint.snapshot_type is SnapshotType.SAVEPOINT:
            checkpoint = with_paths(checkpoint, lambda path: self._from(folder, path))
        try:
            self._write(f"{folder}/{_METADATA}", replace(checkpoint, path=address))
        except BaseException:
            # It may have its name and not be durable: the caller deletes the state, and nothing may start from it.
            if self._is_local:
                with suppress(OSError):
                    os.unlink(f"{folder}/{_METADATA}")
            raise
        return address

    def _from(self, folder: str, address: str) -> str:
        """Make paths in a folder relative to it; all others stay addresses."""
        fs, path = located(address)
        is_inside = fs == self._fs and path.startswith(f"{folder}/")
        return _HERE + path.removeprefix(f"{folder}/") if is_inside else address

    def _job(self, job_id: JobId) -> str:
        return f"{self._root}/{job_id}"

    def _run(self, job_name: str) -> str:
        return f"{self._root}/{RUNS}/{in_a_name(job_name)}"

    def _folders(self, below: str) -> list[str]:
        return [path.rsplit("/", 1)[0] for path in self._fs.glob(f"{below}/{CHECKPOINT}*/{_METADATA}")]

    def _unwritable(self, refusal: OSError) -> str:
        if self._fs.isfile(self._root):
            return f"the checkpoint directory {self._root!r} is a file"
        return f"the checkpoint directory {self._root!r} cannot be written: {refusal.strerror or refusal}"

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
            with suppress(OSError):  # It holds something else.
                self._fs.rmdir(folder)
            raise

    def _read(self, path: str, expected: type[V]) -> V:
        try:
            data: bytes = self._fs.cat_file(path)
        except (FileNotFoundError, NotADirectoryError) as missing:
            raise CheckpointFileNotFoundError(f"{path}: there is no such file") from missing
        except OSError as refusal:
            raise CheckpointStorageError(f"{path}: cannot be read: {refusal.strerror or refusal}") from refusal
        body = unpacked(path, data)
        try:
            value = decode(body)
        except DecodeError as refusal:
            raise CheckpointFormatError(f"{path}: {refusal}") from refusal
        if not isinstance(value, expected):
            raise CheckpointFormatError(f"{path}: holds a {type(value).__name__}, not a {expected.__name__}")
        return value


def initialize_savepoint(directory: str, name: str, permissions: int = PRIVATE) -> str:
    """Make the folder of a new savepoint, and the directory where there is none; the folder's address.

    Raises:
        CheckpointDirectoryError: it cannot be made; the text says why.
    """
    cannot = f"the savepoint directory {directory!r} cannot be"
    savepoints = CheckpointStorage(directory, permissions)
    try:
        fs, root = savepoints._place
    except CheckpointDirectoryError as unknown:
        raise CheckpointDirectoryError(f"{cannot} used: {_first_line(unknown.__context__)}") from None
    folder = f"{root}/{name}"
    if fs.isfile(root):
        raise CheckpointDirectoryError(f"{cannot} written: it is a file")
    try:
        if fs.exists(folder):
            raise FileExistsError(folder)
        make_folder(fs, folder, permissions, root, sync=True)
    except FileExistsError as there:
        raise CheckpointDirectoryError(f"{folder!r} is there already: a savepoint never replaces another") from there
    except OSError as refusal:
        raise CheckpointDirectoryError(f"{cannot} written: {refusal.strerror or refusal}") from refusal
    return savepoints._address(folder)


def discard_savepoint(location: str) -> None:
    _remove(*located(location))


def _first_line(refusal: BaseException | None) -> str:
    """The first line of a library's message, without the places where it has searched."""
    return str(refusal).partition("\n")[0]


def _remove(fs: AbstractFileSystem, path: str) -> None:
    with suppress(FileNotFoundError):
        delete(fs, path)


@trace_tag("checkpoint_storage.owned")
class OwnedCheckpointStorage(CheckpointStorage):
    """Calls `confirm_owner` first, which raises `OwnershipLostError` if another process runs the job by now."""

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
