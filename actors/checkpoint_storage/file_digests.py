"""Computes digests of files, and syncs files and folders to disk. Used in the driver and in Python workers.

A path is local, with or without Hadoop's `file:`, or an address that fsspec supports. Only local files, including those
on mounted shares, are synced: an object is durable when its upload has returned.
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
"""Errors of file systems that cannot fsync folders, or of folders that are writable but not readable."""


def split_address(address: str) -> tuple[AbstractFileSystem, str]:
    """Return the file system of an address and the path in it. Hadoop writes a local path as `file:/folder`."""
    fs, path = url_to_fs(address if "://" in address else address.removeprefix("file:"))
    return fs, path


class DigestedFile:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = xxh3_128()
        self._size = 0

    def write(self, data: Any) -> int:
        self._hash.update(data)
        self._size += memoryview(data).nbytes
        return self._file.write(data)

    def sealed(self, name: str, *, sync: bool) -> FileDigest:
        if sync:
            _sync_open(self._file)
        return FileDigest(name=name, size_bytes=self._size, digest=self._hash.digest())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def sealed(address: str, name: str, *, sync: bool) -> FileDigest:
    """Return the digest of a file that another library has written. With `sync` the file is made durable.

    Hadoop's own checksum of a local file is deleted, because it covers less and would have to be synced, too.
    """
    fs, path = split_address(address)
    if is_local(address):
        folder, _, file_name = path.rpartition("/")
        with suppress(FileNotFoundError):
            os.unlink(f"{folder}/.{file_name}.crc")
    with fs.open(path, "rb") as file:
        size_bytes, digest = _read(file)
        if sync:
            _sync_open(file)
    return FileDigest(name=name, size_bytes=size_bytes, digest=digest)


def verify_file(address: str, expected: FileDigest, *, shown: str | None = None) -> None:
    """Compare a file with its digest. If the file is a copy, errors name the original as `shown`.

    Raises:
        CheckpointStateMissingError: the file does not exist.
        CheckpointFormatError: the file was altered or truncated.
        OSError: the file cannot be read.
    """
    fs, path = split_address(address)
    try:
        with fs.open(path, "rb") as file:
            size_bytes, digest = _read(file)
    except (FileNotFoundError, NotADirectoryError):
        raise CheckpointStateMissingError(f"{shown or path} is missing") from None
    if size_bytes != expected.size_bytes:
        raise CheckpointFormatError(
            f"{shown or path} is damaged: {expected.size_bytes} bytes were written, but it has {size_bytes}"
        )
    if digest != expected.digest:
        raise CheckpointFormatError(
            f"{shown or path} is damaged: its content differs from the content that was written (xxh3_128)"
        )


def verify_names(folder: str, files: Iterable[FileDigest]) -> None:
    for error in name_errors(folder, files):
        raise error


def name_errors(folder: str, files: Iterable[FileDigest]) -> Iterator[CheckpointStorageError]:
    """Compare the names of the files in a handle's folder with those that were written there.

    Yields a `CheckpointStateMissingError` for each missing file, and a `CheckpointFormatError` for each unexpected
    file.
    """
    fs, top = split_address(folder)
    expected = {file.name for file in files}
    fs.invalidate_cache(top)
    existing = {path.removeprefix(f"{top}/") for path in fs.find(top)}
    for name in sorted(expected - existing):
        yield CheckpointStateMissingError(f"{top}/{name} is missing")
    for name in sorted(existing - expected):
        if not any(map(is_hidden, name.split("/"))):
            yield CheckpointFormatError(f"{top}/{name} is unexpected: it was not written with this state")


def is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def is_local(address: str) -> bool:
    """Return whether this is a local path. Mounted shares are local."""
    return "://" not in address or address.startswith("file://")


def folders_within(addresses: Iterable[str], within: str) -> list[str]:
    """Return the local folders between the files and `within`, deepest first, each once. `within` itself is last."""
    if not is_local(within):
        return []
    _, top = split_address(within)
    folders = {top}
    for address in addresses:
        _, folder = split_address(address)
        while folder != top:
            folder, _, name = folder.rpartition("/")
            assert name, f"{address} is not in {within}"
            folders.add(folder)
    return sorted(folders, key=lambda folder: (-len(folder), folder))


def sync_files(addresses: Iterable[str]) -> None:
    """Make local files durable. Files that no longer exist are skipped."""
    for address in addresses:
        if is_local(address):
            with suppress(FileNotFoundError), split_address(address)[0].open(split_address(address)[1], "rb") as file:
                _sync_open(file)


def sync_folders(folders: Iterable[str | os.PathLike[str]]) -> None:
    """Make the directory entries in local folders durable. Raises `OSError`."""
    for folder in folders:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno not in _UNSYNCABLE:
                raise


def _read(file: IO[bytes]) -> tuple[int, bytes]:
    size_bytes, digest = 0, xxh3_128()
    while chunk := file.read(_CHUNK):
        size_bytes += len(chunk)
        digest.update(chunk)
    return size_bytes, digest.digest()


def _sync_open(file: IO[bytes]) -> None:
    try:
        descriptor = file.fileno()
    except (AttributeError, OSError):
        return
    file.flush()
    os.fsync(descriptor)
