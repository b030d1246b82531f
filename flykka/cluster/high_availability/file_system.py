"""High availability in a local folder, which outlives the driver, so that the next driver takes over.

The process that holds the lock of the file `lock` leads. The operating system frees the lock as soon as the process
ends for any reason; a suspended process keeps it. That is guaranteed **within one machine only**: on a network file
system another machine may believe that it holds the lock too. Therefore such a folder is refused; several machines need
ZooKeeper.

A value is a file that is written under another name and then renamed, so readers never find an incomplete value.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread
from weakref import WeakSet

from flykka.actors.checkpoint_storage.file_digests import sync_folders
from flykka.actors.checkpoint_storage.format import is_packed, packed, unpacked
from flykka.actors.errors import LeadershipLostError, StoreUnavailableError
from flykka.actors.high_availability.services import HighAvailabilityServices, LatchHolder
from flykka.actors.ownership.mounts import network_file_system
from flykka.messages.wire.tags import trace_tag
from flykka.runtime.permissions import PRIVATE, make_folder, of_file

POLL_SECONDS = 0.1
"""Seconds between two attempts to acquire the lock."""

_LOCK = "lock"


@trace_tag("high_availability.file_system")
class FileSystemHaServices(HighAvailabilityServices):
    """Raises `StoreUnavailableError` if the folder cannot be used."""

    def __init__(self, directory: str, new_id: Callable[[], str] | None = None) -> None:
        super().__init__(FileSystemBackend(directory), new_id)


class FileSystemBackend:
    """Implements `Backend` on a folder.

    Raises:
        StoreUnavailableError: the folder is not local, or cannot be created. The error names it.
    """

    def __init__(self, directory: str) -> None:
        self.name = f"the high-availability folder {directory!r}"
        self._root = self._local(directory)
        self._lock = Lock()
        self._held: int | None = None
        self._is_closed = Event()
        self._holder: LatchHolder | None = None
        _IN_USE.add(self)

    def acquire(self, holder: LatchHolder) -> None:
        self._holder = holder
        if not self._try():
            self._wait()

    def close(self) -> None:
        self._is_closed.set()
        with self._lock:
            if self._held is not None:
                # Closing the file would not free the lock while a child that was just forked still has the file open.
                fcntl.flock(self._held, fcntl.LOCK_UN)
            self._release()

    def forget(self) -> None:
        """Close the lock file in a forked process, so that the lock is freed when the parent process ends."""
        self._release()

    def read(self, path: str) -> bytes | None:
        try:
            data = (self._root / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as refusal:
            raise self._unavailable("read", path, refusal) from refusal
        # An older flykka has written the value without a header.
        return unpacked(str(self._root / path), data) if is_packed(data) else data

    def names(self, path: str) -> tuple[str, ...]:
        """Skip hidden files, because they are incomplete values."""
        try:
            return tuple(sorted(name for name in os.listdir(self._root / path) if not name.startswith(".")))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as refusal:
            raise self._unavailable("read", path, refusal) from refusal

    def write(self, path: str, data: bytes | None, expected: Mapping[str, bytes | None]) -> str | None:
        """Compare and set. The lock excludes other processes."""
        with self._lock:
            if self._is_held():
                for each, value in expected.items():
                    if self.read(each) != value:
                        return each
                try:
                    changed = self._write_value(self._root / path, data)
                except OSError as refusal:
                    raise self._unavailable("written", path, refusal) from refusal
                try:
                    sync_folders([changed])
                except OSError as refusal:
                    # Readers see the value, but it may be lost in a power failure. The next leader continues with the
                    # value that it finds. Until then nothing is deleted to which the old or the new value refers.
                    why = f"it is unknown whether {path} was written: {refusal.strerror or refusal}"
                else:
                    return None
            else:
                why = f"this process does not hold its lock; {path} was not written"
            was_held = self._release()
        if was_held:
            self._lose()
        raise LeadershipLostError(f"{self.name}: {why}")

    def _write_value(self, file: Path, data: bytes | None) -> Path:
        """Write or remove a value. Returns the folder whose entries have changed. A failure changes nothing."""
        if data is None:
            with suppress(FileNotFoundError):
                file.unlink()
            return self._remove_empty(file.parent)
        folders = make_folder(file.parent, PRIVATE, root=self._root)
        sync_folders(folder.parent for folder in folders)
        unfinished = file.parent / f".{file.name}"
        with unfinished.open("wb") as stream:
            os.fchmod(stream.fileno(), of_file(PRIVATE))
            stream.write(packed(data))
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.replace(file)
        return file.parent

    def _remove_empty(self, folder: Path) -> Path:
        while folder != self._root:
            try:
                folder.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                # The folder is not empty.
                break
            folder = folder.parent
        return folder

    def _try(self) -> bool:
        """Try to acquire the lock. Returns True if waiting has ended."""
        assert self._holder is not None
        try:
            descriptor = os.open(self._root / _LOCK, os.O_RDWR | os.O_CREAT, of_file(PRIVATE))
        except OSError as refusal:
            self._holder.failed(self._unavailable("locked", _LOCK, refusal))
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except OSError as refusal:
            os.close(descriptor)
            self._holder.failed(self._unavailable("locked", _LOCK, refusal))
            return True
        with self._lock:
            if self._is_closed.is_set():
                os.close(descriptor)
                return True
            self._held = descriptor
        self._holder.acquired()
        return True

    def _wait(self) -> None:
        def wait_for_lock() -> None:
            while not self._is_closed.wait(POLL_SECONDS):
                if self._try():
                    return

        Thread(target=wait_for_lock, name="flykka-high-availability-lock", daemon=True).start()

    def _is_held(self) -> bool:
        if self._held is None:
            return False
        # If the folder was deleted and recreated, it contains another lock file.
        try:
            return os.path.samestat(os.fstat(self._held), os.stat(self._root / _LOCK))
        except OSError:
            return False

    def _release(self) -> bool:
        descriptor, self._held = self._held, None
        if descriptor is not None:
            os.close(descriptor)
        return descriptor is not None

    def _lose(self) -> None:
        # Never called while the object's lock is held, because the holder may be about to write.
        assert self._holder is not None
        self._holder.lost()
        if not self._is_closed.is_set():
            make_folder(self._root, PRIVATE)
            self._wait()

    def _local(self, directory: str) -> Path:
        between_machines = "its lock works on a single machine only: use a folder on a local disk, or ZooKeeper"
        path = directory.removeprefix("file://")
        if "://" in path:
            raise StoreUnavailableError(f"{self.name} is not a local folder; {between_machines}")
        root = Path(path).absolute()
        try:
            make_folder(root, PRIVATE)
            # This reports a permanent failure now. Later each write would fail and lose the leadership.
            sync_folders([root])
        except OSError as refusal:
            raise StoreUnavailableError(f"{self.name} cannot be created: {refusal.strerror or refusal}") from refusal
        kind = network_file_system(root)
        if kind is not None:
            raise StoreUnavailableError(f"{self.name} is on a network file system ({kind}); {between_machines}")
        return root

    def _unavailable(self, what: str, path: str, refusal: OSError) -> StoreUnavailableError:
        return StoreUnavailableError(f"{self.name}: {path} cannot be {what}: {refusal.strerror or refusal}")


_IN_USE: WeakSet[FileSystemBackend] = WeakSet()


def _forget_all() -> None:
    for backend in list(_IN_USE):
        backend.forget()


os.register_at_fork(after_in_child=_forget_all)
