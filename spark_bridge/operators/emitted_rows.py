"""Rows that Python workers emit: they are computed once, even for several readers, and split by output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from flykka.messages.tasks.exchange import BatchRef
from flykka.messages.wire.ids import BatchId
from flykka.spark_bridge.program.side_output import SideOutput
from flykka.spark_bridge.rows.batches import Batch
from flykka.spark_bridge.rows.materialise import Slices, counted, is_complete, materialise, numbers_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.spark_bridge.operators.code import OperatorContext


def emitted_type(
    columns: Sequence[StructField], side: Sequence[SideOutput], report_columns: Sequence[StructField]
) -> StructType:
    """Return the columns of all rows that a worker emits: a row is null in the columns of all other outputs."""
    main = (StructField(each.name, each.dataType, nullable=True, metadata=each.metadata) for each in columns)
    return StructType([*main, *(each.field for each in side), *report_columns])


@dataclass(frozen=True, slots=True, kw_only=True)
class EmittedRows:
    """The rows emitted for a batch, and their `numbers`: aggregates that are known once the rows have been computed."""

    rows: DataFrame
    numbers: Callable[[], Mapping[str, Any]]

    def parted(self, side: Sequence[SideOutput], others: Sequence[str] = ()) -> tuple[DataFrame, Mapping[str, Slices]]:
        """Return the rows of the main output, without columns of other outputs, and the rows of side outputs by tag."""
        return main_rows(self.rows, [*(each.column for each in side), *others]), self.of_side(side)

    def of_side(self, side: Sequence[SideOutput]) -> Mapping[str, Slices]:
        return {
            each.tag: (self.rows.where(F.col(each.column).isNotNull()).select(f"{each.column}.*"),) for each in side
        }


def main_rows(rows: DataFrame, others: Sequence[str]) -> DataFrame:
    """Return the rows of the main output, which are null in the columns of all `others`, without these columns."""
    if not others:
        return rows
    return rows.where(reduce(Column.__and__, (F.col(name).isNull() for name in others))).drop(*others)


def computed_once(
    context: OperatorContext, rows: DataFrame, name: str, aggregates: Mapping[str, Column]
) -> EmittedRows:
    """Compute rows now, for several readers, and store them until their aggregates are read."""
    materialised = materialise(context.scope, rows, aggregates)
    store, attempt = context.storage.store, context.descriptor.attempt
    ref = BatchRef(batch_id=BatchId(f"{name}/emitted"), rows=materialised.rows, size_bytes=0)
    holder = f"{attempt} emitting"
    store.put(materialised.blocks, [Batch(ref=ref, rows=materialised.frame, holder=holder)], producer=attempt)

    def numbers() -> Mapping[str, Any]:
        store.release((ref.batch_id,), holder)
        return materialised.numbers

    return EmittedRows(rows=materialised.frame, numbers=numbers)


def computed_by_reader(rows: DataFrame, aggregates: Mapping[str, Column]) -> EmittedRows:
    observation, observed = counted(rows, aggregates)

    def numbers() -> Mapping[str, Any]:
        numbers_by_name = numbers_of(observation) if is_complete(observation) else {}
        if any(numbers_by_name.get(name) is None for name in aggregates):
            # The readers did not compute all rows, but the operator needs the aggregates over all rows.
            (row,) = observed.agg(*(column.alias(name) for name, column in aggregates.items())).collect()
            numbers_by_name = row.asDict()
        return numbers_by_name

    return EmittedRows(rows=observed, numbers=numbers)
