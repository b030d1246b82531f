"""Orders inner joins so that each has an equality with the rows before it.

In `FROM a, b, c WHERE a.x = c.x AND b.y = c.y` no condition compares `a` with `b`. If these were joined first, each row
of `a` would meet all rows of `b`. Rules of Spark's optimizer find another order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from flykka.spark_bridge.session.jvm_classes import scala_object
from flykka.spark_bridge.sql.plan_node import PlanNode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flykka.spark_bridge.sql.plan_node import Expression

_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer"
_RULES = ("BooleanSimplification", "ReorderJoin")
"""The first rule moves conditions that all parts of an OR have in common out of the OR."""

_EQUALITIES = frozenset({"EqualTo", "EqualNullSafe"})
_INNER = frozenset({"INNER", "CROSS"})


def with_connected_joins(session: SparkSession, plan: PlanNode) -> PlanNode:
    """Return a plan whose inner joins have equalities, as far as their order and common parts of an OR allow it."""
    if all(map(_is_connected, _chains(plan))):
        return plan
    java = plan.java
    for name in _RULES:
        java = scala_object(session.sparkContext, f"{_OPTIMIZER}.{name}").apply(java)
    return PlanNode(java, plan.position)


def _chains(node: PlanNode) -> Iterator[PlanNode]:
    """Yield the filters and inner joins that have a join without a condition of its own below them."""
    if _is_inner(node) or (node.kind == "Filter" and _is_inner(node.children[0])):
        inputs, _, lacks_condition = _flattened(node)
        if lacks_condition:
            yield node
    else:
        inputs = list(node.children)
    for each in inputs:
        yield from _chains(each)


def _is_inner(node: PlanNode) -> bool:
    return node.kind == "Join" and node.join_type in _INNER


def _flattened(node: PlanNode) -> tuple[list[PlanNode], list[Expression], bool]:
    """Return the inputs of adjacent inner joins, their conditions, and whether a join has no condition."""
    if node.kind == "Filter" and _is_inner(node.children[0]):
        inputs, conditions, lacks_condition = _flattened(node.children[0])
        return inputs, [*conditions, *node.expressions[0].conjuncts()], lacks_condition
    if not _is_inner(node):
        return [node], [], False
    (left, of_left, left_lacks), (right, of_right, right_lacks) = map(_flattened, node.children)
    own = [] if node.condition is None else list(node.condition.conjuncts())
    return [*left, *right], [*of_left, *of_right, *own], not own or left_lacks or right_lacks


def _is_connected(chain: PlanNode) -> bool:
    """Return True if each input has an equality with the inputs before it."""
    (first, *others), conditions, _ = _flattened(chain)
    equalities = [each.columns for each in conditions if each.kind in _EQUALITIES]
    joined = {each.id for each in first.output}
    for each in others:
        columns = {column.id for column in each.output}
        if not any(read <= joined | columns and read & joined and read & columns for read in equalities):
            return False
        joined |= columns
    return True
