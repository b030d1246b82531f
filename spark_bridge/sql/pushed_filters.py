"""Filters of a join that are put below it, so that rows which cannot meet any are neither exchanged nor kept."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from flykka.spark_bridge.sql.plan_node import Expression, PlanNode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEPT_WHOLE = {"INNER": (False, False), "LEFT OUTER": (True, False), "RIGHT OUTER": (False, True)}
"""Kinds of joins, and which of their sides give a row for each that they have."""


class PushedFilters:
    """A join, and the condition of a filter above it, with what is of one side put below."""

    def __init__(
        self, session: SparkSession, join: PlanNode, above: Expression | None, *, keeps_right: bool = False
    ) -> None:
        """With `keeps_right` nothing is put below the right side: a version that does not pass is still the newest."""
        jvm = session.sparkContext._jvm
        assert jvm is not None
        self._logical = jvm.org.apache.spark.sql.catalyst.plans.logical
        self._expressions = jvm.org.apache.spark.sql.catalyst.expressions
        self._option = jvm.scala.Option
        kind = "INNER" if join.join_type == "CROSS" else join.join_type
        on = [] if join.condition is None else list(join.condition.conjuncts())
        of_filter = [] if above is None else list(above.conjuncts())
        if kind == "INNER":
            on, of_filter = on + of_filter, []
        below: tuple[list[Expression], list[Expression]] = ([], [])
        for place, is_whole in enumerate(_KEPT_WHOLE.get(kind, ())):
            columns = frozenset(each.id for each in join.children[place].output)
            if place and keeps_right:
                continue
            source = of_filter if is_whole else on
            below[place].extend(each for each in source if each.columns and each.columns <= columns)
            source[:] = [each for each in source if each not in below[place]]
        children = [self._filtered(side, each) for side, each in zip(join.children, below, strict=True)]
        joined = self._logical.Join(
            *(each.java for each in children), join.java.joinType(), self._option.apply(self._all(on)), join.java.hint()
        )
        self.join = PlanNode(joined, join.position)
        self.above = None if not of_filter else PlanNode(self._logical.Filter(self._all(of_filter), joined))

    def _filtered(self, side: PlanNode, conditions: Sequence[Expression]) -> PlanNode:
        return PlanNode(self._logical.Filter(self._all(conditions), side.java)) if conditions else side

    def _all(self, conditions: Sequence[Expression]) -> Any | None:
        both = self._expressions.And
        return reduce(both, (each.java for each in conditions)) if conditions else None
