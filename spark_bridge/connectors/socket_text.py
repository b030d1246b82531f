"""SocketTextSource: lines of text from a server (Flink's `socketTextStream`), for demonstrations and tests."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self
from weakref import finalize

from flykka.messages.tasks.source import SerializedSplit, SourceSplit, SplitsDiscovered
from flykka.messages.wire.ids import OperatorId, SplitId
from flykka.runtime.durations import Duration, duration_ms, format_ms
from flykka.runtime.repeated_log import RepeatedLog
from flykka.spark_bridge.errors import SourceError
from flykka.spark_bridge.program.source import Boundedness, Source, SplitNumbers, number_of_position, split_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from flykka.spark_bridge.rows.filesystem import FileSystem
    from flykka.spark_bridge.rows.materialise import Slices

_INTERVAL_MS = 200
_PORT_MAX = 65_535
LINES_PER_SPLIT = 5_000


@dataclass(frozen=True, slots=True)
class SocketTextSource(Source):
    """Lines of text from a server, in a column `value`. They end with the job's driver, which holds the connection.

    **At most once**: a server does not send lines again. Checkpoints contain received lines that were not read yet;
    lines read after the last checkpoint are lost when a job is restarted. All lines pass through the driver. It is
    meant for demonstrations and tests.

    A record ends at the `delimiter`, which is not part of it; nor is a carriage return before a line feed. When the
    server closes or refuses the connection, the source connects again after `retry_delay`, at most `max_retries` times
    in a row (-1: forever). Then the source ends, and an incomplete last record is emitted. If the server was never
    reached, the job fails.

    Raises:
        ValueError: the port is invalid, or the delimiter is empty.
        DurationError: the delay is not a duration.
    """

    parallelism_limit: ClassVar[int | None] = 1

    host: str
    port: int
    _: KW_ONLY
    delimiter: str = "\n"
    max_retries: int = 0
    retry_delay: Duration = "500ms"
    event_time: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.port, bool) or not isinstance(self.port, int) or not 0 < self.port <= _PORT_MAX:
            raise ValueError(f"a port is a number from 1 to {_PORT_MAX}, not {self.port!r}")
        if not self.delimiter:
            raise ValueError("the delimiter of a SocketTextSource must not be empty")
        duration_ms(self.retry_delay, "retry delay")

    @property
    def boundedness(self) -> Boundedness:
        """Unbounded, although the server may close the connection at any time."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def format(self) -> str:
        return "socket"

    def __str__(self) -> str:
        return f"{self.format} {self.host}:{self.port}"

    def bound(self, session: SparkSession, event_time: str | None) -> Self:
        return replace(self, event_time=event_time)

    def prototype(self, session: SparkSession) -> DataFrame:
        return session.createDataFrame([], "value string")

    def split_discovery(self, operator_id: OperatorId, filesystem: FileSystem) -> SocketTextDiscovery:
        reader = LineReader(
            self.host,
            self.port,
            delimiter=self.delimiter,
            max_retries=self.max_retries,
            retry_delay_ms=duration_ms(self.retry_delay),
        )
        return SocketTextDiscovery(reader, operator_id)

    def numbers_of(self, split: SourceSplit) -> SplitNumbers:
        return SplitNumbers(rows=split.rows)

    def read(
        self, session: SparkSession, schema: StructType, splits: Sequence[SourceSplit], *, in_slices: bool
    ) -> Slices:
        mine = (split_of(SerializedSplit, split, self) for split in splits)
        return (session.createDataFrame([(line,) for split in mine for line in json.loads(split.content)], schema),)


class SocketTextDiscovery:
    """Assigns received lines to splits. Not thread-safe, except `changed`.

    The position of a discovery is the number of lines discovered so far.
    """

    def __init__(self, reader: LineReader, operator_id: OperatorId) -> None:
        self._reader = reader
        self._operator_id = operator_id
        self.interval_ms: int | None = _INTERVAL_MS
        self.changed: Callable[[], bool] | None = reader.has_news

    def discover(self, position: bytes) -> SplitsDiscovered:
        """Return the received lines. Raises `SourceError` if the server was never reached."""
        first = number_of_position(position)
        lines = self._reader.read()
        return SplitsDiscovered(
            operator_id=self._operator_id,
            splits=tuple(_splits(first, lines)),
            finished=self._reader.is_over,
            begun_at=position,
            position=b"%d" % (first + len(lines)),
        )


def _splits(first: int, lines: Sequence[str]) -> Iterator[SerializedSplit]:
    for start in range(0, len(lines), LINES_PER_SPLIT):
        some = lines[start : start + LINES_PER_SPLIT]
        content = json.dumps(some)
        yield SerializedSplit(
            split_id=SplitId(f"{first + start}+{len(some)}"), rows=len(some), content=content, size_bytes=len(content)
        )


logger = logging.getLogger("flykka.spark_bridge")

_CONNECT_SECONDS = 5.0
_BYTES_AT_ONCE = 64 * 1024
BYTES_PER_LOOK = 1024 * 1024
"""The number of bytes received at once. More data stays in the socket, and the server waits."""


class LineReader:
    """Reads the records of one server without waiting, and reconnects if the connection is lost.

    As in Flink's SocketTextStreamFunction, an incomplete record is continued by the data of the next connection. If
    there is no next connection, it becomes a record. Not thread-safe, except `has_news`.
    """

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
        """Return the records received since the last call. Raises `SourceError` if all permitted attempts failed."""
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
            # The next discovery reports the error.
            return True
        return True

    def _records(self) -> list[str]:
        # Data is not searched twice, because a long record arrives over many discoveries.
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
        """Connect if there is no connection and an attempt is due. Return True if there is a connection."""
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
        # A job does not notify its sources when it releases them.
        self._closed = finalize(self, self._socket.close)
        if self._was_connected or self._attempts:
            logger.info("connected to %s:%d again", self._host, self._port)
        self._was_connected = True
        return True

    def _received(self) -> bytes | None:
        """Return received bytes: empty at the end of the connection, None if no data has arrived."""
        assert self._socket is not None, "the socket is not connected"
        try:
            return self._socket.recv(_BYTES_AT_ONCE)
        except BlockingIOError:
            return None
        except ConnectionError:
            return b""

    def _lost(self, refused: OSError | None) -> None:
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
                f"no server listens at {server}{tried}: {refused}. Start the server first,"
                " or increase max_retries (-1: no limit)"
            ) from refused
        self.is_over = True
