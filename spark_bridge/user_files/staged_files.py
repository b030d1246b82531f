"""The folder of this process with what users have registered, by units."""

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
"""All units begin with it: the folders of executors hold files of others too."""

_BLOCK_BYTES = 1 << 20


class StagedFiles:
    """Copies by unit, counted: two environments of a process may have one. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._uses: Counter[str] = Counter()
        self._root: Path | None = None

    def add(self, label: str, write: Callable[[Path], object]) -> str:
        """Add what `write` makes at a path, a file or a folder; its unit, which ends with `label`.

        What `write` raises is raised, and nothing is left of it.
        """
        with self._lock:
            if self._root is None:
                self._root = TemporaryFolder("user-files").path
            made = self._root / "new" / "content"
            made.parent.mkdir()
            try:
                write(made)
                unit = f"{PREFIX}{_digest(made)}-{label}"
                if not self._uses[unit]:
                    made.rename(self._root / unit)
                self._uses[unit] += 1
            finally:
                shutil.rmtree(made.parent)
        return unit

    def release(self, unit: str) -> None:
        """Let go of a unit; with its last use it is deleted."""
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
        assert self._root is not None, "a unit was added"
        return self._root / unit

    def archive(self, unit: str) -> Path | None:
        """Return a tar file of a unit that is a folder, made now where it is the first time; None for a file."""
        path, archive = self.path(unit), self._archive(unit)
        with self._lock:
            if not path.is_dir():
                return None
            if not archive.exists():
                with tarfile.open(archive, "w") as packed:
                    # Without the folder itself: Spark would take it for an entry outside of its own.
                    for each in sorted(path.iterdir()):
                        packed.add(each, each.name)
            return archive

    def _archive(self, unit: str) -> Path:
        return self.path(unit).with_name(f"{unit}.tar")


def _digest(made: Path) -> str:
    """The content of a file, or of all files of a folder with their paths."""
    digest = blake2b(digest_size=10)
    for path in _files(made) if made.is_dir() else (made,):
        digest.update(f"{path.relative_to(made)}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as content:
            while block := content.read(_BLOCK_BYTES):
                digest.update(block)
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


staged_files = StagedFiles()
"""The folder of this process."""
