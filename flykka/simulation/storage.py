"""The storage of a simulation, as a file system of fsspec, so that the actors' real code writes to it.

`simulated://<name>/...` is a separate storage, which exists while it is mounted. The content of a file is bytes or
rows. Every operation can be made to fail with `OSError`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

import fsspec
from fsspec import AbstractFileSystem

from flykka.simulation.rows import KeyStates, Rows, size_of

PROTOCOL = "simulated"

File = bytes | Rows | KeyStates


class Operation(StrEnum):
    WRITE = "writing"
    FINALISE = "finalising"
    DELETE = "discarding"
    LOOK = "looking into"


class SimulatedStorage:
    """All files of one simulation, by path.

    `on_finalised` is called for each file that gets its final name, `on_deletion` before each deletion.
    """

    def __init__(self) -> None:
        self.files: dict[str, File] = {}
        self.fails: Callable[[Operation, str], bool] = lambda _operation, _path: False
        self.on_finalised: Callable[[str, bytes], None] = lambda _path, _data: None
        self.on_deletion: Callable[[str], None] = lambda _path: None
        self.unwanted: set[str] = set()
        """Paths whose deletion was requested, whether it succeeded or not."""

    def write(self, path: str, content: File) -> None:
        self._may_fail(Operation.WRITE, path)
        self.files[path] = content

    def look(self, path: str) -> None:
        self._may_fail(Operation.LOOK, path)

    def read(self, path: str) -> tuple[Any, ...]:
        """Return the rows of a file, or the states of keys. Raises `FileNotFoundError`."""
        content = self.files.get(path)
        if not isinstance(content, tuple):
            raise FileNotFoundError(path)
        return content

    def read_rows(self, path: str) -> Rows:
        return self.read(path)

    def rename(self, path: str, target: str) -> None:
        self._may_fail(Operation.FINALISE, path)
        if path not in self.files:
            raise FileNotFoundError(path)
        content = self.files[target] = self.files.pop(path)
        if isinstance(content, bytes):
            self.on_finalised(target, content)

    def delete(self, path: str) -> None:
        self.unwanted.add(path)
        self._may_fail(Operation.DELETE, path)
        self.on_deletion(path)
        for each in self.below(path):
            del self.files[each]

    def below(self, path: str) -> list[str]:
        return sorted(each for each in self.files if each == path or each.startswith(f"{path}/"))

    def size(self, path: str) -> int:
        content = self.files[path]
        return len(content) if isinstance(content, bytes) else size_of(content)

    def _may_fail(self, operation: Operation, path: str) -> None:
        if self.fails(operation, path):
            raise OSError(f"{operation} {path} failed, as planned by the simulation")


_MOUNTED: dict[str, SimulatedStorage] = {}


@contextmanager
def mounted(name: str) -> Iterator[SimulatedStorage]:
    fsspec.register_implementation(PROTOCOL, SimulatedFileSystem, clobber=True)
    if name in _MOUNTED:
        raise RuntimeError(f"this process already runs a simulation called {name!r}")
    storage = _MOUNTED[name] = SimulatedStorage()
    try:
        yield storage
    finally:
        del _MOUNTED[name]


class SimulatedFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types.
    """A folder exists if there are files below it."""

    protocol = PROTOCOL
    root_marker = ""

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(path).removeprefix(f"{PROTOCOL}://").rstrip("/")

    def unstrip_protocol(self, name: str) -> str:
        return f"{PROTOCOL}://{self._strip_protocol(name)}"

    def exists(self, path: str, **_: Any) -> bool:
        return bool(self._storage(path).below(self._strip_protocol(path)))

    def isfile(self, path: str) -> bool:
        return self._strip_protocol(path) in self._storage(path).files

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        folder, storage = self._strip_protocol(path), self._storage(path)
        if folder in storage.files:
            return [self._entry(storage, folder)] if detail else [folder]
        below = storage.below(folder)
        if not below:
            raise FileNotFoundError(path)
        names = sorted({folder + "/" + each.removeprefix(f"{folder}/").split("/")[0] for each in below})
        return [self._entry(storage, name) for name in names] if detail else names

    def _entry(self, storage: SimulatedStorage, name: str) -> dict[str, Any]:
        if name in storage.files:
            return {"name": name, "size": storage.size(name), "type": "file"}
        return {"name": name, "size": 0, "type": "directory"}

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        if not self.exists(path):
            raise FileNotFoundError(path)
        return self._entry(self._storage(path), self._strip_protocol(path))

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Do nothing, because a folder exists if it contains files."""
        if not exist_ok and self.exists(path):
            raise FileExistsError(path)

    def rmdir(self, path: str) -> None:
        """Do nothing. Raises `OSError` if the folder is not empty."""
        if self.exists(path):
            raise OSError(f"{path} is not empty")

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        content = self._storage(path).files.get(self._strip_protocol(path))
        if not isinstance(content, bytes):
            raise FileNotFoundError(path)
        return content[start:end]

    def pipe_file(self, path: str, value: bytes, **_: Any) -> None:
        self._storage(path).write(self._strip_protocol(path), value)

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        self._storage(path1).rename(self._strip_protocol(path1), self._strip_protocol(path2))

    def rm(self, path: str, recursive: bool = False, maxdepth: int | None = None) -> None:
        if not self.exists(path):
            raise FileNotFoundError(path)
        self._storage(path).delete(self._strip_protocol(path))

    def open(self, path: str, mode: str = "rb", **_: Any) -> io.BytesIO:
        if mode == "rb":
            return io.BytesIO(self.cat_file(path))
        return _Written(self._storage(path), self._strip_protocol(path))

    def _storage(self, path: str) -> SimulatedStorage:
        name = self._strip_protocol(path).split("/", 1)[0]
        storage = _MOUNTED.get(name)
        if storage is None:
            raise FileNotFoundError(f"there is no simulation called {name!r}")
        return storage


class _Written(io.BytesIO):
    def __init__(self, storage: SimulatedStorage, path: str) -> None:
        super().__init__()
        self._storage = storage
        self._path = path

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._storage.write(self._path, data)
