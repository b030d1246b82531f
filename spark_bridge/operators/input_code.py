"""The part of a two-input operator that runs before the exchange: rows of both inputs get the same columns.

So the exchange, coalesced batches and in-flight rows of a checkpoint only handle one stream. A row is null in the
columns of the other input, which costs one word for each column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.operators.code import LocalCode
from flykka.spark_bridge.operators.operator import MapOperator, Operator
from flykka.spark_bridge.rows.materialise import Slices
from flykka.spark_bridge.worker.inputs import INPUT, tagged

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField, StructType

    from flykka.spark_bridge.operators.code import OperatorContext


@dataclass(frozen=True, slots=True, kw_only=True)
class TagInputCode(LocalCode):
    """Adds the columns of both `schemas` and the keys to the rows of input `number`, which is 0 or 1.

    The key columns, if there are any, are `key_fields`; they are null for a broadcast input without `keys`.
    """

    kind = OperatorKind.LOCAL_INPUT
    is_computed = True

    number: int
    schemas: tuple[StructType, StructType]
    keys: tuple[Column | str, ...] = ()
    key_fields: tuple[StructField, ...] = ()

    @property
    def fingerprint(self) -> str:
        return f"input({self.number + 1})"

    def name_of(self, operator: str) -> str:
        return f"input {self.number + 1} of {operator}"

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        return MapOperator(context.operator_id, self.tagged)

    def tagged(self, rows: DataFrame) -> DataFrame:
        columns = [F.lit(self.number).cast("tinyint").alias(INPUT)]
        for field, key in zip(self.key_fields, self.keys or [F.lit(None)] * len(self.key_fields), strict=True):
            columns.append((F.col(key) if isinstance(key, str) else key).cast(field.dataType).alias(field.name))
        for number, schema in enumerate(self.schemas):
            for field in schema:
                own = F.col(quoted(field.name)) if number == self.number else F.lit(None).cast(field.dataType)
                columns.append(own.alias(tagged(number, field.name)))
        return rows.select(*columns)

    def batch_times(self, rows: DataFrame, event_time: str | None) -> Mapping[str, Column]:
        return LocalCode.batch_times(self, rows, None if event_time is None else tagged(self.number, event_time))
