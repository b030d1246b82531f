"""DataFrameSource: the rows of a DataFrame, computed once. Each batch is a group of its Spark partitions.

A plan that is run again may produce other rows, or the same rows in other partitions. So the rows are computed once,
with the settings of their session, and cached on the executors. A job reads the cached rows, even after a failure.
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
    def __init__(self, frame: DataFrame) -> None:
        self.frame = frame
        self._blocks: Blocks | None = None

    def compute(self) -> None:
        if self._blocks is None:
            self._blocks = Blocks(self.frame.localCheckpoint(eager=True), self.frame.sparkSession)

    @property
    def blocks(self) -> Blocks:
        if self._blocks is None:
            raise SourceError("the rows of the DataFrame were freed: this happens when their job ends")
        return self._blocks

    def free(self) -> None:
        if self._blocks is not None:
            context = self.frame.sparkSession.sparkContext._jsc
            if context is not None and not context.sc().isStopped():
                self._blocks.free()
            self._blocks = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFrameSource(Source):
    """A bounded source. If `partitions_limit` is None, a batch has as many partitions as there are cores."""

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
        if event_time is not None:
            # Checked before computing the rows, which may take long.
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
    """The groups of partitions of a DataFrame as splits. The id of a split names its partitions, `0-3` or `7`.

    The first discovery returns all splits. The position after a discovery is the number of partitions.
    """

    interval_ms: int | None = None
    changed: Callable[[], bool] | None = None

    def __init__(self, source: DataFrameSource, operator_id: OperatorId) -> None:
        self._source = source
        self._operator_id = operator_id

    def discover(self, position: bytes) -> SplitsDiscovered:
        """Return the new groups of partitions. Raises `SourceError` if a checkpoint refers to missing partitions."""
        blocks = self._source.computed.blocks
        partitions, discovered = int(blocks.rdd.getNumPartitions()), number_of_position(position)
        if discovered > partitions:
            raise SourceError(
                f"the DataFrame has {partitions} Spark partitions, but had more when the checkpoint was taken: to"
                " continue from it the DataFrame must have the same rows in the same partitions"
            )
        limit = self._source.partitions_limit or blocks.frame.sparkSession.sparkContext.defaultParallelism
        groups = (range(first, min(first + limit, partitions)) for first in range(discovered, partitions, limit))
        return SplitsDiscovered(
            operator_id=self._operator_id,
            splits=tuple(_split(group) for group in groups),
            finished=True,
            begun_at=position,
            position=b"%d" % partitions,
        )


def _split(group: range) -> PartitionsSplit:
    name = str(group[0]) if len(group) == 1 else f"{group[0]}-{group[-1]}"
    return PartitionsSplit(split_id=SplitId(name), rows=0, partitions=tuple(group))
