"""Operators over changing rows: they index the current rows, and compute how each batch changes the results.

Each batch is one Spark job. A worker applies the changes to the index and emits the result of its function. Then
`results` converts what the worker has emitted into weighted rows, with Spark plans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.messages.checkpointing.checkpoint import AlignmentType
from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.operators.code import OperatorCode
from flykka.spark_bridge.operators.keyed_batch import KeyedBatchOperator, KeyedResult
from flykka.spark_bridge.operators.spark_keyed_batches import SparkKeyedBatches, WorkerFunction, with_keys
from flykka.spark_bridge.program.prototype import key_schema
from flykka.spark_bridge.rows.materialise import Slices
from flykka.spark_bridge.rows.partitioning import KeyGroups
from flykka.spark_bridge.rows.row_kind import DELETE, UPDATE_AFTER
from flykka.spark_bridge.state.segment_files import StateRows
from flykka.spark_bridge.worker.keys import KEY_PREFIX
from flykka.spark_bridge.worker.segment_file import POSITION
from flykka.spark_bridge.worker.weighted_results import IS_AFTER, JoinChanges, RowsBeforeAndAfter
from flykka.spark_bridge.worker.weighted_rows import ROW_BITS, WEIGHT, ProcessChanges, TimeToLive, written_at

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flykka.messages.checkpointing.checkpoint import CheckpointOptions
    from flykka.spark_bridge.operators.code import OperatorContext
    from flykka.spark_bridge.operators.operator import Element, Operator
    from flykka.spark_bridge.operators.spark_keyed_batches import KeyedCode, Readings
    from flykka.spark_bridge.program.side_output import SideOutput
    from flykka.spark_bridge.worker.process_batch import KeyedWork

_ROW = "__row"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCode(OperatorCode):
    """Stores the `columns` of the current rows by `keys`.

    `does` describes, for the fingerprint, the operator and all properties on which its state depends.
    """

    kind = OperatorKind.INCREMENTAL
    is_head = True
    is_computed = True

    does: str
    keys: tuple[Column | str, ...]
    columns: tuple[str, ...]
    key_fields: tuple[StructField, ...]
    emitted: tuple[StructField, ...]
    side: tuple[SideOutput, ...] = ()

    @property
    def state_fields(self) -> tuple[StructField, ...]:
        return (StructField(WEIGHT, LongType()),)

    def needs_order(self, *, readers_do: bool) -> bool:
        return False

    @property
    def fingerprint(self) -> str:
        types = ", ".join(each.dataType.simpleString() for each in self.key_fields)
        return f"{self.does}({len(self.keys)} keys of {types})"

    def keyed(self, rows: DataFrame) -> DataFrame:
        names = [each.name for each in self.key_fields]
        values = [*self.keys, *map(quoted, self.columns)]
        return with_keys(rows, self.key_fields, values).select(*names, WEIGHT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesCode(IndexCode):
    """The time-to-live is not in the fingerprint: a job may continue from a savepoint with another one."""

    function: JoinChanges | RowsBeforeAndAfter
    results: Callable[[DataFrame], DataFrame] = field(repr=False)
    time_to_live_ms: int | None

    @property
    def state_fields(self) -> tuple[StructField, ...]:
        times = () if self.time_to_live_ms is None else (StructField(written_at(self.time_to_live_ms), LongType()),)
        return (StructField(WEIGHT, LongType()), *times)

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        return ChangesOperator(context, self)


class ChangesOperator(KeyedBatchOperator[Slices, StateRows]):
    def __init__(self, context: OperatorContext, code: ChangesCode) -> None:
        self._changes = SparkChanges(context, code)
        super().__init__(context.operator_id, self._changes, self._changes.backend)

    def before_snapshot(self, options: CheckpointOptions) -> None:
        # An unaligned barrier may have overtaken the batches that added a removed row.
        if options.alignment is AlignmentType.ALIGNED:
            self._changes.settle()


def changes_code(
    prototype: DataFrame,
    keys: Sequence[Column | str],
    does: str,
    function: JoinChanges | RowsBeforeAndAfter,
    results: Callable[[DataFrame], DataFrame],
    time_to_live_ms: int | None,
) -> tuple[DataFrame, ChangesCode]:
    """Return the prototype of the weighted results, and the code. Without a time-to-live no row expires.

    Raises:
        PrototypeError: rows or keys have a type that cannot be compared.
    """
    fields, stored = index_fields(prototype, keys, function.stored)
    emitted = StructType(
        [
            *(StructField(name, stored[name].dataType) for name in function.emitted),
            StructField(IS_AFTER, BooleanType())
            if isinstance(function, RowsBeforeAndAfter)
            else StructField(WEIGHT, LongType()),
        ]
    )
    code = ChangesCode(
        does=does,
        keys=tuple(keys),
        columns=function.stored,
        key_fields=fields,
        emitted=tuple(emitted),
        function=function,
        results=results,
        time_to_live_ms=time_to_live_ms,
    )
    return results(prototype.sparkSession.createDataFrame([], emitted)), code


def index_fields(
    prototype: DataFrame, keys: Sequence[Column | str], columns: Sequence[str]
) -> tuple[tuple[StructField, ...], StructType]:
    stored = key_schema(prototype, [quoted(name) for name in columns])
    types = [*key_schema(prototype, keys), *stored]
    return tuple(StructField(f"{KEY_PREFIX}{place}", each.dataType) for place, each in enumerate(types)), stored


class SparkIndex(SparkKeyedBatches[WorkerFunction]):
    """Batches over an index of rows, which are next to each other if their index keys are equal."""

    def __init__(self, context: OperatorContext, code: KeyedCode, index_keys: int, function: WorkerFunction) -> None:
        """The first `index_keys` of the key columns are the index key."""
        super().__init__(context, code, lambda _: function)
        self._index_keys = index_keys

    @cached_property
    def _groups(self) -> KeyGroups:
        keys = tuple(F.col(each.name) for each in self._code.key_fields[: self._index_keys])
        return KeyGroups(keys=keys, max_parallelism=self._context.descriptor.vertex.max_parallelism)

    def keyed(self, rows: DataFrame) -> DataFrame:
        row = [F.col(each.name) for each in self._code.key_fields[self._index_keys :]]
        return self._code.keyed(rows).withColumn(POSITION, self._groups.position_of_row(row, ROW_BITS))


class SparkChanges(SparkIndex[JoinChanges | RowsBeforeAndAfter]):
    def __init__(self, context: OperatorContext, code: ChangesCode) -> None:
        super().__init__(context, code, len(code.keys), code.function)
        self._changes = code
        self._version = 0
        self._settled = 0
        self._times_ms: tuple[int, int] | None = None

    def settle(self) -> None:
        """Note that a removal of a row that was not added before belongs to a row that has been forgotten."""
        self._settled = self._version

    def processed(self, element: Element[Slices], readings: Readings, version: int) -> KeyedResult[Slices, StateRows]:
        now_ms = element.processing_time_ms
        self._version, self._times_ms = version, (now_ms if self._times_ms is None else self._times_ms[0], now_ms)
        return super().processed(element, readings, version)

    def clean_up(self) -> TimeToLive | None:
        if self._changes.time_to_live_ms is None or self._times_ms is None:
            return None
        since_ms, now_ms = self._times_ms
        return TimeToLive(ms=self._changes.time_to_live_ms, now_ms=now_ms, since_ms=since_ms, settled=self._settled)

    @property
    def has_several_readers(self) -> bool:
        return isinstance(self._changes.function, RowsBeforeAndAfter)

    @property
    def work(self) -> Callable[..., KeyedWork]:
        return partial(ProcessChanges, index_keys=self._index_keys, time_to_live=self.clean_up())


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed:
    """Recomputes the results of the changed keys with Spark, before and after a batch, and emits the difference.

    `compute` receives rows without weights: a row with weight n occurs n times. Without keys there is a result even if
    there are no rows, except before the first batch: a row whose `IS_AFTER` is null marks that an earlier batch exists.
    """

    compute: Callable[[DataFrame], DataFrame]
    has_keys: bool

    def __call__(self, emitted: DataFrame) -> DataFrame:
        after = self._computed(emitted, F.col(IS_AFTER), 1)
        before = self._computed(emitted, ~F.col(IS_AFTER), -1)
        if not self.has_keys:
            before = before.join(emitted.where(F.col(IS_AFTER).isNull()).select(), how="left_semi")
        return consolidated(after.unionAll(before))

    def _computed(self, emitted: DataFrame, condition: Column, weight: int) -> DataFrame:
        # Like the rows of a worker, these are in one partition, so Spark shuffles nothing.
        rows = emitted.where(condition).drop(IS_AFTER).coalesce(1)
        # Results that depend on row order, such as the first of equal rows, must be the same in both computations.
        ordered = rows.sortWithinPartitions(F.xxhash64(*map(quoted, rows.columns)))
        return self.compute(ordered).withColumn(WEIGHT, F.lit(weight).cast("bigint"))


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedBySpark:
    """Joins the rows of two sides, which are in one table with columns `left` and `right`; `side` marks right rows."""

    side: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    join: Callable[[DataFrame, DataFrame], DataFrame]

    def __call__(self, rows: DataFrame) -> DataFrame:
        is_right = F.col(quoted(self.side))
        left = rows.where(~is_right).select(*map(quoted, self.left))
        return self.join(left, rows.where(is_right).select(*map(quoted, self.right)))


def consolidated(rows: DataFrame) -> DataFrame:
    """Add the weights of equal rows of one subtask, and drop rows whose weights add up to zero."""
    columns = [F.col(quoted(name)) for name in rows.columns if name != WEIGHT]
    return rows.coalesce(1).groupBy(*columns).agg(F.sum(WEIGHT).alias(WEIGHT)).where(F.col(WEIGHT) != 0)


def upserts_of_changes(rows: DataFrame, columns: Sequence[str], keys: Sequence[str], kind: str) -> DataFrame:
    """Return the last row of each key in a batch of changes, with its kind of change."""
    by_key = consolidated(rows).groupBy(*map(quoted, keys))
    row = F.struct(*map(quoted, columns))
    last = by_key.agg(F.max_by(row, WEIGHT).alias(_ROW), F.max(WEIGHT).alias(WEIGHT)).where(F.col(WEIGHT).isNotNull())
    values = (F.col(_ROW).getField(name).alias(name) for name in columns)
    return last.select(*values, F.when(F.col(WEIGHT) > 0, F.lit(UPDATE_AFTER)).otherwise(F.lit(DELETE)).alias(kind))
