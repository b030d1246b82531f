"""A client of ZooKeeper based on kazoo: versioned nodes, transactions, and the state of the connection."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from threading import Condition, Thread
from time import monotonic
from typing import Any
from uuid import uuid4

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.security import CREATOR_ALL_ACL

from flykka.actors.errors import StoreUnavailableError
from flykka.actors.high_availability.services import LatchHolder
from flykka.cluster.high_availability.settings import ZooKeeperAcl, ZooKeeperSettings

CONNECTION_TIMEOUT = 15.0
"""Seconds to wait for the first reply of a server."""
HANDSHAKE_TIMEOUT = 5.0
"""Seconds to wait until a server accepts a connection and replies, before trying the next server."""

DISCONNECTED = (ConnectionLoss, OperationTimeoutError, SessionExpiredError, SessionMovedError, KazooTimeoutError)
"""Connection errors, after which it is unknown whether the call took effect."""

_log = logging.getLogger(__name__)
# kazoo logs every broken connection in detail, so its log is silenced. Relevant events are logged here.
_QUIET = logging.getLogger("flykka.cluster.high_availability.kazoo")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


@dataclass(frozen=True, slots=True)
class Node:
    """The value at a path, and its version, which counts the writes."""

    data: bytes
    version: int


class _ImpatientHandler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo has no types.
    """Limits the wait for a starting server, which may accept a connection without replying before the session ends."""

    def create_connection(self, *args: Any, **options: Any) -> Any:
        return super().create_connection(*args, **{**options, "timeout": min(options["timeout"], HANDSHAKE_TIMEOUT)})

    def select(self, readable: list[Any], writable: list[Any], exceptional: list[Any], timeout: float) -> Any:
        is_reading_answer = len(readable) == 1
        limit = min(timeout, HANDSHAKE_TIMEOUT) if is_reading_answer else timeout
        return super().select(readable, writable, exceptional, limit)


class ZooKeeperClient:
    """A session with ZooKeeper, replaced by a new session when it ends.

    Raises:
        StoreUnavailableError: no server replies. Later, every call raises it after a session timeout without a reply.
    """

    def __init__(self, settings: ZooKeeperSettings, name: str) -> None:
        self._name = name
        self._root = settings.path
        self._username = settings.username
        self.session_timeout = settings.session_timeout_ms / 1000
        self.changed = Condition()
        """Signals changes of the connection. Its lock also guards the state of objects that use the client."""
        self.is_closed = False
        self._disconnected_since: float | None = monotonic()
        self._is_refused = False
        """True if the login was refused. The connection is then not restored."""
        self._lost: Callable[[], None] = lambda: None
        self._kazoo = KazooClient(
            hosts=settings.hosts,
            timeout=self.session_timeout,
            handler=_ImpatientHandler(),
            logger=_QUIET,
            default_acl=CREATOR_ALL_ACL if settings.acl == ZooKeeperAcl.CREATOR else None,
            sasl_options=_login(settings, name),
        )
        self._kazoo.add_listener(self._on_state)
        try:
            self._kazoo.start(CONNECTION_TIMEOUT)
        except (KazooTimeoutError, KazooException, OSError, ValueError) as refusal:
            if self._is_refused:
                raise self.unavailable(AuthFailedError()) from refusal
            raise StoreUnavailableError(
                f"{name} cannot be reached within {CONNECTION_TIMEOUT:.0f} s: are most of its servers running, and is"
                " this their address?"
            ) from refusal
        if settings.username is not None:
            # The first reply shows whether the login was accepted.
            try:
                self.is_there(self._root)
            except StoreUnavailableError:
                self.close()
                raise

    @property
    def disconnected_for(self) -> float | None:
        """Seconds since the connection was lost, or None if connected."""
        since = self._disconnected_since
        return None if since is None else monotonic() - since

    def on_session_lost(self, callback: Callable[[], None]) -> None:
        """Set the callback for the end of a session. It is called while `changed` is held."""
        self._lost = callback

    def wait_connected(self, until: Callable[[], bool]) -> bool:
        """Wait for a connection, or until another condition is true. Returns True if connected."""
        with self.changed:
            self.changed.wait_for(lambda: self.is_closed or self._disconnected_since is None or until())
            return self._disconnected_since is None and not self.is_closed

    def close(self) -> None:
        """End the session at once, which frees its latch."""
        with self.changed:
            self.is_closed = True
            self.changed.notify_all()
        self._kazoo.stop()
        self._kazoo.close()

    def _on_state(self, state: str) -> None:
        # This runs on the connection's own thread, which must not wait for locks.
        with self.changed:
            if state == KazooState.CONNECTED:
                self._disconnected_since = None
            elif self._disconnected_since is None:
                self._disconnected_since = monotonic()
            self._is_refused = self._is_refused or self._kazoo.client_state == KeeperState.AUTH_FAILED
            if state == KazooState.LOST:
                self._lost()
            self.changed.notify_all()

    def look(self, path: str) -> Node | None:
        """Return the node at `path`. A folder counts as no node."""
        try:
            data, stat = self._patiently(lambda: self._kazoo.get_async(self._full(path)))
        except NoNodeError:
            return None
        return Node(data, stat.version) if data else None

    def names(self, path: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(self._patiently(lambda: self._kazoo.get_children_async(self._full(path)))))
        except NoNodeError:
            return ()

    def commit(
        self, latch: str, path: str, data: bytes | None, target: Node | None, checks: Iterable[tuple[str, Node]]
    ) -> bool | None:
        """Write a value if the values read before are unchanged and the latch exists.

        Returns whether the value was written, or None if that is unknown.
        """
        transaction = self._kazoo.transaction()
        transaction.check(latch, -1)
        for each, node in checks:
            transaction.check(self._full(each), node.version)
        try:
            if data is None:
                if target is not None:
                    transaction.delete(self._full(path), target.version)
            elif target is None:
                self._ensure_parent(path)
                transaction.create(self._full(path), data)
            else:
                transaction.set_data(self._full(path), data, target.version)
            outcomes = transaction.commit_async().get(timeout=self.session_timeout)
        except DISCONNECTED:
            return None
        except KazooException as refusal:
            raise self.unavailable(refusal) from refusal
        for outcome in outcomes:
            if isinstance(outcome, NoAuthError):
                raise self.unavailable(outcome)
        has_happened = not any(isinstance(outcome, Exception) for outcome in outcomes)
        if has_happened and data is None:
            self._remove_empty(path)
        return has_happened

    def create_latch(self, prefix: str) -> None:
        """Create an ephemeral node, numbered after all others. Raises errors of `DISCONNECTED`."""
        creation = self._kazoo.create_async(
            self._full(f"latch/{prefix}"), b"", ephemeral=True, sequence=True, makepath=True
        )
        creation.get(timeout=self.session_timeout)

    def latches(self) -> list[str]:
        """Return the existing latches, lowest number first. Raises errors of `DISCONNECTED`."""
        try:
            names: list[str] = self._kazoo.get_children_async(self._full("latch")).get(timeout=self.session_timeout)
        except NoNodeError:
            return []
        return sorted(names, key=lambda name: name.rpartition("-")[2])

    def latch_path(self, latch: str) -> str:
        return self._full(f"latch/{latch}")

    def watch_latch(self, latch: str, changes: Callable[[], None]) -> bool:
        """Call `changes` when the latch disappears, or its existence becomes unknown. Returns whether it exists."""
        stat = self._kazoo.exists_async(self.latch_path(latch), watch=lambda _: changes()).get(
            timeout=self.session_timeout
        )
        return stat is not None

    def is_there(self, full_path: str) -> bool:
        return self._patiently(lambda: self._kazoo.exists_async(full_path)) is not None

    def delete_latch(self, full_path: str) -> None:
        """Delete a latch if connected. Otherwise the latch disappears with its session."""
        try:
            self._kazoo.delete_async(full_path).get(timeout=self.session_timeout)
        except (NoNodeError, *DISCONNECTED):
            pass

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def _ensure_parent(self, path: str) -> None:
        self._kazoo.ensure_path_async(self._full(path.rpartition("/")[0])).get(timeout=self.session_timeout)

    def _remove_empty(self, path: str) -> None:
        while path := path.rpartition("/")[0]:
            try:
                self._kazoo.delete_async(self._full(path)).get(timeout=self.session_timeout)
            except (NotEmptyError, *DISCONNECTED):
                return
            except NoNodeError:
                pass

    def _patiently(self, ask: Callable[[], Any]) -> Any:
        """Make a call that is harmless if repeated, and repeat it after connection losses."""
        end = monotonic() + self.session_timeout + CONNECTION_TIMEOUT
        while True:
            try:
                return ask().get(timeout=max(0.0, end - monotonic()))
            except ConnectionClosedError as closed:
                if self.is_closed:
                    raise StoreUnavailableError(f"{self._name} was used after it was closed") from closed
            except DISCONNECTED:
                pass
            except NoNodeError:
                raise
            except KazooException as refusal:
                raise self.unavailable(refusal) from refusal
            if monotonic() >= end:
                raise StoreUnavailableError(
                    f"{self._name} has not answered for {self.session_timeout + CONNECTION_TIMEOUT:.0f} s: are most of"
                    " its servers running?"
                )
            with self.changed:
                self.changed.wait_for(
                    lambda: self.is_closed or self._disconnected_since is None, timeout=max(0.0, end - monotonic())
                )

    def unavailable(self, refusal: KazooException) -> StoreUnavailableError:
        if isinstance(refusal, AuthFailedError):
            return StoreUnavailableError(
                f"{self._name} refuses the login of {self._username!r}: check the user and its password"
            )
        if isinstance(refusal, NoAuthError):
            return StoreUnavailableError(
                f"{self._name}: {self._root} belongs to another user: log in as its owner (username,"
                " password_file), or give this application a path of its own"
            )
        return StoreUnavailableError(f"{self._name} refuses {self._root}: {type(refusal).__name__} {refusal}".rstrip())


def _login(settings: ZooKeeperSettings, name: str) -> dict[str, str] | None:
    """Return kazoo's options for logging in a user, if any. Raises `StoreUnavailableError`."""
    if settings.username is None:
        return None
    if find_spec("puresasl") is None:
        raise StoreUnavailableError(
            f"{name} needs pure-sasl for a user, which is not installed: pip install 'flykka[zookeeper]'"
        )
    try:
        return {"mechanism": "DIGEST-MD5", "username": settings.username, "password": settings.password()}
    except (OSError, UnicodeDecodeError) as unreadable:
        raise StoreUnavailableError(
            f"{name}: the password file {settings.password_file} cannot be read"
        ) from unreadable


class ZooKeeperLatch:
    """The latch of a driver in ZooKeeper: an ephemeral node among those of all contenders.

    The lowest number leads. A waiting driver watches only the node before its own, so that the end of a leader wakes a
    single driver (ZooKeeper's recipe for leader election). Everything happens on one thread. The latch is lost when its
    session ends, or after a session timeout without a connection.
    """

    def __init__(self, client: ZooKeeperClient) -> None:
        self._client = client
        self._prefix = f"{uuid4().hex}-"
        self._held: str | None = None
        self._is_moving = False
        client.on_session_lost(self._on_session_lost)

    @property
    def held(self) -> str | None:
        """The full path of the node with which this driver leads, or None if it does not lead."""
        return self._held

    def acquire(self, holder: LatchHolder) -> None:
        """Wait for the latch on another thread, and wait again whenever it is lost."""
        Thread(target=self._contend, args=(holder,), name="flykka-high-availability-latch", daemon=True).start()

    def lose(self, latch: str) -> None:
        with self._client.changed:
            if self._held == latch:
                self._held = None
                self._client.changed.notify_all()

    def close(self) -> None:
        """Give up the latch. The client, which is closed next, ends the session."""
        with self._client.changed:
            self._held = None
            self._client.changed.notify_all()

    def _on_session_lost(self) -> None:
        self._held = None

    def _contend(self, holder: LatchHolder) -> None:
        while self._client.wait_connected(until=lambda: False):
            try:
                latch = self._wait_lowest()
            except DISCONNECTED:
                continue
            except KazooException as refusal:
                holder.failed(self._client.unavailable(refusal))
                return
            if latch is None or not self._take(latch):
                continue
            holder.acquired()
            self._wait_lost(latch)
            holder.lost()
            if not self._client.is_closed:
                # If the session has survived the disconnection, the node still exists.
                self._client.delete_latch(latch)

    def _wait_lowest(self) -> str | None:
        """Wait until this driver's node is the lowest, and return its path. None means that the caller must check
        again.
        """
        latches = self._client.latches()
        mine = next((index for index, name in enumerate(latches) if name.startswith(self._prefix)), None)
        if mine is None:
            self._client.create_latch(self._prefix)
            return None
        if mine == 0:
            return self._client.latch_path(latches[0])
        self._is_moving = False
        if self._client.watch_latch(latches[mine - 1], self._on_move):
            with self._client.changed:
                self._client.changed.wait_for(lambda: self._is_moving or self._client.is_closed)
        return None

    def _on_move(self) -> None:
        with self._client.changed:
            self._is_moving = True
            self._client.changed.notify_all()

    def _take(self, latch: str) -> bool:
        with self._client.changed:
            if self._client.disconnected_for is None and not self._client.is_closed:
                self._held = latch
            return self._held is not None

    def _wait_lost(self, latch: str) -> None:
        with self._client.changed:
            while self._held == latch:
                silence = self._client.disconnected_for
                if silence is None:
                    self._client.changed.wait()
                elif silence < self._client.session_timeout:
                    self._client.changed.wait(self._client.session_timeout - silence)
                else:
                    # By now the servers consider this driver dead, or are unavailable themselves.
                    self._held = None
