"""Computes rows once, caches them in the executors and counts them, with a single Spark job.

Rows are passed as slices: frames with the same schema, which are planned separately and run as one job. So aggregating
slice by slice needs no shuffle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from flykka.spark_bridge.rows.local_rows import LocalRows, collected_rows, local_rows
from flykka.spark_bridge.rows.prepared import with_columns_of
from flykka.spark_bridge.session.interpretation import are_few
from flykka.spark_bridge.session.jvm_classes import frame_of_plan, jvm_class, scala_sequence

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType

    from flykka.spark_bridge.session.attempt_scope import AttemptScope

Slices = tuple[DataFrame, ...]


_OBJECT_BYTES = 16
_SLICE, _ROW = "__slice", "__row"


@dataclass(frozen=True, slots=True, kw_only=True)
class Materialised:
    blocks: Blocks | LocalRows
    numbers: Mapping[str, Any]

    @property
    def frame(self) -> DataFrame:
        return self.blocks.frame

    @property
    def content(self) -> DataFrame | LocalRows:
        """The rows, as a batch stores them."""
        return self.blocks if isinstance(self.blocks, LocalRows) else self.frame

    @property
    def rows(self) -> int:
        return int(self.numbers.get("rows", 0))


def together(slices: Sequence[DataFrame]) -> DataFrame:
    if len(slices) == 1:
        return slices[0]
    # If the union were built frame by frame, Spark would analyze the previous slices again each time.
    session = slices[0].sparkSession
    context = session.sparkContext
    plans = scala_sequence(context, (each._jdf.queryExecution().analyzed() for each in slices))
    union = jvm_class(context, "org.apache.spark.sql.catalyst.plans.logical.Union")
    return frame_of_plan(session, union(plans, False, False))


def joined(batches: Sequence[tuple[str | None, Slices]], partitions: int) -> DataFrame:
    """Return the rows of the batches from `slices_of`, in order and in at most `partitions` partitions."""
    slices = [rows for _, some in batches for rows in some]
    are_mixed = len({source is None for source, _ in batches}) > 1
    return in_order(slices) if are_mixed else coalesced(slices, partitions)


def coalesced(slices: Sequence[DataFrame], partitions: int) -> DataFrame:
    """Return all slices in order in at most `partitions` partitions, without dividing a slice.

    Spark's own coalesce assigns partitions by the location of their blocks, so later rows may precede earlier rows.
    Only a single partition keeps their order.
    """
    size = -(-len(slices) // partitions)
    runs = [slices[start : start + size] for start in range(0, len(slices), size)]
    return together([together(run).coalesce(1) for run in runs])


def in_order(slices: Sequence[DataFrame]) -> DataFrame:
    """Return all slices in order in one partition, even if some are in blocks and others in files.

    Spark's coalesce begins with partitions that have a preferred location. Blocks have a preferred location, local
    files do not.
    """
    numbered = [
        rows.withColumns({_SLICE: F.lit(number), _ROW: F.monotonically_increasing_id()})
        for number, rows in enumerate(slices)
    ]
    return together(numbered).coalesce(1).sortWithinPartitions(_SLICE, _ROW).drop(_SLICE, _ROW)


def few_rows(scope: AttemptScope, rows: DataFrame, numbers: Mapping[str, Column]) -> Materialised | None:
    """Compute rows into the driver if the stage has few rows, and Spark can do that."""
    if not are_few(rows):
        return None
    scope.check()
    if not numbers:
        local = local_rows(rows) or collected_rows(rows)
        return None if local is None else Materialised(blocks=local.within(scope.session), numbers={"rows": local.rows})
    observation, frame = counted(rows, numbers)
    local = collected_rows(frame)
    return None if local is None else Materialised(blocks=local.within(scope.session), numbers=numbers_of(observation))


def materialise(
    scope: AttemptScope, rows: DataFrame, numbers: Mapping[str, Column], *, on_disk: bool = False
) -> Materialised:
    """Compute rows into blocks, with the aggregates `numbers` and the row count as `rows`.

    The blocks are stored in memory if there is room or, with `on_disk`, always on disk.
    """
    observation, frame = counted(rows, numbers)
    scope.check()
    level = StorageLevel.DISK_ONLY if on_disk else None
    blocks = Blocks(frame.localCheckpoint(eager=True, storageLevel=level), scope.session)
    return Materialised(blocks=blocks, numbers=numbers_of(observation))


def counted(rows: DataFrame, numbers: Mapping[str, Column]) -> tuple[Observation, DataFrame]:
    """Return an observation that computes `numbers` during the next action, and the observed rows."""
    return with_observation(rows, {"rows": F.count(F.lit(1)), **numbers})


def with_observation(rows: DataFrame, aggregates: Mapping[str, Column]) -> tuple[Observation, DataFrame]:
    observation = Observation()
    frame = rows.observe(observation, *(column.alias(name) for name, column in aggregates.items()))
    return observation, with_columns_of(frame, rows)


def is_complete(observation: Observation) -> bool:
    """Return True if an action has processed the observed rows; Spark records that before the action returns."""
    assert observation._jo is not None, "the observation is not attached to rows"
    return bool(observation._jo.future().isCompleted())


def numbers_of(observation: Observation) -> Mapping[str, Any]:
    """Return the observed aggregates; empty if Spark's optimizer has removed the observation because there are no rows.

    May only be called after the action has succeeded: a failed action reports 0 rows.
    """
    assert observation._jo is not None, "the observation is not attached to rows"
    return observation.get if observation._jo.getRow().length() else {}


def partitions_of(blocks: Blocks, partitions: Sequence[int], session: SparkSession) -> DataFrame:
    """Return a frame of some of the Spark partitions. Reading it does not touch the other partitions."""
    context = session.sparkContext
    # In Scala, a set is also a function that tests membership.
    converters = jvm_class(context, "scala.jdk.javaapi.CollectionConverters")
    included = converters.asScala(list(partitions)).toSet()
    pruned = jvm_class(context, "org.apache.spark.rdd.PartitionPruningRDD").create(blocks.rdd, included)
    java_schema = blocks.frame._jdf.schema()
    return DataFrame(session._jsparkSession.internalCreateDataFrame(pruned, java_schema, False), session)


def estimated_bytes(schema: StructType, rows: int) -> int:
    width = sum(_OBJECT_BYTES if field.dataType.simpleString() in _WIDE else 8 for field in schema)
    return rows * (8 + width)


_WIDE = frozenset({"string", "binary"})


class Blocks:
    """Rows that a checkpointed frame has stored. Frames of these rows belong to `session`."""

    def __init__(self, checkpointed: DataFrame, session: SparkSession) -> None:
        plan = checkpointed._jdf.queryExecution().analyzed()
        is_free = plan.constraints().isEmpty()
        self.frame = checkpointed
        if not is_free or checkpointed.sparkSession is not session:
            self.frame = frame_of_plan(session, plan if is_free else _without_constraints(session.sparkContext, plan))
        self.rdd: Any = plan.rdd()
        self.rdd_id = int(self.rdd.id())

    def is_whole(self) -> bool:
        infos = self.rdd.context().getRDDStorageInfo()
        here = (info for info in infos if info.id() == self.rdd_id)
        return any(info.numCachedPartitions() == info.numPartitions() for info in here)

    def free(self) -> None:
        self.rdd.unpersist(False)


_CONSTRAINTS = 2
"""The index of the constraints among the constructor arguments of `LogicalRDD` that are not case class elements."""


def _without_constraints(context: SparkContext, plan: Any) -> Any:
    """Remove the constraints that Spark has derived for the values of checkpointed rows.

    A constraint may name columns that only exist in the plan before the checkpoint, and then a union of such rows fails
    with "key not found".
    """
    elements = [plan.productElement(place) for place in range(plan.productArity())]
    others = plan.otherCopyArgs()
    arguments = [others.apply(place) for place in range(others.length())]
    arguments[_CONSTRAINTS] = jvm_class(context, "scala.Option").empty()
    return plan.copy(*elements, *arguments)
