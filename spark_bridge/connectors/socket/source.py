"""SocketTextSource: lines of text that a server sends (Flink's `socketTextStream`). For demonstrations and tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from flykka.messages.tasks.source import SerializedSplit, SourceSplit, SplitsDiscovered
from flykka.messages.wire.ids import OperatorId, SplitId
from flykka.runtime.durations import Duration, duration_ms
from flykka.spark_bridge.connectors.socket.line_reader import LineReader
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
    """Lines of text that a server sends, in a column `value`. They end with the job's driver, which is connected to it.

    **At most once**: a server does not send again what it has sent. What had come and was not read yet is in the
    checkpoints, what was read behind the last checkpoint is lost when a job is restarted. All lines pass the driver.
    For demonstrations and tests.

    A record ends at the `delimiter`, which is not part of it, and neither is a carriage return before a line feed. When
    the server closes the connection, or refuses it, the source connects again after `retry_delay`, `max_retries` times
    in a row at most (-1: for ever). Then the source is at its end, and what had come of a last record is one. If the
    server was never there the job fails.

    Raises:
        ValueError: there is no such port, or the delimiter is empty.
        DurationError: the delay is no length of time.
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
        """Refuse what cannot be meant."""
        if isinstance(self.port, bool) or not isinstance(self.port, int) or not 0 < self.port <= _PORT_MAX:
            raise ValueError(f"a port is a number from 1 to {_PORT_MAX}, not {self.port!r}")
        if not self.delimiter:
            raise ValueError("the delimiter of a SocketTextSource must not be empty")
        duration_ms(self.retry_delay, "retry delay")

    @property
    def boundedness(self) -> Boundedness:
        """Without an end: nobody knows when the server closes."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def format(self) -> str:
        """The kind of source."""
        return "socket"

    def __str__(self) -> str:
        return f"{self.format} {self.host}:{self.port}"

    def bound(self, session: SparkSession, event_time: str | None) -> Self:
        """With this event-time column; it cannot be `value`, which is a text."""
        return replace(self, event_time=event_time)

    def prototype(self, session: SparkSession) -> DataFrame:
        """An empty DataFrame with the column `value`."""
        return session.createDataFrame([], "value string")

    def split_discovery(self, operator_id: OperatorId, filesystem: FileSystem) -> SocketTextDiscovery:
        """Holds the connection."""
        reader = LineReader(
            self.host,
            self.port,
            delimiter=self.delimiter,
            max_retries=self.max_retries,
            retry_delay_ms=duration_ms(self.retry_delay),
        )
        return SocketTextDiscovery(reader, operator_id)

    def numbers_of(self, split: SourceSplit) -> SplitNumbers:
        """The lines are in the split."""
        return SplitNumbers(rows=split.rows)

    def read(
        self, session: SparkSession, schema: StructType, splits: Sequence[SourceSplit], *, in_slices: bool
    ) -> Slices:
        """The lines that are in the splits."""
        mine = (split_of(SerializedSplit, split, self) for split in splits)
        return (session.createDataFrame([(line,) for split in mine for line in json.loads(split.content)], schema),)


class SocketTextDiscovery:
    """Puts the lines that have come into splits. Used by one call at a time, but for `changed`.

    The position of a look is the number of lines that were found.
    """

    def __init__(self, reader: LineReader, operator_id: OperatorId) -> None:
        self._reader = reader
        self._operator_id = operator_id
        self.interval_ms: int | None = _INTERVAL_MS
        self.changed: Callable[[], bool] | None = reader.has_news

    def discover(self, position: bytes) -> SplitsDiscovered:
        """The lines that have come. Raises `SourceError` where the server was never there."""
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
