"""Ownership records on any file system of fsspec, and the choice between a lock and a lease."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from flykka.actors.checkpoint_storage.file_names import file_name_part
from flykka.actors.checkpoint_storage.private_files import make_folder
from flykka.actors.checkpoint_storage.storage import RUNS
from flykka.actors.ownership.mounts import locks_are_shared
from flykka.actors.ownership.owner_lease import LeaseFiles, OwnerLease
from flykka.actors.ownership.owner_lock import OwnerLock
from flykka.actors.ownership.ownership import OwnedFolder, Ownership, Waiting
from flykka.runtime.permissions import PRIVATE

OWNER = ".owner"

_EXCLUSIVE = frozenset({"file", "local", "memory", "s3", "s3a"})
"""The fsspec protocols for which only one of several `mode="create"` or `"xb"` calls succeeds."""


class FsspecFiles:
    def __init__(self, fs: AbstractFileSystem, folder: str, permissions: int | None = None) -> None:
        """A created folder gets `permissions` (None: by the umask)."""
        self._fs, self._folder, self._permissions = fs, folder, permissions
        protocols = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
        self.creates_exclusively = not _EXCLUSIVE.isdisjoint(protocols)

    def names(self) -> list[str]:
        self._fs.invalidate_cache(self._folder)
        with suppress(FileNotFoundError):
            return [str(path).rsplit("/", 1)[-1] for path in self._fs.ls(self._folder, detail=False)]
        return []

    def read(self, name: str) -> bytes:
        data: bytes = self._fs.cat_file(f"{self._folder}/{name}")
        return data

    def create(self, name: str, data: bytes) -> None:
        if self._permissions is None:
            self._fs.makedirs(self._folder, exist_ok=True)
        else:
            make_folder(self._fs, self._folder, self._permissions, self._folder.rsplit("/", 1)[0], sync=True)
        path = f"{self._folder}/{name}"
        if isinstance(self._fs, LocalFileSystem):
            with self._fs.open(path, "xb") as file:
                file.write(data)
        elif self.creates_exclusively:
            self._fs.pipe_file(path, data, mode="create")
        elif self._fs.exists(path):
            raise FileExistsError(path)
        else:
            self._fs.pipe_file(path, data)

    def write(self, name: str, data: bytes) -> None:
        self._fs.pipe_file(f"{self._folder}/{name}", data)

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._fs.rm_file(f"{self._folder}/{name}")


def checkpoint_folder(
    directory: str, job_name: str, lease_ms: int, store: str = "", permissions: int = PRIVATE
) -> OwnedFolder:
    """Return the checkpoint folder of the jobs with a name. Its record is `<directory>/runs/<job name>.owner`.

    New folders have the permissions of the job's checkpoints. Raises `ValueError`, `ImportError` or `OSError` if the
    address is not supported.
    """
    return OwnedFolder(
        folder=directory,
        file=f"{url_to_fs(directory)[1]}/{RUNS}/{file_name_part(job_name)}{OWNER}",
        job_name=job_name,
        checkpoint_directory=directory,
        lease_ms=lease_ms,
        store=store,
        permissions=permissions,
    )


def sink_folder(folder: str, staging: str, checkpoints: OwnedFolder) -> OwnedFolder:
    """Return the folder of a job's sink. Its record is `<staging>/<job name>.owner`."""
    file = f"{staging}/{file_name_part(checkpoints.job_name)}{OWNER}"
    return replace(checkpoints, folder=folder, file=file, permissions=None)


def own(folder: OwnedFolder, waiting: Waiting, files: LeaseFiles | None = None) -> Ownership:
    """Acquire the ownership of a folder. May block for longer than a lease.

    A local file system uses a lock, any other a lease. `files` replaces the access through fsspec. Raises the errors of
    `OwnerLock` and `OwnerLease`.
    """
    removes_record = not folder.of_checkpoints
    if files is None:
        fs, _ = url_to_fs(folder.checkpoint_directory) if folder.of_checkpoints else (LocalFileSystem(), "")
        below = folder.file.rsplit("/", 1)[0]
        if isinstance(fs, LocalFileSystem) and locks_are_shared(Path(below)) and _has_locks():
            return OwnerLock(folder, waiting, removes_record=removes_record)
        files = FsspecFiles(fs, below, folder.permissions)
    return OwnerLease(folder, files, waiting, removes_record=removes_record)


def _has_locks() -> bool:
    try:
        import fcntl  # noqa: F401
    except ImportError:
        return False
    return True
