"""Creates checkpoint files and folders with the permissions of `flykka.runtime.permissions`, on local file systems.

Object stores have their own access rules.
"""

from __future__ import annotations

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from flykka.actors.checkpoint_storage.file_digests import sync_folders
from flykka.runtime import permissions


def make_folder(
    filesystem: AbstractFileSystem, folder: str, mode: int, root: str | None = None, *, sync: bool = False
) -> None:
    """Create a folder and its missing parents; `root` (None: `folder`) and everything below it get this mode.

    With `sync` their names are durable.
    """
    if isinstance(filesystem, LocalFileSystem):
        folders = permissions.make_folder(folder, mode, root)
        if sync:
            sync_folders(each.parent for each in folders)
    else:
        filesystem.makedirs(folder, exist_ok=True)


def make_inheriting_folder(filesystem: AbstractFileSystem, folder: str) -> None:
    """Create a folder and its missing parents with the permissions of the nearest existing folder."""
    if isinstance(filesystem, LocalFileSystem):
        permissions.make_inheriting_folder(folder)
    else:
        filesystem.makedirs(folder, exist_ok=True)


def restrict(filesystem: AbstractFileSystem, path: str) -> None:
    """Give a file, or a folder with all its content, the permissions of its parent folder."""
    if isinstance(filesystem, LocalFileSystem):
        permissions.inherit_permissions(path)
