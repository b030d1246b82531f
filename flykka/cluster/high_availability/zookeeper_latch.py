"""The latch of a driver in ZooKeeper: an ephemeral node among those of all who want to lead; the lowest number does.

A waiting driver watches the one before it alone, so that the end of a leader wakes one driver alone (the recipe for
leader election of ZooKeeper's documentation). All of it happens on one thread.
"""

from __future__ import annotations

import logging
from threading import Thread
from uuid import uuid4

from kazoo.exceptions import KazooException

from flykka.actors.high_availability.services import LatchHolder
from flykka.cluster.high_availability.zookeeper_client import DISCONNECTED, ZooKeeperClient

_log = logging.getLogger(__name__)


class ZooKeeperLatch:
    """Of one driver. What it holds goes with its session, or when there was no connection for as long as one lasts."""

    def __init__(self, client: ZooKeeperClient) -> None:
        self._client = client
        self._prefix = f"{uuid4().hex}-"
        self._held: str | None = None
        self._is_moving = False
        client.on_session_lost(self._on_session_lost)

    @property
    def held(self) -> str | None:
        """The full path of the node with which this driver leads; None where it does not."""
        return self._held

    def acquire(self, holder: LatchHolder) -> None:
        """Wait for the latch, and again whenever it is lost."""
        Thread(target=self._contend, args=(holder,), name="flykka-high-availability-latch", daemon=True).start()

    def lose(self, latch: str) -> None:
        """It was seen that this node is not there any more."""
        with self._client.changed:
            if self._held == latch:
                self._held = None
                self._client.changed.notify_all()

    def close(self) -> None:
        """Hold nothing any more; the client, which ends the session, comes next."""
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
                # Where the session has outlived its silence, the node has as well.
                self._client.delete_latch(latch)

    def _wait_lowest(self) -> str | None:
        """Wait until the node of this driver is the lowest; None where it is to be looked at again."""
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
                    # The servers have taken this driver for dead by now, or are gone themselves.
                    self._held = None
