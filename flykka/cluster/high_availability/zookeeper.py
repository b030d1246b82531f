"""High availability in ZooKeeper, for drivers on several machines.

    <path>/latch/<driver>-<number>      the contenders: the lowest number leads, as long as its session exists
    <path>/<path of the value>          a value, or the name of the file that contains a large one

Every write is a transaction that also checks that the writer's own latch exists. So a driver that was considered dead
and resumes cannot change anything (Flink's ZooKeeperMultipleComponentLeaderElectionDriver and its StateHandleStore
since 1.15).

After a connection loss the client reconnects. Until then writes wait. If the outcome of a write is unknown, the stored
value is checked for the unique marker of that write. Leadership is lost when the session has ended, or must have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import uuid4

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs

from flykka.actors.checkpoint_storage.private_files import make_folder, restrict
from flykka.actors.errors import LeadershipLostError, StoreUnavailableError
from flykka.actors.high_availability.services import HighAvailabilityServices, LatchHolder
from flykka.cluster.high_availability.settings import ZooKeeperSettings
from flykka.messages.wire.tags import trace_tag
from flykka.runtime.permissions import PRIVATE

if TYPE_CHECKING:
    from flykka.cluster.high_availability.zookeeper_client import Node, ZooKeeperClient, ZooKeeperLatch

LARGEST_IN_NODE = 16 * 1024
"""The maximum size of a value in a node, in bytes. Larger values are files."""
_MARK_BYTES = 16
_VALUE, _FILE = b"=", b">"


@trace_tag("high_availability.zookeeper")
class ZooKeeperHaServices(HighAvailabilityServices):
    """Raises `StoreUnavailableError` like `ZooKeeperBackend`."""

    def __init__(self, settings: ZooKeeperSettings, new_id: Callable[[], str] | None = None) -> None:
        super().__init__(ZooKeeperBackend(settings), new_id)


class ZooKeeperBackend:
    """Implements `Backend` on ZooKeeper.

    Raises:
        StoreUnavailableError: no server can be reached, the storage directory cannot be used, or kazoo is not
            installed.
    """

    def __init__(self, settings: ZooKeeperSettings) -> None:
        self.name = f"ZooKeeper at {settings.hosts}"
        self._values = ZooKeeperValues(settings.storage_dir, self.name)
        try:
            from flykka.cluster.high_availability.zookeeper_client import ZooKeeperClient, ZooKeeperLatch
        except ModuleNotFoundError as missing:
            raise StoreUnavailableError(
                f"{self.name} cannot be used without kazoo, which is not installed: pip install 'flykka[zookeeper]'"
            ) from missing
        self._client: ZooKeeperClient = ZooKeeperClient(settings, self.name)
        self._latch: ZooKeeperLatch = ZooKeeperLatch(self._client)

    def acquire(self, holder: LatchHolder) -> None:
        self._latch.acquire(holder)

    def read(self, path: str) -> bytes | None:
        while (node := self._client.look(path)) is not None:
            data = self._values.unpack(node.data)
            if data is not None:
                return data
            if node == self._client.look(path):
                raise StoreUnavailableError(f"{self.name}: the file of {path} is missing from the storage directory")
        return None

    def names(self, path: str) -> tuple[str, ...]:
        return self._client.names(path)

    def write(self, path: str, data: bytes | None, expected: Mapping[str, bytes | None]) -> str | None:
        """Compare and set in one transaction that also checks the latch."""
        self._current_latch(path)
        packed = None if data is None else self._values.pack(path, data)
        try:
            differs, replaced = self._set(path, packed, expected)
        except StoreUnavailableError:
            self._values.discard(packed)
            raise
        self._values.discard(replaced if differs is None else packed)
        return differs

    def close(self) -> None:
        """End the session, which releases the latch at once."""
        self._latch.close()
        self._client.close()

    def _set(
        self, path: str, packed: bytes | None, expected: Mapping[str, bytes | None]
    ) -> tuple[str | None, bytes | None]:
        """Return the first path whose value differs, or None with the replaced value."""
        replaced, is_unsure = None, False
        while True:
            latch = self._current_latch(path)
            try:
                target = self._client.look(path)
                there = None if target is None else target.data
                if is_unsure and there == packed:
                    return None, replaced
                nodes = {each: target if each == path else self._client.look(each) for each in expected}
            except StoreUnavailableError as silent:
                if is_unsure:
                    raise LeadershipLostError(f"{silent}; it is unknown whether {path} was written") from silent
                raise
            for each, value in expected.items():
                if self._value(nodes[each]) != value:
                    return each, None
            replaced = there
            checks = [(each, node) for each, node in nodes.items() if node is not None and each != path]
            has_happened = self._client.commit(latch, path, packed, target, checks)
            if has_happened:
                return None, replaced
            if has_happened is None:
                is_unsure = True
                self._client.wait_connected(until=lambda: self._latch.held != latch)  # noqa: B023 - within this round.
            elif not self._client.is_there(latch):
                self._latch.lose(latch)

    def _value(self, node: Node | None) -> bytes | None:
        return None if node is None else self._values.unpack(node.data)

    def _current_latch(self, path: str) -> str:
        latch = self._latch.held
        if latch is None:
            raise LeadershipLostError(f"{self.name}: this driver is not the leader; {path} was not written")
        return latch


class ZooKeeperValues:
    """The format of values in ZooKeeper: a unique marker, followed by the value or the name of a file that contains it.

    ZooKeeper limits nodes to a megabyte and keeps all nodes in memory. Therefore a value of more than some kilobytes,
    for example a job graph, is a file in the storage directory, whose name is in ZooKeeper (Flink's
    `high-availability.storageDir`).

    Raises `StoreUnavailableError` if the directory cannot be used.
    """

    def __init__(self, storage_dir: str, name: str) -> None:
        self._name = f"{name}: the storage directory {storage_dir!r}"
        try:
            resolved: tuple[AbstractFileSystem, str] = url_to_fs(storage_dir)
            self._fs, self._root = resolved
            make_folder(self._fs, self._root, PRIVATE)
        except (ValueError, ImportError, OSError) as refusal:
            raise StoreUnavailableError(f"{self._name} cannot be used: {refusal}") from refusal

    def pack(self, path: str, data: bytes) -> bytes:
        """Return the bytes for the node at `path`. A large value is first written to a file."""
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
        """Return the value of a node, or None if its file no longer exists because the value was replaced meanwhile."""
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
        if node is not None and node[_MARK_BYTES : _MARK_BYTES + 1] == _FILE:
            # A remaining file does no harm.
            with suppress(OSError):
                self._fs.rm_file(f"{self._root}/{node[_MARK_BYTES + 1 :].decode()}")
