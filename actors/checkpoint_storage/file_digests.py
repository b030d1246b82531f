"""Digests of files, and files and folders that survive a loss of power; used in the driver and in Python workers.

A path is a local one, with or without Hadoop's `file:`, or an address that fsspec reaches. Only local files, mounted
shares included, are synced: an object is durable when its upload has returned.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import IO, Any

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs
from xxhash import xxh3_128

from flykka.actors.errors import CheckpointFormatError, CheckpointStateMissingError, CheckpointStorageError
from flykka.messages.state.handles import FileDigest

_CHUNK = 1 << 20
_UNSYNCABLE = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EACCES})
"""A file system without fsync of folders, or a folder in which files may be made and not listed."""


def located(address: str) -> tuple[AbstractFileSystem, str]:
    """The file system of an address, and the path there. Hadoop writes a local one as `file:/folder`."""
    fs, path = url_to_fs(address if "://" in address else address.removeprefix("file:"))
    return fs, path


class DigestedFile:
    """A file that is written from its beginning to its end, with the digest of what was written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = xxh3_128()
        self._size = 0

    def write(self, data: Any) -> int:
        """Write bytes, or whatever has a buffer of them."""
        self._hash.update(data)
        self._size += memoryview(data).nbytes
        return self._file.write(data)

    def sealed(self, name: str, *, sync: bool) -> FileDigest:
        """Make what was written durable, if the file is local, and return its digest."""
        if sync:
            _sync_open(self._file)
        return FileDigest(name=name, size_bytes=self._size, digest=self._hash.digest())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def sealed(address: str, name: str, *, sync: bool) -> FileDigest:
    """Make a file durable that another library has written, if it is local, and return its digest.

    Hadoop's own checksum of a local file is deleted: it covers less, and would have to be synced as well.
    """
    fs, path = located(address)
    if is_local(address):
        folder, _, file_name = path.rpartition("/")
        with suppress(FileNotFoundError):
            os.unlink(f"{folder}/.{file_name}.crc")
    with fs.open(path, "rb") as file:
        size_bytes, digest = _read(file)
        if sync:
            _sync_open(file)
    return FileDigest(name=name, size_bytes=size_bytes, digest=digest)


def verify_file(address: str, written: FileDigest, *, shown: str | None = None) -> None:
    """Compare a file, or a copy of the one that is `shown` in errors, with its digest.

    Raises:
        CheckpointStateMissingError: it is not there.
        CheckpointFormatError: it was altered, or cut off.
        OSError: it cannot be read.
    """
    fs, path = located(address)
    try:
        with fs.open(path, "rb") as file:
            size_bytes, digest = _read(file)
    except (FileNotFoundError, NotADirectoryError):
        raise CheckpointStateMissingError(f"{shown or path} is not there") from None
    if size_bytes != written.size_bytes:
        raise CheckpointFormatError(
            f"{shown or path} is damaged: {written.size_bytes} bytes were written, {size_bytes} are there"
        )
    if digest != written.digest:
        raise CheckpointFormatError(f"{shown or path} is damaged: its bytes are not those that were written (xxh3_128)")


def verify_names(folder: str, files: Iterable[FileDigest]) -> None:
    for error in wrong_names(folder, files):
        raise error


def wrong_names(folder: str, files: Iterable[FileDigest]) -> Iterator[CheckpointStorageError]:
    """Compare the names of the files in the folder of a handle with those that were written there.

    A `CheckpointStateMissingError` for each that is not there, a `CheckpointFormatError` for each further one.
    """
    fs, top = located(folder)
    written = {file.name for file in files}
    fs.invalidate_cache(top)
    there = {path.removeprefix(f"{top}/") for path in fs.find(top)}
    for name in sorted(written - there):
        yield CheckpointStateMissingError(f"{top}/{name} is not there")
    for name in sorted(there - written):
        if not any(map(is_hidden, name.split("/"))):
            yield CheckpointFormatError(f"{top}/{name} is none of the files that were written there")


def is_hidden(name: str) -> bool:
    """True for the name of a file or a folder that Spark passes over."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def is_local(address: str) -> bool:
    """True for a path of this machine, or of a share that is mounted here."""
    return "://" not in address or address.startswith("file://")


def folders_within(addresses: Iterable[str], within: str) -> list[str]:
    """The local folders that lead from `within` to files, each once, `within` itself last."""
    if not is_local(within):
        return []
    _, top = located(within)
    folders = {top}
    for address in addresses:
        _, folder = located(address)
        while folder != top:
            folder, _, name = folder.rpartition("/")
            assert name, f"{address} is not in {within}"
            folders.add(folder)
    return sorted(folders, key=lambda folder: (-len(folder), folder))


def sync_files(addresses: Iterable[str]) -> None:
    """Make local files durable that another library has written; those that are not there any more are left out."""
    for address in addresses:
        if is_local(address):
            with suppress(FileNotFoundError), located(address)[0].open(located(address)[1], "rb") as file:
                _sync_open(file)


def sync_folders(folders: Iterable[str | os.PathLike[str]]) -> None:
    """Make the names in local folders durable. Raises `OSError`."""
    for folder in folders:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as refused:
            if refused.errno not in _UNSYNCABLE:
                raise


def _read(file: IO[bytes]) -> tuple[int, bytes]:
    size_bytes, digest = 0, xxh3_128()
    while chunk := file.read(_CHUNK):
        size_bytes += len(chunk)
        digest.update(chunk)
    return size_bytes, digest.digest()


def _sync_open(file: IO[bytes]) -> None:
    """Sync an open file, unless it is an object's."""
    try:
        descriptor = file.fileno()
    except (AttributeError, OSError):
        return
    file.flush()
    os.fsync(descriptor)
