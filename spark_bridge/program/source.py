"""The interface of sources for the environment, the discovery of splits, and the reader.

A source is a value in the program. `bound` returns the source that a job reads, whose schema and other properties do
not change while the job runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from flykka.messages.tasks.source import SourceSplit
from flykka.spark_bridge.errors import SourceError
from flykka.spark_bridge.functions.times import millis_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from flykka.actors.data_plane import SplitDiscovery
    from flykka.messages.wire.ids import OperatorId
    from flykka.spark_bridge.program.side_output import SideOutput
    from flykka.spark_bridge.rows.filesystem import FileSystem
    from flykka.spark_bridge.rows.materialise import Slices

Split = TypeVar("Split", bound=SourceSplit)

SPLITS_PER_LOOK = 256
"""About how many splits are discovered at once. Every checkpoint contains the splits that wait for a reader."""


class Boundedness(StrEnum):
    """The boundedness of a source: a bounded source ends by itself (Flink's Boundedness)."""

    BOUNDED = "BOUNDED"
    CONTINUOUS_UNBOUNDED = "CONTINUOUS_UNBOUNDED"


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitNumbers:
    """The row count of a split and its latest event time in ms, if they are known before its rows are computed.

    None stands for an unknown value.
    """

    rows: int | None = None
    event_time_max: int | None = None


class Source(ABC):
    """An origin of rows, which are read split by split. `str()` returns the default name of its operator.

    A source is a frozen dataclass. If its rows have event time, its field `event_time` is the name of the timestamp
    column.
    """

    parallelism_limit: ClassVar[int | None] = None
    """The maximum number of subtasks of the source; None if unlimited. With one subtask, splits are read in order."""

    @property
    @abstractmethod
    def format(self) -> str:
        """The source's type in one word. A checkpoint of one type does not fit a source of another type."""

    @property
    def event_time(self) -> str | None:
        """The timestamp column that contains the event time of a row."""
        return None

    @property
    @abstractmethod
    def boundedness(self) -> Boundedness:
        """Bounded if all rows exist or are known, so that a batch job can read them."""

    @property
    def is_notified_of_checkpoints(self) -> bool:
        """True if `notify_checkpoint_complete` must be called."""
        return False

    @property
    def counts_corrupt(self) -> bool:
        """True if `read` adds a column `IS_CORRUPT`."""
        return False

    @property
    def side_output(self) -> SideOutput | None:
        """The side output of rows that the source rejects; None if it has no side output."""
        return None

    @property
    def reads_columns(self) -> bool:
        """True if unused columns are not read, so that reading rows twice is cheaper than caching them."""
        return False

    def bound(self, session: SparkSession, event_time: str | None) -> Self:
        """Return the source as a job reads it, with this event-time column and a fixed schema. May block.

        Raises:
            SourceError: there is nothing to infer a schema from.
            PrototypeError: the user's declaration does not define rows.
        """
        source: Any = self
        return self if event_time == self.event_time else replace(source, event_time=event_time)

    def in_order(self) -> Self:
        """Return the source for operators that need rows in the order of the splits.

        By default, `read` returns rows in this order, and the source is returned unchanged.
        """
        return self

    @abstractmethod
    def prototype(self, session: SparkSession) -> DataFrame:
        """Return an empty DataFrame with the columns of the source. Raises the same errors as `bound`."""

    def check_input(self, operator_id: OperatorId, filesystem: FileSystem) -> None:
        """Check before a job runs that the input can be read, without reading rows. May block.

        Raises:
            SourceError: the input cannot be read; the message names the file.
        """
        return

    @abstractmethod
    def split_discovery(self, operator_id: OperatorId, filesystem: FileSystem) -> SplitDiscovery:
        """Return the discovery of splits for one operator."""

    def numbers_of(self, split: SourceSplit) -> SplitNumbers:
        """Return the row count and latest event time of a split if known. Raises `SourceError` like `read`."""
        return SplitNumbers()

    def partitions_of(self, splits: Sequence[SourceSplit]) -> Sequence[str]:
        """Return the partitions of the source that are known from these splits, which may be read or unread.

        Each partition has a watermark. Without partitions, which is the default, all rows share one watermark.
        """
        return ()

    @abstractmethod
    def read(
        self, session: SparkSession, schema: StructType, splits: Sequence[SourceSplit], *, in_slices: bool
    ) -> Slices:
        """Return the rows of splits, which are computed by the first action on them, and are the same at every read.

        Returns at least one frame. If the source has partitions, a column `PARTITION` follows the columns of the
        schema: the index of the row's partition in `partitions_of`. If it has a `side_output`, the column of the side
        output follows too, which is null except in rejected rows. With `in_slices`, downstream operators work row by
        row, so slices of one Spark partition each save a shuffle.

        Raises:
            SourceError: a split belongs to another source.
        """

    def notify_checkpoint_complete(self, checkpoint_id: int, splits: Sequence[SourceSplit]) -> None:
        """Handle the completion of the first checkpoint that records these splits as read.

        The job never reads them again. A source may notify the external system, or release the rows. The call may be
        missing at the end of a job. The next checkpoint waits for the call.
        """
        return


def split_of(kind: type[Split], split: SourceSplit, source: Source) -> Split:
    if not isinstance(split, kind):
        raise SourceError(f"{source} cannot read a {type(split).__name__}")
    return split


def positive(number: int, what: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ValueError(f"{what} must be at least 1, not {number!r}")
    return number


def checked_millis(timestamp: datetime | int) -> int:
    """Return a time in ms since the epoch. Raises `ValueError` for a datetime without a time zone."""
    if not isinstance(timestamp, datetime):
        return timestamp
    if timestamp.tzinfo is None:
        raise ValueError(f"{timestamp} has no time zone: add one, as in datetime.now(timezone.utc)")
    return millis_of(timestamp)


def number_of_position(position: bytes) -> int:
    """Return the number in a position, 0 for an empty position. Raises `SourceError` for other bytes."""
    try:
        return int(position or b"0")
    except ValueError:
        raise SourceError(
            f"the position of the source in the checkpoint is {position!r}, which is not a number"
        ) from None
