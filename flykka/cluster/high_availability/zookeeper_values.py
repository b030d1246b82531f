"""The form of a value in ZooKeeper: a mark that no other write bears, and the value, or where a large one is.

ZooKeeper holds a megabyte in a node and keeps all nodes in memory: what is larger than some kilobytes, a job graph for
instance, is a file in the storage directory, of which ZooKeeper has the name (Flink's `high-availability.storageDir`).
"""

from __future__ import annotations

from contextlib import suppress
from uuid import uuid4

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs

from flykka.actors.checkpoint_storage.private_files import make_folder, restrict
from flykka.actors.errors import StoreUnavailableError
from flykka.runtime.permissions import PRIVATE

LARGEST_IN_NODE = 16 * 1024
"""In bytes. A larger value is a file."""

_MARK_BYTES = 16
_VALUE, _FILE = b"=", b">"


class ZooKeeperValues:
    """Makes nodes of values and values of nodes. Raises `StoreUnavailableError` where the directory cannot be used."""

    def __init__(self, storage_dir: str, name: str) -> None:
        self._name = f"{name}: the storage directory {storage_dir!r}"
        try:
            found: tuple[AbstractFileSystem, str] = url_to_fs(storage_dir)
            self._fs, self._root = found
            make_folder(self._fs, self._root, PRIVATE)
        except (ValueError, ImportError, OSError) as refusal:
            raise StoreUnavailableError(f"{self._name} cannot be used: {refusal}") from refusal

    def pack(self, path: str, data: bytes) -> bytes:
        """The bytes for the node at `path`; a large value is in its file then."""
        mark = uuid4()
        if len(data) <= LARGEST_IN_NODE:
            return mark.bytes + _VALUE + data
        file = f"{path.replace('/', '-')}-{mark.hex}"
        try:
            self._fs.pipe_file(f"{self._root}/{file}", data)
            restrict(self._fs, f"{self._root}/{file}")
        except OSError as refusal:
            raise StoreUnavailableError(f"{self._name} cannot be written: {refusal}") from refusal
        return mark.bytes + _FILE + file.encode()

    def unpack(self, node: bytes) -> bytes | None:
        """The value that a node holds; None where its file is gone, as when it was replaced meanwhile."""
        kind, content = node[_MARK_BYTES : _MARK_BYTES + 1], node[_MARK_BYTES + 1 :]
        if kind == _VALUE:
            return content
        try:
            data: bytes = self._fs.cat_file(f"{self._root}/{content.decode()}")
        except FileNotFoundError:
            return None
        except OSError as refusal:
            raise StoreUnavailableError(f"{self._name} cannot be read: {refusal}") from refusal
        return data

    def discard(self, node: bytes | None) -> None:
        """Delete the file of a value that nobody can read any more, if it has one."""
        if node is not None and node[_MARK_BYTES : _MARK_BYTES + 1] == _FILE:
            # One that stays is in nobody's way.
            with suppress(OSError):
                self._fs.rm_file(f"{self._root}/{node[_MARK_BYTES + 1 :].decode()}")
