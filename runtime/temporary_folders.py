"""Temporary folders: private to the user, and removed by the next start if their process could not remove them.

    $TMPDIR/flykka-<uid>/                      private to the user (0700), checked whenever it is used
    $TMPDIR/flykka-<uid>/.lock                 locked while a folder is created and abandoned folders are searched for
    $TMPDIR/flykka-<uid>/tmp-<kind>-<random>/  a temporary folder; its process holds a lock on its `.lock` file

A lock ends with its process, however the process ends. No other module creates files with fixed names in the directory
for temporary files, because another user could have created them, or a symbolic link.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from pathlib import Path

_PREFIX = "tmp-"
_LOCK = ".lock"


class TemporaryFolder:
    """A folder of this process, until `remove` or the end of the process. As a context manager it returns its path.

    If `left_to_others`, the folder stays when the process ends normally, and another process removes it.

    Raises:
        PermissionError: the user's folder for temporary files belongs to another user, or others can read it.
        OSError: the folder cannot be created.
    """

    def __init__(self, kind: str, *, left_to_others: bool = False) -> None:
        self._is_left = left_to_others
        parent = user_folder()
        with _locked(parent):
            if parent not in _CLEARED:
                _CLEARED.add(parent)
                _remove_abandoned(parent)
            self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{kind}-", dir=parent))
            self._lock: int | None = _open_lock(self.path)
            lock(self._lock)
        _HELD.add(self)

    def remove(self) -> None:
        if self._lock is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            self.forget()

    def forget(self) -> None:
        descriptor, self._lock = self._lock, None
        if descriptor is not None:
            os.close(descriptor)
        _HELD.discard(self)

    def end(self) -> None:
        if not self._is_left:
            self.remove()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *exc_info: object) -> None:
        self.remove()


def user_folder() -> Path:
    """Return the user's folder for temporary files, creating it if needed. Raises the errors of `TemporaryFolder`."""
    return private_folder(Path(tempfile.gettempdir(), f"flykka-{os.getuid()}"), "set TMPDIR to another directory")


def private_folder(folder: Path, alternative: str) -> Path:
    """Return the folder, private to this user, creating it if needed.

    Raises:
        PermissionError: the folder is not private to this user. The text ends with the `alternative`.
        OSError: the folder cannot be created.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(
            f"{folder} is not accessible to you alone: remove it, or chmod it to 700, or {alternative}"
        )
    return folder


def open_exclusively(path: Path, mode: int = 0o600) -> int:
    """Create a new file, replacing a file that an earlier process has left. Returns its descriptor, for writing.

    No link is followed: a symbolic link with that name is removed, and a link that appears meanwhile is refused.
    """
    path.unlink(missing_ok=True)
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY, mode)


def _remove_abandoned(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            descriptor = _open_lock(folder)
            try:
                if lock(descriptor):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)


def _open_lock(folder: Path) -> int:
    return os.open(folder / _LOCK, os.O_CREAT | os.O_NOFOLLOW | os.O_RDWR, 0o600)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, so that no other process creates or removes folders meanwhile."""
    descriptor = _open_lock(folder)
    try:
        flock(descriptor, LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock an open file. Returns False if another process holds a conflicting lock. Several processes may hold a shared
    lock.
    """
    try:
        flock(descriptor, (LOCK_SH if shared else LOCK_EX) | LOCK_NB)
    except BlockingIOError:
        return False
    return True


_HELD: set[TemporaryFolder] = set()
_CLEARED: set[Path] = set()


def _end() -> None:
    for folder in list(_HELD):
        folder.end()


def _forget_in_child() -> None:
    for folder in list(_HELD):
        folder.forget()


atexit.register(_end)
os.register_at_fork(after_in_child=_forget_in_child)
