"""Rewrites subqueries and set operations of an analyzed plan into joins and aggregates, mostly by rules of Spark."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from flykka.spark_bridge.program.expressions import ExpressionBuilder, elements
from flykka.spark_bridge.session.jvm_classes import frame_of_plan, jvm_class, scala_object
from flykka.spark_bridge.sql.plan_node import PlanNode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flykka.spark_bridge.sql.plan_node import Expression

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
    java = _Rewriting(session).rewritten(plan)
    return _ScalarSubqueries(session, reads_stream).joined(PlanNode(java, plan.position))


def _has_subqueries(node: PlanNode, reads_stream: Callable[[PlanNode], bool]) -> bool:
    if node.kind in _SET_OPERATIONS or any(map(reads_stream, node.subqueries)):
        return True
    return any(_has_subqueries(each, reads_stream) for each in (*node.children, *node.subqueries))


class _Rewriting:
    """Applies the rules to a plan, and before that to the plans of its subqueries, whose joins the rules move into it.

    Conditions without a subquery are placed below conditions with a subquery, next to the joins that they belong to:
    the rules put new joins between the two.
    """

    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext
        self._builder = ExpressionBuilder(session)
        self._rules = [scala_object(self._context, f"{_CATALYST}.{name}") for name in _RULES]

    def rewritten(self, node: PlanNode) -> Any:
        return reduce(lambda java, rule: rule.apply(java), self._rules, self._prepared(node))

    def _prepared(self, node: PlanNode) -> Any:
        java = node.java
        if node.children:
            java = java.withNewChildren(self._builder.sequence([self._prepared(each) for each in node.children]))
        if node.kind not in ("Filter", "Project") or not node.subqueries:
            return java
        make = jvm_class(self._context, f"{_CATALYST}.plans.logical.{node.kind}")
        if node.kind == "Project":
            return make(self._builder.sequence([self._rebuilt(each) for each in node.expressions]), java.child())
        both = jvm_class(self._context, f"{_CATALYST}.expressions.And")
        conditions = list(node.expressions[0].conjuncts())
        child = java.child()
        for has_subquery in (False, True):
            some = [self._rebuilt(each) for each in conditions if _has_subquery(each) is has_subquery]
            child = make(reduce(both, some), child) if some else child
        return child

    def _rebuilt(self, expression: Expression) -> Any:
        return self._builder.rebuilt(expression.java, self._with_rewritten_plan)

    def _with_rewritten_plan(self, java: Any) -> Any | None:
        if str(java.getClass().getSimpleName()) not in _SUBQUERIES:
            return None
        return java.withNewPlan(self.rewritten(PlanNode(java.plan())))


def _has_subquery(expression: Expression) -> bool:
    return any(each.kind in _SUBQUERIES for each in expression.walk())


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
        """Return a plan that computes the rows of `plan`, but fails if there is more than one row."""
        most = plan.maxRows()
        if most.isDefined() and int(most.get()) <= 1:
            return plan
        rows = frame_of_plan(self._session, plan).toDF("value")
        value = F.when(F.count("*") <= 1, F.first("value")).otherwise(F.raise_error(F.lit(_TOO_MANY_ROWS)))
        return rows.agg(value.alias("value"))._jdf.queryExecution().analyzed()

    def _left_join(self, rows: Any, value: Any) -> Any:
        join_type = scala_object(self._context, f"{_CATALYST}.plans.LeftOuter")
        hint = jvm_class(self._context, f"{_CATALYST}.plans.logical.JoinHint").NONE()
        nothing = jvm_class(self._context, "scala.Option").empty()
        return jvm_class(self._context, f"{_CATALYST}.plans.logical.Join")(rows, value, join_type, nothing, hint)
