"""The port to sources: what the environment, the discovery of splits and the reader ask of any source.

A source is a value that is written down in the program. `bound` makes of it the one that a job reads: everything that
must not change while the job runs, its schema above all, is settled there.
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
"""About as many splits are looked for at once: those that wait for a reader are in every checkpoint."""


class Boundedness(StrEnum):
    """The kinds of sources: bounded ones come to an end by themselves (Flink's Boundedness)."""

    BOUNDED = "BOUNDED"
    CONTINUOUS_UNBOUNDED = "CONTINUOUS_UNBOUNDED"


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitNumbers:
    """Numbers of the rows of a split, as far as they are known before the rows are computed.

    None is for a number that is not known. The latest event time is in ms.
    """

    rows: int | None = None
    event_time_max: int | None = None


class Source(ABC):
    """An origin of rows, read split by split. `str()` of it is the name of its operator where the user gives none.

    A source is a frozen dataclass. One whose rows have event time has a field `event_time`, the timestamp column that
    says when a row happened.
    """

    parallelism_limit: ClassVar[int | None] = None
    """In how many subtasks the source may run; None: in any number. With one, splits are read in their order."""

    @property
    @abstractmethod
    def format(self) -> str:
        """The kind of source in a word: a checkpoint of one kind does not fit another."""

    @property
    def event_time(self) -> str | None:
        """The timestamp column that says when a row happened."""
        return None

    @property
    @abstractmethod
    def boundedness(self) -> Boundedness:
        """Bounded if all that it will ever give is there, or is known: then a batch job can read it."""

    @property
    def is_notified_of_checkpoints(self) -> bool:
        """True if `notify_checkpoint_complete` is to be called."""
        return False

    @property
    def counts_corrupt(self) -> bool:
        """True if `read` adds a column `IS_CORRUPT`."""
        return False

    @property
    def side_output(self) -> SideOutput | None:
        """The side output of rows that it puts aside; None where it has none."""
        return None

    @property
    def reads_columns(self) -> bool:
        """True if columns that nobody asks for are not read, so that rows are sooner read twice than kept."""
        return False

    def bound(self, session: SparkSession, event_time: str | None) -> Self:
        """The source as a job reads it: with this event-time column, and one schema from now on. May block.

        Raises:
            SourceError: there is nothing to take a schema from.
            PrototypeError: what the user has declared does not make rows.
        """
        made: Any = self
        return self if event_time == self.event_time else replace(made, event_time=event_time)

    def in_order(self) -> Self:
        """Return the source as it is read for operators that need rows in the order of the splits.

        A source of which `read` returns them so anyway, which is the default, stays as it is.
        """
        return self

    @abstractmethod
    def prototype(self, session: SparkSession) -> DataFrame:
        """An empty DataFrame with the columns of the source. Raises as `bound` does."""

    def check_input(self, operator_id: OperatorId, filesystem: FileSystem) -> None:
        """Look before a job runs whether what is there can be read, without reading rows. May block.

        Raises:
            SourceError: it cannot; the text names the file.
        """
        return

    @abstractmethod
    def split_discovery(self, operator_id: OperatorId, filesystem: FileSystem) -> SplitDiscovery:
        """Looks for the splits of one operator."""

    def numbers_of(self, split: SourceSplit) -> SplitNumbers:
        """Return what is known of the rows of a split before they are read. Raises `SourceError` as `read` does."""
        return SplitNumbers()

    def partitions_of(self, splits: Sequence[SourceSplit]) -> Sequence[str]:
        """Return the partitions of the source, as far as these splits know them, read or not.

        Each makes watermarks of its own; of a source without partitions, which is the default, all rows together do.
        """
        return ()

    @abstractmethod
    def read(
        self, session: SparkSession, schema: StructType, splits: Sequence[SourceSplit], *, in_slices: bool
    ) -> Slices:
        """Return the rows of splits, computed by the first action on them; the same whenever they are read again.

        They are the rows of all frames that are returned, at least one. Where the source has partitions, there is a
        column `PARTITION` behind those of the schema: the place of the row's own in `partitions_of`. Where it has a
        `side_output`, its column is there too, and null in rows that are not put aside. `in_slices`: what
        follows works row by row, so slices of one Spark partition each spare a shuffle.

        Raises:
            SourceError: a split is another source's.
        """

    def notify_checkpoint_complete(self, checkpoint_id: int, splits: Sequence[SourceSplit]) -> None:
        """Take note that a checkpoint is complete which holds that these splits were read, and no one before it does.

        Nothing goes back behind them. For the other side to look at, or to let go of what was read: a job that ends
        may not tell. The next checkpoint waits for the call.
        """
        return


def split_of(kind: type[Split], split: SourceSplit, source: Source) -> Split:
    """`split`, which must be of the kind that `source` hands out. Raises `SourceError` where it is not."""
    if not isinstance(split, kind):
        raise SourceError(f"{source} cannot read a {type(split).__name__}")
    return split


def positive(number: int, what: str) -> int:
    """`number`. Raises `ValueError`, which names `what`, unless it is a whole number from 1."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ValueError(f"{what} must be at least 1, not {number!r}")
    return number


def checked_millis(timestamp: datetime | int) -> int:
    """A time in ms since the epoch, given as such or as a datetime. Raises `ValueError` for one without a zone."""
    if not isinstance(timestamp, datetime):
        return timestamp
    if timestamp.tzinfo is None:
        raise ValueError(f"{timestamp} has no time zone: say which, as in datetime.now(timezone.utc)")
    return millis_of(timestamp)


def number_of_position(position: bytes) -> int:
    """The number that a position is; of an empty one 0. Raises `SourceError` where a checkpoint has something else."""
    try:
        return int(position or b"0")
    except ValueError:
        raise SourceError(
            f"the checkpoint says that the source was read up to {position!r}, which is no number"
        ) from None
