"""Operations on local files without the JVM: the same as in Hadoop's local file system, a hundred times faster.

Hadoop calls the JVM for each file and each of its attributes. The checksums that Hadoop stores next to local files,
`.name.crc`, are hidden as Hadoop hides them, and deleted with their file. A rename leaves the checksum under the old
name; Hadoop accepts a file without a checksum.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress


def exists(path: str) -> bool:
    return os.path.exists(path)


def is_folder(path: str) -> bool:
    return os.path.isdir(path)


def size_bytes(path: str) -> int:
    return os.stat(path).st_size


def entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as scanned:
            return sorted((entry for entry in scanned if not _is_checksum(entry.name)), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


def files_below(folder: str, is_hidden: Callable[[str], bool], begin: Callable[[str], object]) -> Iterator[str]:
    """Yield file paths in a folder and its subfolders, except hidden names. `begin` is called before each folder."""
    begin(folder)
    for entry in entries(folder):
        if is_hidden(entry.name):
            continue
        if entry.is_dir():
            yield from files_below(entry.path, is_hidden, begin)
        elif not entry.is_symlink() or exists(entry.path):
            yield entry.path


def rename(source: str, target: str) -> bool:
    try:
        os.rename(source, target)
    except OSError:
        return False
    return True


def delete(path: str) -> None:
    """Delete a file, or a folder with its contents. Does nothing if it does not exist.

    Files that cannot be deleted stay, as with Hadoop: an attempt that is ending may still write there.
    """
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
        return
    for each in (path, _checksum(path)):
        with suppress(FileNotFoundError):
            os.unlink(each)


def delete_if_empty(folder: str) -> bool:
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def make_folder(path: str) -> None:
    os.makedirs(path, exist_ok=True)


def _checksum(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.crc")


def _is_checksum(name: str) -> bool:
    return name.startswith(".") and name.endswith(".crc")
