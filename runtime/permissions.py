"""Permissions of checkpoints, savepoints and stores, set explicitly, whatever the umask.

The code that creates the folder of a job, a savepoint or a store sets its permissions. Everything written into the
folder, also by other processes, inherits them. They apply to local file systems only.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

PRIVATE = 0o700


def make_folder(
    folder: str | os.PathLike[str], permissions: int, root: str | os.PathLike[str] | None = None
) -> list[Path]:
    """Create a folder and its missing parents. `root` (None: `folder`) and everything below it get `permissions`.

    Existing folders keep their permissions. Returns the created folders. Raises `OSError` like `os.makedirs`.
    """
    created: list[Path] = []
    path, top = Path(folder), Path(folder if root is None else root)
    for each in (*reversed(path.parents), path):
        # If a parent is a file, creating a folder in it raises the error.
        if each.is_dir() or (each != path and each.exists()):
            continue
        is_ours = each.is_relative_to(top)
        each.mkdir(mode=PRIVATE if is_ours else 0o777, exist_ok=True)
        created.append(each)
        if is_ours:
            each.chmod(permissions)
    return created


def make_inheriting_folder(folder: str | os.PathLike[str]) -> None:
    nearest = next(each for each in Path(folder).parents if each.is_dir())
    make_folder(folder, _of(nearest), root=nearest)


def inherit_permissions(path: str | os.PathLike[str]) -> None:
    permissions = _of(Path(path).parent)
    for each, is_folder in _below(Path(path)):
        each.chmod(permissions if is_folder else of_file(permissions))


def of_file(permissions: int) -> int:
    return permissions & 0o666


def _of(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode) & 0o777


def _below(path: Path) -> Iterator[tuple[Path, bool]]:
    yield path, path.is_dir()
    for folder, folders, files in os.walk(path):
        yield from ((Path(folder, name), True) for name in folders)
        yield from ((Path(folder, name), False) for name in files)
