"""Rewrites subqueries and set operations of an analyzed plan into joins and aggregates, mostly by rules of Spark."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from flykka.spark_bridge.program.expressions import ExpressionBuilder, elements
from flykka.spark_bridge.session.jvm_classes import frame_of_plan, jvm_class
from flykka.spark_bridge.sql.plan_node import PlanNode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CATALYST = "org.apache.spark.sql.catalyst"
_RULES = (
    "analysis.EliminateSubqueryAliases",
    "optimizer.PullupCorrelatedPredicates",
    "optimizer.RewriteCorrelatedScalarSubquery",
    "optimizer.RewritePredicateSubquery",
    "optimizer.RewriteLateralSubquery",
    "optimizer.ReplaceIntersectWithSemiJoin",
    "optimizer.ReplaceExceptWithAntiJoin",
    "optimizer.RewriteExceptAll",
    "optimizer.RewriteIntersectAll",
)
"""Spark's rules that replace subqueries and set operations. None of these rules moves a filter."""

_SUBQUERIES = frozenset({"ScalarSubquery", "Exists", "ListQuery"})
_SET_OPERATIONS = frozenset({"Intersect", "Except", "LateralJoin"})
_TOO_MANY_ROWS = "a subquery used as a value returns more than one row"


def without_subqueries(session: SparkSession, plan: PlanNode, reads_stream: Callable[[PlanNode], bool]) -> PlanNode:
    """Return an equivalent plan in which streams are read only by children of nodes, not in subqueries.

    Subqueries as values may remain in nodes other than filters and projections.
    """
    if not _has_subqueries(plan, reads_stream):
        return plan
    java = _SplitFilters(session).split(plan)
    for name in _RULES:
        rule = getattr(jvm_class(session.sparkContext, f"{_CATALYST}.{name}$"), "MODULE$")
        java = rule.apply(java)
    return _ScalarSubqueries(session, reads_stream).joined(PlanNode(java, plan.position))


def _has_subqueries(node: PlanNode, reads_stream: Callable[[PlanNode], bool]) -> bool:
    if node.kind in _SET_OPERATIONS or any(map(reads_stream, node.subqueries)):
        return True
    return any(_has_subqueries(each, reads_stream) for each in (*node.children, *node.subqueries))


class _SplitFilters:
    """Puts the conditions of filters that have no subquery below those that have one.

    There they are next to the joins that they belong to: the rules put new joins between these and the others.
    """

    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext
        self._builder = ExpressionBuilder(session)

    def split(self, node: PlanNode) -> Any:
        java = node.java
        if node.children:
            java = java.withNewChildren(self._builder.sequence([self.split(each) for each in node.children]))
        if node.kind != "Filter" or not node.subqueries:
            return java
        conditions: dict[bool, list[Any]] = {False: [], True: []}
        for each in node.expressions[0].conjuncts():
            has_subquery = any(part.kind in _SUBQUERIES for part in each.walk())
            conditions[has_subquery].append(self._builder.rebuilt(each.java, self._with_split_plan))
        child = java.child()
        for some in filter(None, conditions.values()):
            both = jvm_class(self._context, f"{_CATALYST}.expressions.And")
            child = jvm_class(self._context, f"{_CATALYST}.plans.logical.Filter")(reduce(both, some), child)
        return child

    def _with_split_plan(self, java: Any) -> Any | None:
        if str(java.getClass().getSimpleName()) not in _SUBQUERIES:
            return None
        return java.withNewPlan(self.split(PlanNode(java.plan())))


class _ScalarSubqueries:
    """Joins rows with the values of uncorrelated subqueries, each of which returns one row."""

    def __init__(self, session: SparkSession, reads_stream: Callable[[PlanNode], bool]) -> None:
        self._session = session
        self._context = session.sparkContext
        self._reads_stream = reads_stream
        self._builder = ExpressionBuilder(session)

    def joined(self, node: PlanNode) -> PlanNode:
        children = [self.joined(each) for each in node.children]
        java = node.java
        if any(new is not old for new, old in zip(children, node.children, strict=True)):
            java = java.withNewChildren(self._builder.sequence([each.java for each in children]))
        elif not any(map(self._reads_stream, node.subqueries)):
            return node
        if node.kind not in ("Filter", "Project") or not any(map(self._reads_stream, node.subqueries)):
            return PlanNode(java, node.position)
        return PlanNode(self._with_values(node, children[0].java), node.position)

    def _with_values(self, node: PlanNode, child: Any) -> Any:
        """Return a Filter or Project over the rows of its child, joined with the subquery values that it reads."""
        output = list(elements(child.output()))
        values: dict[str, Any] = {}

        def replace(java: Any) -> Any | None:
            nonlocal child
            if str(java.getClass().getSimpleName()) != "ScalarSubquery" or not self._reads_stream(
                PlanNode(java.plan())
            ):
                return None
            key = str(java.canonicalized().toString())
            if key not in values:
                row = self._one_row(self.joined(PlanNode(java.plan())).java)
                child = self._left_join(child, row)
                values[key] = row.output().head()
            return values[key]

        expressions = [self._builder.rebuilt(each.java, replace) for each in node.expressions]
        logical = f"{_CATALYST}.plans.logical"
        if node.kind == "Project":
            return jvm_class(self._context, f"{logical}.Project")(self._builder.sequence(expressions), child)
        filtered = jvm_class(self._context, f"{logical}.Filter")(expressions[0], child)
        return jvm_class(self._context, f"{logical}.Project")(self._builder.sequence(output), filtered)

    def _one_row(self, plan: Any) -> Any:
        """Return a plan that computes the rows of `plan`, but fails if there is more than one."""
        most = plan.maxRows()
        if most.isDefined() and int(most.get()) <= 1:
            return plan
        rows = frame_of_plan(self._session, plan).toDF("value")
        value = F.when(F.count("*") <= 1, F.first("value")).otherwise(F.raise_error(F.lit(_TOO_MANY_ROWS)))
        return rows.agg(value.alias("value"))._jdf.queryExecution().analyzed()

    def _left_join(self, rows: Any, value: Any) -> Any:
        join_type = getattr(jvm_class(self._context, f"{_CATALYST}.plans.LeftOuter$"), "MODULE$")
        hint = jvm_class(self._context, f"{_CATALYST}.plans.logical.JoinHint").NONE()
        nothing = jvm_class(self._context, "scala.Option").empty()
        return jvm_class(self._context, f"{_CATALYST}.plans.logical.Join")(rows, value, join_type, nothing, hint)
