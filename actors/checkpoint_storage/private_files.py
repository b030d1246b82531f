"""Creates checkpoint files and folders with the permissions of `flykka.runtime.permissions`, on local file systems.

Object stores have their own access rules. `mv` and `rm` of fsspec interpret a path with brackets as a pattern, and then
move or delete other files; the functions here do not.
"""

from __future__ import annotations

from contextlib import suppress
from glob import has_magic

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from flykka.actors.checkpoint_storage.file_digests import sync_folders
from flykka.runtime import permissions


def make_folder(
    filesystem: AbstractFileSystem, folder: str, mode: int, root: str | None = None, *, sync: bool = False
) -> None:
    """Create a folder and its missing parents. `root` (None: `folder`) and everything below it get this mode.

    With `sync` the directory entries are durable.
    """
    if isinstance(filesystem, LocalFileSystem):
        folders = permissions.make_folder(folder, mode, root)
        if sync:
            sync_folders(each.parent for each in folders)
    else:
        filesystem.makedirs(folder, exist_ok=True)


def make_inheriting_folder(filesystem: AbstractFileSystem, folder: str) -> None:
    if isinstance(filesystem, LocalFileSystem):
        permissions.make_inheriting_folder(folder)
    else:
        filesystem.makedirs(folder, exist_ok=True)


def restrict(filesystem: AbstractFileSystem, path: str) -> None:
    """Give a file, or a folder with all its content, the permissions of its parent folder."""
    if isinstance(filesystem, LocalFileSystem):
        permissions.inherit_permissions(path)


def move_file(filesystem: AbstractFileSystem, source: str, target: str) -> None:
    """Move a file, replacing `target`. The move is atomic if the file system supports that."""
    if type(filesystem).mv is AbstractFileSystem.mv:
        filesystem.cp_file(source, target)
        filesystem.rm_file(source)
    else:
        filesystem.mv(source, target)


def delete(filesystem: AbstractFileSystem, path: str) -> None:
    """Delete a file, or a folder with all its content. A missing file may raise `FileNotFoundError`."""
    if isinstance(filesystem, LocalFileSystem) or not has_magic(path):
        filesystem.rm(path, recursive=True)
        return
    there = filesystem.find(path, withdirs=True, detail=True)
    for each in sorted(there, reverse=True):
        if there[each].get("type") == "directory":
            with suppress(OSError):  # In object stores a folder disappears with its last file.
                filesystem.rmdir(each)
        else:
            filesystem.rm_file(each)
