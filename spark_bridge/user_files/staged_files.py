"""The folder of this process that contains the registered files of users, as units."""

from __future__ import annotations

import shutil
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from threading import Lock

from flykka.runtime.temporary_folders import TemporaryFolder

PREFIX = "flykka-file-"
"""Prefix of all units, since folders of executors contain other files too."""

_BLOCK_BYTES = 1 << 20


class StagedFiles:
    """Reference-counted copies by unit: two environments of a process may share a unit. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._uses: Counter[str] = Counter()
        self._root: Path | None = None

    def add(self, label: str, write: Callable[[Path], object]) -> str:
        """Add the file or folder that `write` creates at a path. Return its unit, which ends with `label`.

        Exceptions of `write` are raised again, after its output was deleted.
        """
        with self._lock:
            if self._root is None:
                self._root = TemporaryFolder("user-files").path
            content = self._root / "new" / "content"
            content.parent.mkdir()
            try:
                write(content)
                unit = f"{PREFIX}{_digest(content)}-{label}"
                if not self._uses[unit]:
                    content.rename(self._root / unit)
                self._uses[unit] += 1
            finally:
                shutil.rmtree(content.parent)
        return unit

    def release(self, unit: str) -> None:
        with self._lock:
            self._uses[unit] -= 1
            if self._uses[unit]:
                return
            del self._uses[unit]
            path = self.path(unit)
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
            self._archive(unit).unlink(missing_ok=True)

    def path(self, unit: str) -> Path:
        assert self._root is not None, "no unit was added"
        return self._root / unit

    def archive(self, unit: str) -> Path | None:
        """Return a tar file of a unit that is a folder, created by the first call; None if the unit is a file."""
        path, archive = self.path(unit), self._archive(unit)
        with self._lock:
            if not path.is_dir():
                return None
            if not archive.exists():
                with tarfile.open(archive, "w") as packed:
                    # Without the folder itself, which Spark would treat as an entry outside of the archive's folder.
                    for each in sorted(path.iterdir()):
                        packed.add(each, each.name)
            return archive

    def _archive(self, unit: str) -> Path:
        return self.path(unit).with_name(f"{unit}.tar")


def _digest(root: Path) -> str:
    digest = blake2b(digest_size=10)
    for path in _files(root) if root.is_dir() else (root,):
        digest.update(f"{path.relative_to(root)}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as content:
            while block := content.read(_BLOCK_BYTES):
                digest.update(block)
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


staged_files = StagedFiles()
