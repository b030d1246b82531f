"""Running aggregates of each key, without windows (Flink SQL's GroupAggFunction)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField

from flykka.actors.machines.state.schema_evolution import columns_of
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.state.handles import StateSchema
from flykka.spark_bridge.operators.code import AggregateCode
from flykka.spark_bridge.operators.keyed_batch import KeyedBatchOperator
from flykka.spark_bridge.operators.spark_keyed_batches import SparkKeyedBatches
from flykka.spark_bridge.program.aggregates import TIME
from flykka.spark_bridge.rows.materialise import Slices
from flykka.spark_bridge.worker.parts import MergeParts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flykka.spark_bridge.operators.code import OperatorContext
    from flykka.spark_bridge.operators.operator import Operator
    from flykka.spark_bridge.program.aggregates import PartialAggregates
    from flykka.spark_bridge.program.side_output import SideOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAggregateCode(AggregateCode):
    """Each batch emits the aggregates of its keys over all rows so far. The state of a key consists of its partial
    aggregates.

    With a column `weight`, results are weighted rows: the replaced aggregates of a key have weight -1.
    """

    kind = OperatorKind.GROUP_AGGREGATE
    local_kind = OperatorKind.LOCAL_GROUP_AGGREGATE
    may_come_unaggregated = True

    plan: PartialAggregates
    weight: str | None = None

    @property
    def fingerprint(self) -> str:
        return f"group_aggregate(state={self.plan.structure})"

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        merge = MergeParts(functions=self.plan.merging, wrapping=self.plan.wrapping, weight=self.weight)
        batches = SparkKeyedBatches(context, self, lambda _: merge, is_ours=True)
        return KeyedBatchOperator(context.operator_id, batches, batches.backend)

    @property
    def key_fields(self) -> tuple[StructField, ...]:
        return self.plan.key_fields

    @property
    def upsert_keys(self) -> tuple[str, ...]:
        return tuple(columns_of(self.plan.state_schema.keys))

    @property
    def state_fields(self) -> tuple[StructField, ...]:
        return self.plan.part_fields

    @property
    def emitted(self) -> tuple[StructField, ...]:
        weights = () if self.weight is None else (StructField(self.weight, LongType()),)
        return (*self.plan.key_fields, *self.plan.part_fields, *weights)

    @property
    def side(self) -> tuple[SideOutput, ...]:
        return ()

    def keyed(self, rows: DataFrame) -> DataFrame:
        """Return rows of state from the exchange, which all have the same constant time."""
        return rows.drop(TIME)

    def results(self, emitted: DataFrame) -> DataFrame:
        return self.plan.evaluated(emitted, **({} if self.weight is None else {self.weight: F.col(self.weight)}))

    @property
    def state_schema(self) -> StateSchema:
        return self.plan.state_schema

    def local_state(self, rows: DataFrame) -> DataFrame:
        return self.plan.local(rows, F.lit(0).cast("bigint"))

    def state_row_by_row(self, rows: DataFrame) -> DataFrame:
        return self.plan.row_by_row(rows, F.lit(0).cast("bigint"))

    def state_times(self) -> Mapping[str, Column]:
        return {}

    def previewed(self, rows: DataFrame) -> DataFrame:
        return self.plan.compute_results(self.local_state(rows))
