"""Tests that a SocketTextSource emits the lines of a server in order, and reconnects as often as allowed."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from threading import Thread

import pytest
from pyspark.sql import SparkSession

from flykka.connectors import Boundedness, OperatorId, SourceError
from flykka.messages.tasks.source import SerializedSplit
from flykka.runtime.durations import duration_ms
from flykka.spark_bridge.connectors import socket_text
from flykka.spark_bridge.connectors.socket_text import LineReader, SocketTextDiscovery, SocketTextSource

_DEADLINE_S = 20.0


class Server:
    """A server that accepts one connection at a time, and can stop listening and later listen again on its port."""

    def __init__(self) -> None:
        self._listening: socket.socket | None = None
        self._connection: socket.socket | None = None
        self.port = 0
        self.listen()

    def listen(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", self.port))
        self._listening.settimeout(_DEADLINE_S)
        self.port = self._listening.getsockname()[1]

    def refuse(self) -> None:
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    def send(self, data: bytes) -> None:
        if self._connection is None:
            assert self._listening is not None
            self._connection, _ = self._listening.accept()
        self._connection.sendall(data)

    def hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        self.hang_up()
        self.refuse()


class Reading:
    """Drives the discovery of a source with the test's clock, and collects the lines."""

    def __init__(self, source: SocketTextSource) -> None:
        self.now_s = 0.0
        self.lines: list[str] = []
        self.finished = False
        self.position = b""
        self.splits: list[SerializedSplit] = []
        reader = LineReader(
            source.host,
            source.port,
            delimiter=source.delimiter,
            max_retries=source.max_retries,
            retry_delay_ms=duration_ms(source.retry_delay),
            clock=lambda: self.now_s,
        )
        self.discovery = SocketTextDiscovery(reader, OperatorId("source"))

    def look(self) -> None:
        discovered = self.discovery.discover(self.position)
        self.position, self.finished = discovered.position, discovered.finished
        for split in discovered.splits:
            assert isinstance(split, SerializedSplit)
            self.splits.append(split)
            self.lines += json.loads(split.content)

    def until(self, *lines: str, finished: bool = False) -> None:
        """Run discoveries until all of these lines have arrived, or the source has ended."""
        deadline = time.monotonic() + _DEADLINE_S
        while self.lines != [*lines] or self.finished != finished:
            assert time.monotonic() < deadline, (self.lines, self.finished)
            self.look()


@pytest.fixture
def server() -> Iterator[Server]:
    created = Server()
    yield created
    created.close()


def test_lines_arrive_in_order_and_an_unterminated_line_at_the_end(server: Server) -> None:
    reading = Reading(SocketTextSource("127.0.0.1", server.port))
    reading.look()
    server.send(b"one\ntw")
    reading.until("one")
    server.send("o\r\n\nthr\u00e9e".encode())
    reading.until("one", "two", "")
    server.close()

    reading.until("one", "two", "", "thr\u00e9e", finished=True)
    assert reading.position == b"4"
    assert len({split.split_id for split in reading.splits}) == len(reading.splits)


def test_a_record_ends_at_the_delimiter(server: Server) -> None:
    reading = Reading(SocketTextSource("127.0.0.1", server.port, delimiter="||"))
    reading.look()
    server.send(b"a\r\nb|")
    server.send(b"|c||")
    server.hang_up()

    reading.until("a\r\nb", "c", finished=True)


def test_a_lost_and_restored_connection_is_logged(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    reading = Reading(SocketTextSource("127.0.0.1", server.port, max_retries=-1, retry_delay="10s"))
    reading.look()
    server.send(b"one\n")
    reading.until("one")
    server.close()
    for look in range(1, 14):
        while reading.discovery.changed is not None and reading.discovery.changed():
            reading.look()
        reading.now_s = 10.0 * look
    server.listen()
    reading.look()
    server.send(b"two\n")
    reading.until("one", "two")

    name = f"127.0.0.1:{server.port}"
    closed, *refused, again = caplog.messages
    assert closed == f"{name} closed the connection: it is tried again every 10.0 s"
    assert refused[0].startswith(f"{name} cannot be connected to (")
    assert [line.partition("(the same ")[2] for line in refused[1:]] == ["2 times)", "5 times)", "10 times)"]
    assert again == f"connected to {name} again"


def test_a_line_continues_over_the_next_connection(server: Server) -> None:
    reading = Reading(SocketTextSource("127.0.0.1", server.port, max_retries=1, retry_delay="10s"))
    reading.look()
    server.send(b"one\nbro")
    reading.until("one")
    server.hang_up()
    while reading.discovery.changed is not None and reading.discovery.changed():
        reading.look()
    waiting = reading.lines[:]
    reading.now_s = 10.0
    reading.look()
    server.send(b"ken\n")

    reading.until("one", "broken")
    assert waiting == ["one"]


def test_a_source_finishes_if_the_server_does_not_return(server: Server) -> None:
    reading = Reading(SocketTextSource("127.0.0.1", server.port, max_retries=3, retry_delay="1s"))
    reading.look()
    server.send(b"one\nlast")
    reading.until("one")
    server.close()
    ended: list[bool] = []
    for second in range(5):
        reading.now_s = float(second)
        while reading.discovery.changed is not None and reading.discovery.changed():
            reading.look()
        ended.append(reading.finished)

    assert ended == [False, False, False, True, True]
    assert reading.lines == ["one", "last"]


def test_retries_are_counted_from_the_last_line(server: Server) -> None:
    reading = Reading(SocketTextSource("127.0.0.1", server.port, max_retries=1, retry_delay="0s"))
    for number in range(3):
        reading.look()
        server.send(b"%d\n" % number)
        reading.until(*map(str, range(number + 1)))
        server.hang_up()
    server.refuse()

    reading.until("0", "1", "2", finished=True)


def test_an_unreachable_server_is_retried_as_configured_and_then_reported(server: Server) -> None:
    server.close()
    reading = Reading(SocketTextSource("127.0.0.1", server.port, max_retries=2, retry_delay="1s"))

    for second in range(2):
        reading.now_s = float(second)
        reading.look()
    reading.now_s = 2.0

    with pytest.raises(
        SourceError, match=rf"no server listens at 127.0.0.1:{server.port}, tried 3 times: .*-1: no limit"
    ):
        reading.look()


def test_a_source_without_a_retry_limit_waits_for_a_server(server: Server) -> None:
    server.refuse()
    reading = Reading(SocketTextSource("127.0.0.1", server.port, max_retries=-1, retry_delay="1s"))
    for second in range(50):
        reading.now_s = float(second)
        reading.look()
    server.listen()
    reading.now_s = 50.0
    reading.look()
    server.send(b"at last\n")

    reading.until("at last")


def test_new_lines_are_detected_without_a_discovery(server: Server) -> None:
    reading = Reading(SocketTextSource("127.0.0.1", server.port))
    changed = reading.discovery.changed
    assert changed is not None
    first = changed()
    reading.look()
    quiet = changed()
    server.send(b"x")
    deadline = time.monotonic() + _DEADLINE_S
    while not changed():
        assert time.monotonic() < deadline

    assert (first, quiet) == (True, False)


def test_lines_sent_faster_than_read_stay_in_the_socket(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_text, "BYTES_PER_LOOK", 1000)
    monkeypatch.setattr(socket_text, "_BYTES_AT_ONCE", 100)
    monkeypatch.setattr(socket_text, "LINES_PER_SPLIT", 40)
    reading = Reading(SocketTextSource("127.0.0.1", server.port))
    reading.look()
    lines = [f"line {number:05}" for number in range(300)]
    server.send("".join(f"{line}\n" for line in lines).encode())
    server.hang_up()
    reading.until(*lines, finished=True)

    assert max(split.rows for split in reading.splits) == 40


@pytest.mark.slow
def test_a_long_record_is_read_in_linear_time(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_text, "_BYTES_AT_ONCE", 1000)
    record = b"x" * 5_000_000
    reading = Reading(SocketTextSource("127.0.0.1", server.port))
    reading.look()
    sender = Thread(target=server.send, args=(record + b"\nnext\n",))
    sender.start()
    begun_s = time.thread_time()
    reading.until(record.decode(), "next")
    sender.join()

    # Copying the whole buffer for each piece took ten times as long.
    assert time.thread_time() - begun_s < 1.5


@pytest.mark.spark
@pytest.mark.slow
def test_lines_of_splits_become_rows(spark: SparkSession, server: Server) -> None:
    source = SocketTextSource("127.0.0.1", server.port).bound(spark, None)
    reading = Reading(source)
    reading.look()
    server.send("b\na\n\u20ac\n".encode())
    reading.until("b", "a", "\u20ac")

    (rows,) = source.read(spark, source.prototype(spark).schema, reading.splits, in_slices=False)

    assert [tuple(row) for row in rows.collect()] == [("b",), ("a",), ("\u20ac",)]
    assert sum(source.numbers_of(split).rows or 0 for split in reading.splits) == 3
    assert (source.boundedness, str(source)) == (Boundedness.CONTINUOUS_UNBOUNDED, f"socket 127.0.0.1:{server.port}")


def test_invalid_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="a port is a number from 1 to 65535, not 0"):
        SocketTextSource("localhost", 0)
    with pytest.raises(ValueError, match="delimiter of a SocketTextSource must not be empty"):
        SocketTextSource("localhost", 1, delimiter="")
    with pytest.raises(ValueError, match="retry delay"):
        SocketTextSource("localhost", 1, retry_delay="soon")
