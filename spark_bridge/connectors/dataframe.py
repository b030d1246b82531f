"""DataFrameSource: the rows of a DataFrame, computed once, each batch a group of its Spark partitions.

A plan that is run again may give other rows, or the same ones in other partitions. So the rows are computed once, under
the settings of the session that they belong to, and kept on the executors: that is what a job reads, and what it reads
again after a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from flykka.messages.tasks.source import PartitionsSplit, SourceSplit, SplitsDiscovered
from flykka.messages.wire.ids import OperatorId, SplitId
from flykka.spark_bridge.errors import SourceError
from flykka.spark_bridge.program.prototype import event_time_column
from flykka.spark_bridge.program.source import Boundedness, Source, number_of_position, split_of
from flykka.spark_bridge.rows.materialise import Blocks, partitions_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from flykka.spark_bridge.rows.filesystem import FileSystem
    from flykka.spark_bridge.rows.materialise import Slices


class ComputedFrame:
    """A DataFrame, and its rows once they were computed."""

    def __init__(self, frame: DataFrame) -> None:
        self.frame = frame
        self._blocks: Blocks | None = None

    def compute(self) -> None:
        if self._blocks is None:
            self._blocks = Blocks(self.frame.localCheckpoint(eager=True))

    @property
    def blocks(self) -> Blocks:
        """The rows. Raises `SourceError` where they were freed."""
        if self._blocks is None:
            raise SourceError("the rows of the DataFrame are gone: they are freed when their job is over")
        return self._blocks

    def free(self) -> None:
        """Free the rows; nothing happens where there are none, or where their Spark has stopped."""
        if self._blocks is not None:
            context = self.frame.sparkSession.sparkContext._jsc
            if context is not None and not context.sc().isStopped():
                self._blocks.free()
            self._blocks = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFrameSource(Source):
    """A bounded source. `partitions_limit` of None: as many partitions at once as there are cores."""

    computed: ComputedFrame
    event_time: str | None = None
    partitions_limit: int | None = None

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def format(self) -> str:
        return "dataframe"

    def __str__(self) -> str:
        return "DataFrame"

    def bound(self, session: SparkSession, event_time: str | None) -> Self:
        """With this event-time column, and with the rows computed. Raises what computing them raises."""
        if event_time is not None:
            # Before what may take long.
            event_time = event_time_column(self.computed.frame, event_time)
        self.computed.compute()
        return replace(self, event_time=event_time)

    def prototype(self, session: SparkSession) -> DataFrame:
        return session.createDataFrame([], self.computed.frame.schema)

    def split_discovery(self, operator_id: OperatorId, filesystem: FileSystem) -> PartitionsDiscovery:
        return PartitionsDiscovery(self, operator_id)

    def read(
        self, session: SparkSession, schema: StructType, splits: Sequence[SourceSplit], *, in_slices: bool
    ) -> Slices:
        partitions = [part for split in splits for part in split_of(PartitionsSplit, split, self).partitions]
        blocks = self.computed.blocks
        if not in_slices:
            return (partitions_of(blocks, partitions, session),)
        number = min(len(partitions), max(1, session.sparkContext.defaultParallelism))
        return tuple(partitions_of(blocks, partitions[each::number], session).coalesce(1) for each in range(number))


class PartitionsDiscovery:
    """The splits of a DataFrame: all at the first look. The id of one names its partitions, `0-3` or `7`.

    The position behind a look is the number of partitions that there were.
    """

    interval_ms: int | None = None
    changed: Callable[[], bool] | None = None

    def __init__(self, source: DataFrameSource, operator_id: OperatorId) -> None:
        self._source = source
        self._operator_id = operator_id

    def discover(self, position: bytes) -> SplitsDiscovered:
        """The groups of partitions that are new.

        Raises:
            SourceError: a checkpoint tells of partitions that there are not.
        """
        blocks = self._source.computed.blocks
        there, found = int(blocks.rdd.getNumPartitions()), number_of_position(position)
        if found > there:
            raise SourceError(
                f"the DataFrame has {there} Spark partitions, but the checkpoint was taken when it had more: to"
                " continue from it the DataFrame must have the same rows in the same partitions"
            )
        limit = self._source.partitions_limit or blocks.frame.sparkSession.sparkContext.defaultParallelism
        groups = (range(first, min(first + limit, there)) for first in range(found, there, limit))
        return SplitsDiscovered(
            operator_id=self._operator_id,
            splits=tuple(_split(group) for group in groups),
            finished=True,
            begun_at=position,
            position=b"%d" % there,
        )


def _split(group: range) -> PartitionsSplit:
    name = str(group[0]) if len(group) == 1 else f"{group[0]}-{group[-1]}"
    return PartitionsSplit(split_id=SplitId(name), rows=0, partitions=tuple(group))
