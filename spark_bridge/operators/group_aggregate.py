"""Running aggregates of each key, without windows (Flink SQL's GroupAggFunction).

State is the partial aggregates of each key. Each batch emits, for every key that it has, the aggregates of all rows so
far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.spark_bridge.operators.keyed_batch import KeyedBatchOperator
from flykka.spark_bridge.worker.parts import MergeParts

if TYPE_CHECKING:
    from flykka.spark_bridge.operators.bound_chain import OperatorContext
    from flykka.spark_bridge.operators.code import GroupAggregateCode
    from flykka.spark_bridge.operators.operator import Element
    from flykka.spark_bridge.rows.materialise import Slices


class GroupAggregateOperator(KeyedBatchOperator):
    """The running aggregates of one attempt."""

    def __init__(self, context: OperatorContext, code: GroupAggregateCode) -> None:
        super().__init__(context, code)
        self._merge = MergeParts(functions=code.plan.merging)

    def function(self, element: Element[Slices]) -> MergeParts:
        """Merge the parts of a batch into those that are kept."""
        return self._merge
