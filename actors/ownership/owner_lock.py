"""Ownership by a lock (flock) on the record itself, on file systems on which all processes see the lock.

The process holds the lock: the lock is released when the process ends for any reason, and stays held while the process
is paused. This works for every path to the file, for every user and in every container.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from threading import Lock
from weakref import WeakSet

from fsspec.implementations.local import LocalFileSystem

from flykka.actors.checkpoint_storage.file_digests import sync_folders
from flykka.actors.checkpoint_storage.private_files import make_folder
from flykka.actors.errors import JobOwnershipError, OwnershipLostError
from flykka.actors.ownership.ownership import OnLost, OwnedFolder, OwnerRecord, Waiting, read_record
from flykka.runtime.permissions import of_file
from flykka.runtime.temporary_folders import lock, open_exclusively

POLL_SECONDS = 0.1
"""Seconds between two attempts to take a lock that another process holds."""

_LARGEST = 65_536


class OwnerLock:
    """The ownership of one folder, from its acquisition until `release`.

    The record remains after the release, so that the next owner gets a higher number. With `removes_record` it is
    removed, for folders in which only the lock counts.

    Raises:
        OwnedByAnotherError: another process, or another environment of this process, owns the folder.
        JobOwnershipError: the record cannot be read or written. The message gives the reason.
        OSError: the folder does not exist and cannot be created.
    """

    def __init__(self, folder: OwnedFolder, waiting: Waiting, *, removes_record: bool = False) -> None:
        self._folder = folder
        self._file = Path(folder.file)
        self._removes_record = removes_record
        self._guard = Lock()
        self._removed: tuple[Path, ...] = ()
        self._descriptor: int | None = None
        self._take(waiting)

    @property
    def number(self) -> int:
        return self._record.number

    def start(self, on_lost: OnLost) -> None:
        """Do nothing, because a lock needs no renewal."""

    def check(self) -> None:
        """Raise `OwnershipLostError` if the record is another process's, because the folder was deleted and recreated.

        While the file exists, no other process can hold its lock.
        """
        with self._guard:
            descriptor = self._descriptor
            if descriptor is not None and (not self._file.exists() or _is_same(descriptor, self._file)):
                return
        raise ownership_lost(self._folder, self.number, read_record(_content(self._file)))

    confirm = check

    def release(self, *, unused: bool = False) -> None:
        with self._guard:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is None:
                return
            _IN_USE.discard(self)
            is_removed = self._removes_record or (unused and self.number == 1)
            if is_removed and _is_same(descriptor, self._file):
                self._file.unlink(missing_ok=True)
                for folder in self._removed if unused else self._removed[:1]:
                    with suppress(OSError):  # The folder is not empty.
                        folder.rmdir()
            _unlock(descriptor)

    def forget(self) -> None:
        """Close the file in a fork of the process, because the lock belongs to the parent process."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _take(self, waiting: Waiting) -> None:
        has_waited = False
        while not self._try():
            owner = read_record(_content(self._file))
            is_here = is_of_this_process(owner)
            if owner is not None and owner.store and owner.store == self._folder.store and waiting.leads():
                self._replace(owner)
                return
            if is_here or not waiting.patient:
                raise self._folder.refusal(owner, is_here=is_here)
            if not has_waited:
                waiting.say(f"waiting: {owner or 'another process'} still owns {self._folder.folder} ({self._file})")
                has_waited = True
            if waiting.pause(POLL_SECONDS):
                raise self._folder.refusal(owner)

    def _try(self) -> bool:
        while True:
            self._make_folders()
            descriptor, is_writable = self._open()
            try:
                if not lock(descriptor):
                    return False
                if _is_same(descriptor, self._file):
                    self._write(descriptor, self._former_number(descriptor, is_writable))
                    # If the name of the record were lost in a crash, the next owner would reuse the number.
                    sync_folders([self._file.parent])
                    return True
                # The previous owner has just removed the file, so the loop tries again.
            finally:
                if descriptor != self._descriptor:
                    os.close(descriptor)

    def _replace(self, owner: OwnerRecord) -> None:
        """Replace the record of a paused owner that no longer leads. That owner notices the change when it resumes."""
        unnamed = self._file.with_suffix(".new")
        descriptor = open_exclusively(unnamed, self._mode)
        lock(descriptor)
        self._write(descriptor, owner.number)
        unnamed.rename(self._file)
        sync_folders([self._file.parent])

    @property
    def _mode(self) -> int:
        permissions = self._folder.permissions
        return 0o644 if permissions is None else of_file(permissions)

    def _make_folders(self) -> None:
        folder = self._file.parent
        # The folder of records is removed with the last record. Its parent folder stays if a job has run, for
        # readers.
        self._removed = self._removed or (folder, *(() if folder.parent.exists() else (folder.parent,)))
        if self._folder.permissions is None:
            folder.mkdir(parents=True, exist_ok=True)
        else:
            make_folder(LocalFileSystem(), str(folder), self._folder.permissions, str(folder.parent), sync=True)

    def _open(self) -> tuple[int, bool]:
        flags = os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        try:
            return os.open(self._file, flags | os.O_RDWR, self._mode), True
        except PermissionError as error:
            # Locking needs no write permission. It shows whether the owner is still running.
            with suppress(PermissionError, FileNotFoundError):
                return os.open(self._file, os.O_RDONLY | os.O_CLOEXEC), False
            can_enter = os.access(self._file.parent, os.X_OK)
            if can_enter and not self._file.exists():
                raise
            path, cannot = (self._file, "read") if can_enter else (self._file.parent, "entered")
            raise JobOwnershipError(
                f"{path} belongs to user {_owner_of(path)} and cannot be {cannot}, so it is unknown whether that user"
                f" runs job {self._folder.job_name!r}. Stop that run, or use another checkpoint directory"
            ) from error

    def _former_number(self, descriptor: int, is_writable: bool) -> int:
        if not is_writable:
            raise JobOwnershipError(
                f"{self._file} belongs to user {_owner_of(self._file)} and cannot be written, so job"
                f" {self._folder.job_name!r} cannot own {self._folder.folder}. That user no longer runs the job:"
                " remove the file, or give this user write permission, or use another checkpoint directory"
            )
        data = os.pread(descriptor, _LARGEST, 0)
        record = read_record(data)
        if record is None and data.strip():
            raise JobOwnershipError(
                f"{self._file} is not the record of an owner: remove it if no process runs job"
                f" {self._folder.job_name!r}"
            )
        return 0 if record is None else record.number

    def _write(self, descriptor: int, former_number: int) -> None:
        self._record: OwnerRecord = self._folder.record(former_number + 1)
        data = self._record.data()
        # The data is written in place, without a rename, because the lock is on this file.
        os.pwrite(descriptor, data, 0)
        os.ftruncate(descriptor, len(data))
        os.fsync(descriptor)
        self._descriptor = descriptor
        _IN_USE.add(self)
        remember(self._record)


def ownership_lost(folder: OwnedFolder, number: int, successor: OwnerRecord | None) -> OwnershipLostError:
    by = f"{successor}, since {successor.since} (owner {successor.number})" if successor else "another process"
    return OwnershipLostError(
        f"job {folder.job_name!r} has lost {folder.folder} to {by}; this process was its owner {number}. It publishes"
        f" nothing more and completes no checkpoint: the other process continues the job ({folder.file})"
    )


def _unlock(descriptor: int) -> None:
    from fcntl import LOCK_UN, flock

    # Closing alone would not release the lock while a child that was just forked still has the file open.
    flock(descriptor, LOCK_UN)
    os.close(descriptor)


def _is_same(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _owner_of(file: Path) -> str:
    try:
        return file.owner()
    except (KeyError, OSError):
        return str(file.stat().st_uid)


_IN_USE: WeakSet[OwnerLock] = WeakSet()
_TOKENS: set[str] = set()
"""The tokens of all owners of this process, including former owners."""


def remember(owner: OwnerRecord) -> None:
    _TOKENS.add(owner.token)


def is_of_this_process(owner: OwnerRecord | None) -> bool:
    return owner is not None and owner.token in _TOKENS


def _forget_all() -> None:
    _TOKENS.clear()
    for owner_lock in list(_IN_USE):
        owner_lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
