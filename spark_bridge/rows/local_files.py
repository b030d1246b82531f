"""Files of this machine without the JVM: what Hadoop's local file system does, in a hundredth of the time.

A call of Hadoop's goes to the JVM and back for each file and each fact about it. The checksums that Hadoop keeps beside
local files, `.name.crc`, are hidden as it hides them, and go with a file that is deleted. One that is renamed leaves
its checksum behind: Hadoop does not miss it.
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
    """The contents of a folder by name; nothing where there is no folder. Raises `OSError` where it cannot be read."""
    try:
        with os.scandir(folder) as found:
            return sorted((entry for entry in found if not _is_checksum(entry.name)), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


def files_below(folder: str, is_hidden: Callable[[str], bool], begin: Callable[[str], object]) -> Iterator[str]:
    """The paths of the files in a folder and those in it, but for hidden names; `begin` hears of each folder first."""
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
    """Delete a file, or a folder and all in it; nothing happens where there is none.

    What cannot be deleted stays, as with Hadoop: an attempt on its way out may still write there.
    """
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
        return
    for each in (path, _checksum(path)):
        with suppress(FileNotFoundError):
            os.unlink(each)


def delete_if_empty(folder: str) -> bool:
    """Delete a folder in which nothing lies; whether it is gone."""
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def make_folder(path: str) -> None:
    """Make a folder and those above it, where they are not there. Raises `OSError` where the system refuses."""
    os.makedirs(path, exist_ok=True)


def _checksum(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.crc")


def _is_checksum(name: str) -> bool:
    return name.startswith(".") and name.endswith(".crc")
