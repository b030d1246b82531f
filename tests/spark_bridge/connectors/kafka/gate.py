"""A proxy that holds a broker's request or response, so that a test can act at a specific moment of the protocol."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import IntEnum
from struct import unpack

from benchmarks.connectors.broker import Listener, free_port

DEADLINE_S = 60.0


class Request(IntEnum):
    PRODUCE = 0
    FETCH = 1
    INIT_PRODUCER_ID = 22
    TXN_OFFSET_COMMIT = 28
    END_TXN = 26


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A moment in the protocol: before the broker receives the nth request of a type, or before the client gets the
    response.
    """

    request: Request
    of_answer: bool = False
    nth: int = 1

    def __str__(self) -> str:
        return f"{'answered' if self.of_answer else 'before'}-{self.request.name.lower()}"


@dataclass(slots=True)
class HeldRequest:
    """A held request: `reached` is set when the moment has come, and `release` lets the request continue."""

    moment: Moment
    seen: int = 0
    reached: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)

    def wait(self) -> None:
        assert self.reached.wait(DEADLINE_S), f"nobody came to {self.moment}"

    def release(self) -> None:
        self._released.set()

    def stop_here(self) -> None:
        self.reached.set()
        self._released.wait()


class Gate:
    """The proxy: clients that connect to `address` reach the broker that has the proxy's `listener`."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        port: int = self._server.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        self.listener = Listener(name="GATED", port=free_port(), advertised_port=port)
        self._lock = threading.Lock()
        self._held: list[HeldRequest] = []

    @contextmanager
    def hold(self, moment: Moment) -> Iterator[HeldRequest]:
        """Hold requests at a moment, at most until the end of the block."""
        held = HeldRequest(moment)
        with self._lock:
            self._held.append(held)
        try:
            yield held
        finally:
            with self._lock:
                self._held.remove(held)
            held.release()

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def close(self) -> None:
        # A thread in accept() does not notice that its socket was closed.
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _connect(self, client: socket.socket) -> None:
        try:
            broker = socket.create_connection(("127.0.0.1", self.listener.port))
        except OSError:
            client.close()
            return
        of_answers: dict[bytes, HeldRequest] = {}
        threading.Thread(target=self._answers, args=(broker, client, of_answers), daemon=True).start()
        with suppress(OSError):
            while (request := _read(client)) is not None:
                held = self._holding(request)
                if held is not None and held.moment.of_answer:
                    of_answers[request[8:12]] = held
                elif held is not None:
                    held.stop_here()
                broker.sendall(request)
        _end(client, broker)

    def _answers(self, broker: socket.socket, client: socket.socket, held: dict[bytes, HeldRequest]) -> None:
        with suppress(OSError):
            while (answer := _read(broker)) is not None:
                if (of_answer := held.pop(answer[4:8], None)) is not None:
                    of_answer.stop_here()
                client.sendall(answer)
        _end(client, broker)

    def _holding(self, request: bytes) -> HeldRequest | None:
        (kind,) = unpack(">h", request[4:6])
        with self._lock:
            for held in self._held:
                if held.moment.request == kind:
                    held.seen += 1
                    if held.seen == held.moment.nth:
                        return held
        return None


@contextmanager
def running_gate() -> Iterator[Gate]:
    gate = Gate()
    threading.Thread(target=gate.serve, daemon=True).start()
    try:
        yield gate
    finally:
        gate.close()


def _read(connection: socket.socket) -> bytes | None:
    """Read a request or a response including its length prefix; None at the end of the stream."""
    length = connection.recv(4, socket.MSG_WAITALL)
    if len(length) < 4:
        return None
    content = connection.recv(unpack(">i", length)[0], socket.MSG_WAITALL)
    return length + content


def _end(*connections: socket.socket) -> None:
    for connection in connections:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()
