"""Operators over changing rows: an index of the rows that are there, and what a batch of changes adds to the results.

Each batch is one Spark job. A worker applies the changes to the index and emits what its function makes of them;
`results` turns that into weighted rows of the results, by plans of Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.operators.code import OperatorCode
from flykka.spark_bridge.operators.keyed_batch import KeyedBatchOperator
from flykka.spark_bridge.operators.spark_keyed_batches import SparkKeyedBatches, with_keys
from flykka.spark_bridge.rows.partitioning import KeyGroups
from flykka.spark_bridge.worker.segment_file import POSITION
from flykka.spark_bridge.worker.weighted_results import IS_AFTER
from flykka.spark_bridge.worker.weighted_rows import ROW_BITS, WEIGHT, ChangeFunction, ProcessChanges

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flykka.spark_bridge.operators.code import OperatorContext
    from flykka.spark_bridge.operators.operator import Operator
    from flykka.spark_bridge.program.side_output import SideOutput
    from flykka.spark_bridge.rows.materialise import Slices
    from flykka.spark_bridge.worker.process_batch import KeyedWork

Results = "Callable[[DataFrame], DataFrame]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesCode(OperatorCode):
    """Keeps weighted rows of these `columns` by `keys`, and emits the changes of results.

    `does` names the operator and everything in it that its state depends on. If its `results` read what the worker
    emits more than once, it is computed once, before.
    """

    kind = OperatorKind.KEYED_PROCESS
    is_head = True
    is_computed = True

    does: str
    keys: tuple[Column | str, ...]
    columns: tuple[str, ...]
    key_fields: tuple[StructField, ...]
    emitted: tuple[StructField, ...]
    function: ChangeFunction
    results: Callable[[DataFrame], DataFrame] = field(repr=False)
    reads_often: bool = False
    side: tuple[SideOutput, ...] = ()

    state_fields = (StructField(WEIGHT, LongType()),)

    @property
    def fingerprint(self) -> str:
        types = ", ".join(each.dataType.simpleString() for each in self.key_fields)
        return f"{self.does}({len(self.keys)} keys of {types})"

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        batches = SparkChanges(context, self)
        return KeyedBatchOperator(context.operator_id, batches, batches.backend)

    def keyed(self, rows: DataFrame) -> DataFrame:
        names = [each.name for each in self.key_fields]
        values = [*self.keys, *map(quoted, self.columns)]
        return with_keys(rows, self.key_fields, values).select(*names, WEIGHT)


class SparkChanges(SparkKeyedBatches):
    """Implements `KeyedBatches` for changing rows."""

    def __init__(self, context: OperatorContext, code: ChangesCode) -> None:
        super().__init__(context, code, lambda _: code.function)
        self._changes = code

    @cached_property
    def _groups(self) -> KeyGroups:
        keys = tuple(F.col(each.name) for each in self._code.key_fields[: len(self._changes.keys)])
        return KeyGroups(keys=keys, max_parallelism=self._context.descriptor.vertex.max_parallelism)

    @property
    def has_several_readers(self) -> bool:
        return self._changes.reads_often

    @property
    def work(self) -> Callable[..., KeyedWork]:
        return partial(ProcessChanges, index_keys=len(self._changes.keys))

    def keyed(self, rows: DataFrame) -> DataFrame:
        keyed = self._changes.keyed(rows)
        row = [F.col(each.name) for each in self._code.key_fields[len(self._changes.keys) :]]
        return keyed.withColumn(POSITION, self._groups.position_of_row(row, ROW_BITS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed:
    """Lets Spark compute results of the rows of the touched keys before and after a batch; the difference is the change.

    `compute` gets the rows without weights, each as often as it is there.
    """

    compute: Callable[[DataFrame], DataFrame]

    def __call__(self, emitted: DataFrame) -> DataFrame:
        parts = [
            self.compute(emitted.where(is_version).drop(IS_AFTER)).withColumn(WEIGHT, F.lit(weight))
            for is_version, weight in ((F.col(IS_AFTER), 1), (~F.col(IS_AFTER), -1))
        ]
        return consolidated(parts[0].unionAll(parts[1]))


def consolidated(rows: DataFrame) -> DataFrame:
    """Add the weights of equal rows, and leave out those whose weights add up to zero."""
    columns = [F.col(quoted(name)) for name in rows.columns if name != WEIGHT]
    added = rows.groupBy(*columns).agg(F.sum(WEIGHT).alias(WEIGHT))
    return added.where(F.col(WEIGHT) != 0)
