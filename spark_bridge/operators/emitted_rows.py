"""Rows that Python workers emit: computed once, however many read them, and parted by output."""

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


def emitted_type(columns: Sequence[StructField], side: Sequence[SideOutput], told: Sequence[StructField]) -> StructType:
    """The columns of all that a worker emits; those of one output are null in rows of others, whatever they say."""
    main = (StructField(each.name, each.dataType, nullable=True, metadata=each.metadata) for each in columns)
    return StructType([*main, *(each.field for each in side), *told])


@dataclass(frozen=True, slots=True, kw_only=True)
class EmittedRows:
    """Rows, and when they are emitted, their numbers: aggregates that were wanted of them."""

    rows: DataFrame
    numbers: Callable[[], Mapping[str, Any]]

    def parted(self, side: Sequence[SideOutput], others: Sequence[str] = ()) -> tuple[DataFrame, Mapping[str, Slices]]:
        """The rows of the main output, which have null in all columns of others, and those of side outputs by tag."""
        foreign = [*(each.column for each in side), *others]
        if not foreign:
            return self.rows, {}
        is_main = reduce(Column.__and__, (F.col(name).isNull() for name in foreign))
        return self.rows.where(is_main).drop(*foreign), {
            each.tag: (self.rows.where(F.col(each.column).isNotNull()).select(f"{each.column}.*"),) for each in side
        }


def computed_once(context: OperatorContext, rows: DataFrame, name: str, wanted: Mapping[str, Column]) -> EmittedRows:
    """Compute rows now, for several readers, and keep them until their numbers are asked for."""
    made = materialise(context.scope, rows, wanted)
    store, attempt = context.storage.store, context.descriptor.attempt
    ref = BatchRef(batch_id=BatchId(f"{name}/emitted"), rows=made.rows, size_bytes=0)
    holder = f"{attempt} emitting"
    store.put(made.blocks, [Batch(ref=ref, rows=made.frame, holder=holder)], producer=attempt)

    def numbers() -> Mapping[str, Any]:
        store.release((ref.batch_id,), holder)
        return made.numbers

    return EmittedRows(rows=made.frame, numbers=numbers)


def computed_by_reader(rows: DataFrame, wanted: Mapping[str, Column]) -> EmittedRows:
    observation, observed = counted(rows, wanted)

    def numbers() -> Mapping[str, Any]:
        found = numbers_of(observation) if is_complete(observation) else {}
        if any(found.get(name) is None for name in wanted):
            # What reads the rows has not wanted them all. The operator wants them.
            (row,) = observed.agg(*(column.alias(name) for name, column in wanted.items())).collect()
            found = row.asDict()
        return found

    return EmittedRows(rows=observed, numbers=numbers)
