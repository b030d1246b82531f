"""Permissions of checkpoints, savepoints and stores: explicit ones, whatever the umask.

The code that makes the folder of a job, a savepoint or a store names its permissions. What is written into it, by
other processes too, takes them from there. Only file systems of this machine have them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

PRIVATE = 0o700
"""Of a folder that only its user may read."""


def make_folder(
    folder: str | os.PathLike[str], permissions: int, root: str | os.PathLike[str] | None = None
) -> list[Path]:
    """Make a folder, and those above it, if they do not exist: from `root` (None: `folder`) down with `permissions`.

    One that exists keeps its own. Returns those that were made. Raises `OSError` as `os.makedirs` does.
    """
    made: list[Path] = []
    path, top = Path(folder), Path(folder if root is None else root)
    for each in (*reversed(path.parents), path):
        # A file in place of a folder above is refused when something is made in it.
        if each.is_dir() or (each != path and each.exists()):
            continue
        is_ours = each.is_relative_to(top)
        each.mkdir(mode=PRIVATE if is_ours else 0o777, exist_ok=True)
        made.append(each)
        if is_ours:
            each.chmod(permissions)
    return made


def make_inheriting_folder(folder: str | os.PathLike[str]) -> None:
    """Make a folder, and those above it, with the permissions of the nearest folder that exists."""
    nearest = next(each for each in Path(folder).parents if each.is_dir())
    make_folder(folder, _of(nearest), root=nearest)


def inherit_permissions(path: str | os.PathLike[str]) -> None:
    """Give a file, or a folder with all that is in it, the permissions of the folder that it is in."""
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
