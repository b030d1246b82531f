"""Pushes the filters of a join below the join, so that rows which cannot match are neither exchanged nor stored."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from flykka.spark_bridge.session.jvm_classes import jvm_class
from flykka.spark_bridge.sql.plan_node import Expression, PlanNode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"

_KEPT_WHOLE = {"INNER": (False, False), "LEFT OUTER": (True, False), "RIGHT OUTER": (False, True)}
"""For each kind of join, whether the rows of the left and the right side are preserved."""


class PushedFilters:
    """A join and the condition of a filter above it, after conditions on one side have been pushed below the join."""

    def __init__(
        self, session: SparkSession, join: PlanNode, above: Expression | None, *, keeps_right: bool = False
    ) -> None:
        """Push conditions down, but with `keeps_right` only to the left side of a temporal join: a version of the right
        side that does not pass a filter is still the newest version.
        """
        self._context = session.sparkContext
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
        condition = jvm_class(self._context, "scala.Option").apply(self._all(on))
        joined = jvm_class(self._context, f"{_LOGICAL}.Join")(
            *(each.java for each in children), join.java.joinType(), condition, join.java.hint()
        )
        self.join = PlanNode(joined, join.position)
        self.above = None if not of_filter else PlanNode(self._filter(of_filter, joined))

    def _filtered(self, side: PlanNode, conditions: Sequence[Expression]) -> PlanNode:
        return PlanNode(self._filter(conditions, side.java)) if conditions else side

    def _filter(self, conditions: Sequence[Expression], rows: Any) -> Any:
        return jvm_class(self._context, f"{_LOGICAL}.Filter")(self._all(conditions), rows)

    def _all(self, conditions: Sequence[Expression]) -> Any | None:
        both = jvm_class(self._context, "org.apache.spark.sql.catalyst.expressions.And")
        return reduce(both, (each.java for each in conditions)) if conditions else None
