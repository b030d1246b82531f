"""High availability in a folder of this machine: what is kept outlives the driver, and the next one takes over.

The holder of the lock of the file `lock` leads. The lock is the process's: it is free in the moment in which the
process ends, however it ends, and is kept by one that only stands still. That is so **within one machine only**: on a
network's file system another machine may believe that it holds the lock, too. So such a folder is refused; between
machines it takes ZooKeeper.

A value is a file, which is written under another name and renamed: a reader finds it whole or not at all.
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
"""Seconds between two looks of a waiting process at the lock."""

_LOCK = "lock"


@trace_tag("high_availability.file_system")
class FileSystemHaServices(HighAvailabilityServices):
    """The services of a driver whose store is a folder. Raises `StoreUnavailableError` where it cannot be one."""

    def __init__(self, directory: str, new_id: Callable[[], str] | None = None) -> None:
        super().__init__(FileSystemBackend(directory), new_id)


class FileSystemBackend:
    """A user of a folder; implements `Backend`.

    Raises:
        StoreUnavailableError: it is not a folder of this machine, or cannot be made; the text names it.
    """

    def __init__(self, directory: str) -> None:
        self.name = f"the high-availability folder {directory!r}"
        self._root = self._local(directory)
        self._lock = Lock()
        self._held: int | None = None
        self._is_closed = Event()
        self._holder: LatchHolder | None = None
        _IN_USE.add(self)

    # The latch

    def acquire(self, holder: LatchHolder) -> None:
        """Wait for the lock, on a thread where it is not free."""
        self._holder = holder
        if not self._try():
            self._wait()

    def close(self) -> None:
        """Give up the lock at once."""
        self._is_closed.set()
        with self._lock:
            if self._held is not None:
                # Closing alone would free it when a process that was forked just now has closed it, too.
                fcntl.flock(self._held, fcntl.LOCK_UN)
            self._release()

    def forget(self) -> None:
        """In a fork of the process: the lock is its parent's, and is to be free when that one ends."""
        self._release()

    # Values

    def read(self, path: str) -> bytes | None:
        try:
            data = (self._root / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as refusal:
            raise self._unavailable("read", path, refusal) from refusal
        # An older flykka has written the value alone.
        return unpacked(str(self._root / path), data) if is_packed(data) else data

    def names(self, path: str) -> tuple[str, ...]:
        """Names directly below `path`, sorted. A hidden file is a write that was not finished."""
        try:
            return tuple(sorted(name for name in os.listdir(self._root / path) if not name.startswith(".")))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as refusal:
            raise self._unavailable("read", path, refusal) from refusal

    def write(self, path: str, data: bytes | None, expected: Mapping[str, bytes | None]) -> str | None:
        """Compare and set: the lock keeps everybody else out meanwhile."""
        with self._lock:
            if self._is_held():
                for each, value in expected.items():
                    if self.read(each) != value:
                        return each
                try:
                    changed = self._put(self._root / path, data)
                except OSError as refusal:
                    raise self._unavailable("written", path, refusal) from refusal
                try:
                    sync_folders([changed])
                except OSError as refusal:
                    # Readers see it, and may not any more when the machine has lost power: who leads next goes on
                    # with what there is, and until then nobody deletes what either of them refers to.
                    why = f"whether {path} was written is not known: {refusal.strerror or refusal}"
                else:
                    return None
            else:
                why = f"this process does not hold its lock; {path} was not written"
            was_held = self._release()
        if was_held:
            self._lose()
        raise LeadershipLostError(f"{self.name}: {why}")

    def _put(self, file: Path, data: bytes | None) -> Path:
        """Write or remove a value; returns the folder whose names have changed. Nothing has where it raises."""
        if data is None:
            with suppress(FileNotFoundError):
                file.unlink()
            return self._remove_empty(file.parent)
        made = make_folder(file.parent, PRIVATE, root=self._root)
        sync_folders(folder.parent for folder in made)
        unfinished = file.parent / f".{file.name}"
        with unfinished.open("wb") as written:
            os.fchmod(written.fileno(), of_file(PRIVATE))
            written.write(packed(data))
            written.flush()
            os.fsync(written.fileno())
        unfinished.replace(file)
        return file.parent

    def _remove_empty(self, folder: Path) -> Path:
        while folder != self._root:
            try:
                folder.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                # There is something else in it.
                break
            folder = folder.parent
        return folder

    # How the lock is held

    def _try(self) -> bool:
        """Take the lock if it is free; whether there is nothing more to wait for."""
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
        def until_it_is_free() -> None:
            while not self._is_closed.wait(POLL_SECONDS):
                if self._try():
                    return

        Thread(target=until_it_is_free, name="flykka-high-availability-lock", daemon=True).start()

    def _is_held(self) -> bool:
        if self._held is None:
            return False
        # Somebody may have deleted the folder, and somebody else have made it again: theirs is another file.
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
        # Never with the lock of this object: the holder may be about to write.
        assert self._holder is not None
        self._holder.lost()
        if not self._is_closed.is_set():
            make_folder(self._root, PRIVATE)
            self._wait()

    def _local(self, directory: str) -> Path:
        between_machines = (
            "its lock holds within one machine only: give a folder on a disk of this machine, or use ZooKeeper"
        )
        path = directory.removeprefix("file://")
        if "://" in path:
            raise StoreUnavailableError(f"{self.name} is not a folder of this machine; {between_machines}")
        root = Path(path).absolute()
        try:
            make_folder(root, PRIVATE)
            # Where that never works it is to be told now: later it would cost the leadership, with every write.
            sync_folders([root])
        except OSError as refusal:
            raise StoreUnavailableError(f"{self.name} cannot be made: {refusal.strerror or refusal}") from refusal
        kind = network_file_system(root)
        if kind is not None:
            raise StoreUnavailableError(f"{self.name} is on a file system of the network ({kind}); {between_machines}")
        return root

    def _unavailable(self, what: str, path: str, refusal: OSError) -> StoreUnavailableError:
        return StoreUnavailableError(f"{self.name}: {path} cannot be {what}: {refusal.strerror or refusal}")


_IN_USE: WeakSet[FileSystemBackend] = WeakSet()


def _forget_all() -> None:
    for backend in list(_IN_USE):
        backend.forget()


os.register_at_fork(after_in_child=_forget_all)
