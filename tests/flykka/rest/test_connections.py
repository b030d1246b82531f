"""Slow clients block no other client: deadlines in virtual time, and 500 slow connections."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from flykka.rest.connections import (
    BODY_SECONDS,
    HEAD_SECONDS,
    INCOMPLETE,
    STALLED_SECONDS,
    BoundedProtocol,
    Connections,
)
from flykka.rest.settings import CONNECTIONS_PER_PEER, RestSettings
from tests.flykka.rest.conftest import Serve, Served

HEAD = b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n"


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.now = 0.0
        super().__init__()

    def time(self) -> float:
        return self.now

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.settle()

    def settle(self) -> None:
        for _ in range(5):
            self.run_until_complete(asyncio.sleep(0))


class Wire(asyncio.Transport):
    def __init__(self, peer: str = "10.0.0.1") -> None:
        super().__init__()
        self._peer = peer
        self.written = b""
        self.end: str | None = None

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": (self._peer, 7), "sockname": ("10.0.0.2", 8081)}.get(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.end = self.end or "closed"

    def abort(self) -> None:
        self.end = self.end or "aborted"

    def is_closing(self) -> bool:
        return self.end is not None

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def refusal(self) -> tuple[int, str]:
        head, _, body = self.written.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(body)["errors"][0]


async def answer(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


Connect = Callable[..., tuple[BoundedProtocol, Wire]]


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    made = VirtualLoop()
    yield made
    made.close()


@pytest.fixture
def connect(loop: VirtualLoop) -> Iterator[Connect]:
    """Connects to a server that accepts three connections in total and two from each peer."""
    pool, config, state = Connections(incomplete=3, per_peer=2), uvicorn.Config(answer, log_config=None), ServerState()

    protocols: list[BoundedProtocol] = []

    def make(peer: str) -> tuple[BoundedProtocol, Wire]:
        wire = Wire(peer)
        protocol = BoundedProtocol(config, state, {}, loop, pool=pool)
        protocol.connection_made(wire)
        protocols.append(protocol)
        return protocol, wire

    yield make
    for protocol in protocols:
        protocol.connection_lost(None)
    loop.settle()


def test_a_request_head_must_arrive_within_ten_seconds(loop: VirtualLoop, connect: Connect) -> None:
    protocol, wire = connect("10.0.0.1")
    for byte in HEAD[:9]:
        protocol.data_received(bytes([byte]))
        loop.pass_time(HEAD_SECONDS / 10)
    assert wire.end is None

    loop.pass_time(HEAD_SECONDS / 10)

    assert wire.refusal() == (408, "the head of a request must be complete after 10 seconds")
    assert wire.end == "closed"


def test_a_later_request_head_must_arrive_within_ten_seconds(loop: VirtualLoop, connect: Connect) -> None:
    protocol, wire = connect("10.0.0.1")
    protocol.data_received(HEAD + b"{}")
    loop.settle()
    assert wire.written.endswith(b"ok")

    loop.pass_time(protocol.timeout_keep_alive - 1)
    wire.written = b""
    protocol.data_received(HEAD[:5])
    loop.pass_time(HEAD_SECONDS - 1)
    assert wire.end is None
    loop.pass_time(1)

    assert wire.refusal()[0] == 408


def test_a_connection_without_a_further_request_is_closed(loop: VirtualLoop, connect: Connect) -> None:
    protocol, wire = connect("10.0.0.1")
    protocol.data_received(HEAD + b"{}")
    loop.settle()

    loop.pass_time(protocol.timeout_keep_alive)

    assert wire.end == "closed"


def test_a_missing_body_ends_the_connection(loop: VirtualLoop, connect: Connect) -> None:
    protocol, wire = connect("10.0.0.1")
    protocol.data_received(HEAD)
    loop.pass_time(BODY_SECONDS - 1)
    assert wire.end is None

    loop.pass_time(1)

    assert wire.refusal() == (408, "the body of a request must be complete after 30 seconds")


def test_the_oldest_incomplete_connection_is_closed_for_a_new_one(loop: VirtualLoop, connect: Connect) -> None:
    (_, done), (_, second), (_, third), (_, fourth) = (connect(f"10.0.0.{number}") for number in range(4))
    assert [wire.end for wire in (done, second, third, fourth)] == ["aborted", None, None, None]

    # A connection with a complete request does not count as incomplete until the request is answered.
    protocol, answered = connect("10.0.0.5")
    assert second.end == "aborted"
    protocol.data_received(HEAD + b"{}")
    _, fifth = connect("10.0.0.6")
    assert [wire.end for wire in (third, fourth, fifth, answered)] == [None, None, None, None]
    loop.settle()
    assert [wire.end for wire in (third, fourth, fifth, answered)] == ["aborted", None, None, None]
    assert answered.written.endswith(b"ok")


def test_connections_per_peer_are_limited(loop: VirtualLoop, connect: Connect) -> None:
    (one, _), (_, second), (_, third) = (connect("10.0.0.1") for _ in range(3))

    assert second.end is None
    assert third.refusal() == (
        429,
        "10.0.0.1 has 2 connections already: --rest-connections-per-peer sets the limit",
    )
    assert connect("10.0.0.2")[1].end is None
    third.written = b""
    one.connection_lost(None)
    assert connect("10.0.0.1")[1].end == "closed", "the refused connection still counts"


def test_a_client_that_does_not_read_is_disconnected(loop: VirtualLoop, connect: Connect) -> None:
    (reading, read), (stalled, unread) = connect("10.0.0.1"), connect("10.0.0.2")
    for protocol in (reading, stalled):
        protocol.data_received(HEAD + b"{}")
        protocol.pause_writing()
    loop.pass_time(STALLED_SECONDS / 3)
    reading.resume_writing()
    reading.data_received(HEAD)
    stalled.data_received(HEAD)

    loop.pass_time(STALLED_SECONDS * 2 / 3)

    assert (read.end, unread.end) == (None, "aborted")


def test_connections_per_peer_are_limited_except_on_loopback_by_default() -> None:
    assert RestSettings().most_connections_per_peer is None
    assert RestSettings(host="0.0.0.0", token_file="token").most_connections_per_peer == CONNECTIONS_PER_PEER
    assert RestSettings(connections_per_peer=3).most_connections_per_peer == 3


def test_the_limit_per_peer_applies_to_a_real_server(serve: Serve) -> None:
    served = serve(RestSettings(connections_per_peer=2))
    address = ("127.0.0.1", int(served.server.address.rpartition(":")[2]))
    assert served.http.get("/jobs").status_code == 200

    with socket.create_connection(address, timeout=10), socket.create_connection(address, timeout=10) as third:
        assert third.recv(65_536).startswith(b"HTTP/1.1 429 ")


@pytest.mark.slow
def test_500_slow_connections_block_no_other_client(served: Served) -> None:
    address = ("127.0.0.1", int(served.server.address.rpartition(":")[2]))
    head = b"GET /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n"
    slow = [socket.create_connection(address, timeout=10) for _ in range(500)]
    try:
        for number, connection in enumerate(slow):
            try:
                # Half of the connections are slow with their heads, half with their bodies.
                connection.sendall(head if number % 2 else head[: number % len(head)])
            except OSError:
                continue  # This was one of the oldest connections.
            if number % 50 == 0:
                assert served.ask_without_token("GET", "/jobs/overview").status_code == 200

        assert served.ask_without_token("GET", "/jobs/overview").status_code == 200
        open_ones = sum(_is_open(connection) for connection in slow)
        assert 0 < open_ones <= INCOMPLETE
    finally:
        for connection in slow:
            connection.close()


def _is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False
