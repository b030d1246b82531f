"""Limits the connections of one server, so that slow clients do not block other clients.

A pool contains the connections whose request is incomplete, and those that are idle between two requests. A request
head may take `HEAD_SECONDS`, and its body `BODY_SECONDS`. If the pool is full, its oldest connection is closed.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, OrderedDict
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn.server import ServerState

HEAD_SECONDS = 10.0
BODY_SECONDS = 30.0
STALLED_SECONDS = 30.0
"""Seconds after which a client that does not read its response is disconnected."""

INCOMPLETE = 128


class Connections:
    """The pool of one server, and the number of connections of each peer, at most `per_peer`."""

    def __init__(self, *, incomplete: int = INCOMPLETE, per_peer: int | None = None) -> None:
        self._most_incomplete = incomplete
        self._per_peer = per_peer
        self._incomplete: OrderedDict[BoundedProtocol, None] = OrderedDict()
        self._of_peers: Counter[str] = Counter()

    def refusal(self, peer: str) -> str | None:
        """Count a connection. Returns the reason if the peer has too many."""
        self._of_peers[peer] += 1
        if self._per_peer is None or self._of_peers[peer] <= self._per_peer:
            return None
        return f"{peer} has {self._per_peer} connections already: --rest-connections-per-peer sets the limit"

    def forget(self, connection: BoundedProtocol, peer: str) -> None:
        self._incomplete.pop(connection, None)
        self._of_peers -= Counter([peer])

    def wait(self, connection: BoundedProtocol) -> None:
        """Add a connection to the pool as the newest one. If the pool is full, close the oldest."""
        self._incomplete[connection] = None
        self._incomplete.move_to_end(connection)
        if len(self._incomplete) > self._most_incomplete:
            oldest, _ = self._incomplete.popitem(last=False)
            oldest.transport.abort()

    def complete(self, connection: BoundedProtocol) -> None:
        self._incomplete.pop(connection, None)


class _Phase(Enum):
    HEAD = auto()
    BODY = auto()
    IDLE = auto()
    COMPLETE = auto()


class BoundedProtocol(H11Protocol):
    """Uvicorn's protocol with a deadline for each part of a request."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        pool: Connections,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._pool = pool
        self._phase: _Phase | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn has it.
        super().connection_made(transport)
        if (reason := self._pool.refusal(self._peer)) is not None:
            self._refuse(429, reason)
        else:
            self._enter(_Phase.HEAD)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        _cancel(self._deadline)
        _cancel(self._stalled)
        self._pool.forget(self, self._peer)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._update_phase()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update_phase()

    def pause_writing(self) -> None:
        """Disconnect the client after some time, unless it resumes reading."""
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        _cancel(self._stalled)

    @property
    def _peer(self) -> str:
        return "" if self.client is None else self.client[0]

    def _update_phase(self) -> None:
        if self.conn.their_state is h11.SEND_BODY:
            phase = _Phase.BODY
        elif self.conn.their_state is not h11.IDLE:
            phase = _Phase.COMPLETE
        else:
            phase = _Phase.HEAD if self._phase is _Phase.HEAD or self.conn.trailing_data[0] else _Phase.IDLE
        if phase is not self._phase:
            self._enter(phase)

    def _enter(self, phase: _Phase) -> None:
        _cancel(self._deadline)
        self._phase = phase
        match phase:
            case _Phase.COMPLETE:
                self._pool.complete(self)
                return
            case _Phase.IDLE:
                self._deadline = self.loop.call_later(self.timeout_keep_alive, self.transport.close)
            case _Phase.HEAD:
                self._deadline = self.loop.call_later(HEAD_SECONDS, self._expire, "head", HEAD_SECONDS)
            case _Phase.BODY:
                self._deadline = self.loop.call_later(BODY_SECONDS, self._expire, "body", BODY_SECONDS)
        self._pool.wait(self)

    def _expire(self, part: str, seconds: float) -> None:
        self._refuse(408, f"the {part} of a request must be complete after {seconds:.0f} seconds")

    def _refuse(self, status: int, reason: str) -> None:
        """Send an error response, if none was sent yet, without calling the application. Close the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = json.dumps({"errors": [reason]}).encode()
            headers = [
                ("content-type", "application/json"),
                ("content-length", str(len(body))),
                ("connection", "close"),
            ]
            for event in (h11.Response(status_code=status, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
            self.transport.close()
        else:
            self.transport.abort()


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
