"""A connection to a server of text that is read without waiting, and made again where it is lost.

After Flink's SocketTextStreamFunction: what had come of a record when the connection was lost is continued by what
comes over the next one, and is a record by itself when none comes any more.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from weakref import finalize

from flykka.runtime.durations import format_ms
from flykka.runtime.repeated_log import RepeatedLog
from flykka.spark_bridge.errors import SourceError

logger = logging.getLogger("flykka.spark_bridge")

_CONNECT_SECONDS = 5.0
_BYTES_AT_ONCE = 64 * 1024
BYTES_PER_LOOK = 1024 * 1024
"""More is left in the socket, and the server waits."""


class LineReader:
    """Reads the records of one server. Used by one call at a time, but for `has_news`."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        delimiter: str,
        max_retries: int,
        retry_delay_ms: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` gives seconds."""
        self._host, self._port = host, port
        self._clock = clock
        self._delimiter = delimiter.encode()
        self._max_retries = max_retries
        self._retry_delay_ms = retry_delay_ms
        self._socket: socket.socket | None = None
        self._closed: finalize[..., LineReader] | None = None
        self._rest = bytearray()
        self._searched = 0
        self._was_connected = False
        self._log = RepeatedLog(logger.name)
        self._attempts = 0
        self._retry_at_s = 0.0
        self.is_over = False

    def read(self) -> list[str]:
        """The records that have come since the last call.

        Raises:
            SourceError: the server was never there, and was tried as often as it may be.
        """
        received = 0
        while not self.is_over and received < BYTES_PER_LOOK and self._is_connected():
            data = self._received()
            if data is None:
                break
            received += len(data)
            self._rest += data
            if data:
                self._attempts = 0
            else:
                self._lost(None)
        return self._records()

    def has_news(self) -> bool:
        """True if something has come, or it is time to connect again."""
        if self.is_over:
            return False
        connection = self._socket
        if connection is None:
            return self._clock() >= self._retry_at_s
        try:
            connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            # The look tells of it.
            return True
        return True

    def _records(self) -> list[str]:
        # What was searched before is not again: a long record comes in many looks.
        end = self._rest.find(self._delimiter, self._searched)
        records: list[bytearray] = []
        if end >= 0:
            *records, self._rest = self._rest.split(self._delimiter)
        self._searched = max(0, len(self._rest) - len(self._delimiter) + 1)
        if self.is_over and self._rest:
            records.append(self._rest)
            self._rest = bytearray()
        return [self._text(record) for record in records]

    def _text(self, record: bytearray) -> str:
        if self._delimiter == b"\n":
            record = record.removesuffix(b"\r")
        return record.decode(errors="replace")

    def _is_connected(self) -> bool:
        """Connect, where there is no connection and it is time to."""
        if self._socket is not None:
            return True
        if self._clock() < self._retry_at_s:
            return False
        try:
            self._socket = socket.create_connection((self._host, self._port), timeout=_CONNECT_SECONDS)
        except OSError as refused:
            self._lost(refused)
            return False
        self._socket.setblocking(False)
        # Nobody says when a job lets go of its sources.
        self._closed = finalize(self, self._socket.close)
        if self._was_connected or self._attempts:
            logger.info("connected to %s:%d again", self._host, self._port)
        self._was_connected = True
        return True

    def _received(self) -> bytes | None:
        """The bytes that have come: none at the end of the connection, None where nothing has come yet."""
        assert self._socket is not None, "it was connected"
        try:
            return self._socket.recv(_BYTES_AT_ONCE)
        except BlockingIOError:
            return None
        except ConnectionError:
            return b""

    def _lost(self, refused: OSError | None) -> None:
        """There is no connection: try again later, or never."""
        if self._closed is not None:
            self._closed()
        self._socket = None
        retries, server = self._max_retries, f"{self._host}:{self._port}"
        if retries < 0 or self._attempts < retries:
            self._attempts += 1
            why = "closed the connection" if refused is None else f"cannot be connected to ({refused})"
            delay = format_ms(self._retry_delay_ms)
            self._log.write(logging.WARNING, why, f"{server} {why}: it is tried again every {delay}")
            self._retry_at_s = self._clock() + self._retry_delay_ms / 1000
            return
        if not self._was_connected:
            tried = f", tried {self._attempts + 1} times" if self._attempts else ""
            self._attempts = 0
            raise SourceError(
                f"nobody listens at {server}{tried}: {refused}. Start the server first,"
                " or let max_retries be higher (-1: for ever)"
            ) from refused
        self.is_over = True
