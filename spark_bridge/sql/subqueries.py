"""Rewrites subqueries and set operations of an analyzed plan into joins and aggregates, mostly by rules of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from flykka.spark_bridge.program.expressions import ExpressionBuilder, elements
from flykka.spark_bridge.session.jvm_classes import frame_of_plan, jvm_class, scala_object, scala_sequence
from flykka.spark_bridge.sql.plan_node import Expression, PlanNode, SqlTextError

if TYPE_CHECKING:
    from pyspark import SparkContext
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

_LOGICAL = f"{_CATALYST}.plans.logical"
_SUBQUERIES = frozenset({"ScalarSubquery", "Exists", "ListQuery", "LateralSubquery"})
_INNER = frozenset({"INNER", "CROSS"})
_EMITS_ONLY_MATCHES = {"LEFT OUTER": (1,), "RIGHT OUTER": (0,), "LEFT SEMI": (0, 1), "LEFT ANTI": (1,)}
"""For each kind of join, its sides of which no row is emitted without a match. They can be filtered before the join."""

_SET_OPERATIONS = frozenset({"Intersect", "Except", "LateralJoin"})
_TOO_MANY_ROWS = "a subquery used as a value returns more than one row"


def without_subqueries(session: SparkSession, plan: PlanNode, reads_stream: Callable[[PlanNode], bool]) -> PlanNode:
    """Return an equivalent plan in which streams are read only by children of nodes, not in subqueries.

    Subqueries as values may remain in nodes other than filters, projections and aggregates.
    """
    if not _has_subqueries(plan, reads_stream):
        return plan
    java = _Rewriting(session).rewritten(plan)
    return _ScalarSubqueries(session, reads_stream).joined(PlanNode(java, plan.position))


def _has_subqueries(node: PlanNode, reads_stream: Callable[[PlanNode], bool]) -> bool:
    if node.kind in _SET_OPERATIONS or any(map(reads_stream, node.subqueries)):
        return True
    if node.kind == "Join" and node.subqueries and all(map(reads_stream, node.children)):
        return True
    return any(_has_subqueries(each, reads_stream) for each in (*node.children, *node.subqueries))


class _Rewriting:
    """Applies the rules to a plan, and before that to the plans of its subqueries, whose joins the rules move into it.

    Conditions without a subquery are placed below conditions with a subquery, next to the joins that they belong to:
    the rules put new joins between the two. The ON of a join keeps no subquery.
    """

    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext
        self._builder = ExpressionBuilder(session)
        self._rules = [scala_object(self._context, f"{_CATALYST}.{name}") for name in _RULES]

    def rewritten(self, node: PlanNode) -> Any:
        return reduce(lambda java, rule: rule.apply(java), self._rules, self._prepared(node))

    def _prepared(self, node: PlanNode) -> Any:
        java, conditions = self._without_conditions(node)
        for has_subquery in (False, True):
            java = self._filter([each for each in conditions if _has_subquery(each) is has_subquery], java)
        return java

    def _without_conditions(self, node: PlanNode) -> tuple[Any, list[Expression]]:
        """Return a prepared node, and conditions with a subquery, or next to one, that must hold for its rows."""
        if node.kind == "Filter":
            java, conditions = self._without_conditions(node.children[0])
            if conditions or node.subqueries:
                return java, [*conditions, *node.expressions[0].conjuncts()]
            return node.java.withNewChildren(self._builder.sequence([java])), []
        if node.kind == "Join" and node.join_type in _INNER:
            sides = [self._without_conditions(each) for each in node.children]
            conditions = [each for _, above in sides for each in above]
            on = [] if node.condition is None else list(node.condition.conjuncts())
            conditions += (each for each in on if _has_subquery(each))
            on = [each for each in on if not _has_subquery(each)]
            return self._join(node, [java for java, _ in sides], [each.java for each in on]), conditions
        children = [self._prepared(each) for each in node.children]
        if node.kind == "Join" and node.subqueries:
            return self._without_subqueries_in_on(node, children), []
        if node.kind == "LateralJoin":
            of_row = self._rebuilt(Expression(node.java.right()))
            make = jvm_class(self._context, f"{_LOGICAL}.LateralJoin")
            return make(children[0], of_row, node.java.joinType(), node.java.condition()), []
        if node.kind == "GlobalLimit":
            return self._with_projection_above(node, children[0]), []
        if node.kind == "Project" and node.subqueries:
            return self._project([self._rebuilt(each) for each in node.expressions], children[0]), []
        return (node.java.withNewChildren(self._builder.sequence(children)) if children else node.java), []

    def _without_subqueries_in_on(self, join: PlanNode, sides: list[Any]) -> Any:
        """Return a join that is not an inner join, of sides that compute the parts of its ON that have a subquery."""
        columns = [frozenset(each.id for each in side.output) for side in join.children]
        computed: list[list[Any]] = [[], []]
        on = []

        def column(part: Expression) -> Any:
            if not _has_subquery(part):
                return part.java
            side = next((place for place in (0, 1) if part.columns <= columns[place]), None)
            if side is not None:
                alias = _alias(self._context, self._rebuilt(part), part.sql)
                computed[side].append(alias)
                return alias.toAttribute()
            if part.kind in ("InSubquery", *_SUBQUERIES):
                raise SqlTextError(
                    f"a subquery in the ON of a {join.join_type} JOIN compares columns of both sides: let it compare"
                    " columns of one side, or write it into the WHERE of an INNER JOIN",
                    part.position or join.position,
                )
            return part.java.withNewChildren(self._builder.sequence([column(each) for each in part.children]))

        assert join.condition is not None, "the join has subqueries, but no condition"
        for each in join.condition.conjuncts():
            of_side = next((p for p in _EMITS_ONLY_MATCHES.get(join.join_type, ()) if each.columns <= columns[p]), None)
            if _has_subquery(each) and of_side is not None:
                sides[of_side] = self._filter([each], sides[of_side])
            else:
                on.append(column(each))
        rows = [
            self._project([*elements(side.output()), *added], side) if added else side
            for side, added in zip(sides, computed, strict=True)
        ]
        return self._project(list(elements(join.java.output())), self._join(join, rows, on))

    def _with_projection_above(self, limit: PlanNode, child: Any) -> Any:
        """Return a LIMIT with its ORDER BY as child: Spark's rules ignore an ORDER BY below a projection."""
        local = child
        columns = local.child() if _kind(local) == "LocalLimit" else None
        if columns is None or _kind(columns) != "Project" or _kind(columns.child()) != "Sort":
            return limit.java.withNewChildren(self._builder.sequence([child]))
        local = local.withNewChildren(self._builder.sequence([columns.child()]))
        limited = limit.java.withNewChildren(self._builder.sequence([local]))
        return columns.withNewChildren(self._builder.sequence([limited]))

    def _join(self, node: PlanNode, sides: Sequence[Any], on: Sequence[Any]) -> Any:
        condition = jvm_class(self._context, "scala.Option").apply(self._all(on))
        join = jvm_class(self._context, f"{_LOGICAL}.Join")
        return join(*sides, node.java.joinType(), condition, node.java.hint())

    def _project(self, columns: Sequence[Any], rows: Any) -> Any:
        return jvm_class(self._context, f"{_LOGICAL}.Project")(self._builder.sequence(columns), rows)

    def _filter(self, conditions: Sequence[Expression], rows: Any) -> Any:
        condition = self._all([self._rebuilt(each) for each in conditions])
        return rows if condition is None else jvm_class(self._context, f"{_LOGICAL}.Filter")(condition, rows)

    def _all(self, conditions: Sequence[Any]) -> Any | None:
        both = jvm_class(self._context, f"{_CATALYST}.expressions.And")
        return reduce(both, conditions) if conditions else None

    def _rebuilt(self, expression: Expression) -> Any:
        return self._builder.rebuilt(expression.java, self._with_rewritten_plan)

    def _with_rewritten_plan(self, java: Any) -> Any | None:
        if _kind(java) not in _SUBQUERIES:
            return None
        return java.withNewPlan(self.rewritten(PlanNode(java.plan())))


def _has_subquery(expression: Expression) -> bool:
    return any(each.kind in _SUBQUERIES for each in expression.walk())


def _is_same(one: Any, other: Any) -> bool:
    """Return True if expressions are equal and read the same views: Spark ignores names, and views may share a plan."""
    return bool(one.semanticEquals(other)) and list(_reads(Expression(one))) == list(_reads(Expression(other)))


def _reads(expression: Expression) -> Iterator[str | int]:
    """Yield a hash of each subquery, followed by the names of the views that it reads, in the order of the text."""
    for each in expression.walk():
        if each.kind in _SUBQUERIES:
            plan = PlanNode(each.java.plan())
            yield int(plan.java.semanticHash())
            yield from _views(plan)


def _views(plan: PlanNode) -> Iterator[str | int]:
    if plan.view_name is not None:
        yield plan.view_name
    for child in plan.children:
        yield from _views(child)
    for each in plan.expressions:
        yield from _reads(each)


def _kind(java: Any) -> str:
    return str(java.getClass().getSimpleName())


def _alias(context: SparkContext, java: Any, name: str) -> Any:
    nothing, no_metadata = scala_sequence(context, []), jvm_class(context, "scala.Option").empty()
    new = jvm_class(context, f"{_CATALYST}.expressions.NamedExpression").newExprId()
    return jvm_class(context, f"{_CATALYST}.expressions.Alias")(java, name, new, nothing, no_metadata, nothing)


class _ScalarSubqueries:
    """Joins rows with the values of uncorrelated subqueries, each of which returns one row."""

    def __init__(self, session: SparkSession, reads_stream: Callable[[PlanNode], bool]) -> None:
        self._session = session
        self._context = session.sparkContext
        self._reads_stream = reads_stream
        self._builder = ExpressionBuilder(session)

    def joined(self, node: PlanNode) -> PlanNode:
        if node.kind == "Aggregate" and any(map(self._reads_stream, node.subqueries)):
            node = self._with_values_above(node) or node
        children = [self.joined(each) for each in node.children]
        java = node.java
        if any(new is not old for new, old in zip(children, node.children, strict=True)):
            java = java.withNewChildren(self._builder.sequence([each.java for each in children]))
        elif not any(map(self._reads_stream, node.subqueries)):
            return node
        if node.kind not in ("Filter", "Project", "Aggregate") or not any(map(self._reads_stream, node.subqueries)):
            return PlanNode(java, node.position)
        return PlanNode(self._with_values(node, children[0].java), node.position)

    def _with_values_above(self, aggregate: PlanNode) -> PlanNode | None:
        """If an output itself reads a subquery, return a Project that computes all outputs from keys and aggregates."""
        keys = list(elements(aggregate.java.groupingExpressions()))
        computed: list[tuple[Any, Any]] = []

        def replace(java: Any) -> Any | None:
            if _kind(java) != "AggregateExpression" and not any(_is_same(java, key) for key in keys):
                return None
            is_column = _kind(java) == "AttributeReference"
            column = next((column for known, column in computed if _is_same(java, known)), None)
            if column is None:
                column = java if is_column else _alias(self._context, java, str(java.sql()))
                computed.append((java, column))
            return java if is_column else column.toAttribute()

        outputs = [self._builder.rebuilt(each.java, replace) for each in aggregate.part("aggregateExpressions")]
        if not any(map(_has_subquery, map(Expression, outputs))):
            return None
        below = self._aggregate(aggregate, keys, [column for _, column in computed], aggregate.java.child())
        project = jvm_class(self._context, f"{_LOGICAL}.Project")
        return PlanNode(project(self._builder.sequence(outputs), below), aggregate.position)

    def _aggregate(self, node: PlanNode, keys: list[Any], outputs: list[Any], child: Any) -> Any:
        sequence = self._builder.sequence
        make = jvm_class(self._context, f"{_LOGICAL}.Aggregate")
        return make(sequence(keys), sequence(outputs), child, node.java.hint())

    def _with_values(self, node: PlanNode, child: Any) -> Any:
        """Return the node over the rows of its child, joined with the subquery values that it reads."""
        output = list(elements(child.output()))
        values: list[tuple[Any, Any]] = []

        def replace(java: Any) -> Any | None:
            nonlocal child
            if _kind(java) not in ("ScalarSubquery", "Exists") or not self._reads_stream(PlanNode(java.plan())):
                return None
            is_exists = _kind(java) == "Exists"
            value = next((value for known, value in values if _is_same(java, known)), None)
            if value is None:
                plan = self.joined(PlanNode(java.plan())).java
                row = self._one_if_any(plan) if is_exists else self._one_row(plan)
                child = self._left_join(child, row)
                value = row.output().head()
                values.append((java, value))
            return jvm_class(self._context, f"{_CATALYST}.expressions.IsNotNull")(value) if is_exists else value

        expressions = [self._builder.rebuilt(each.java, replace) for each in node.expressions]
        if node.kind == "Aggregate":
            keys = len(node.part("groupingExpressions"))
            return self._aggregate(node, expressions[:keys], expressions[keys:], child)
        if node.kind == "Project":
            return jvm_class(self._context, f"{_LOGICAL}.Project")(self._builder.sequence(expressions), child)
        filtered = jvm_class(self._context, f"{_LOGICAL}.Filter")(expressions[0], child)
        return jvm_class(self._context, f"{_LOGICAL}.Project")(self._builder.sequence(output), filtered)

    def _one_if_any(self, plan: Any) -> Any:
        """Return a plan whose value is 1 if `plan` has rows, else NULL."""
        row = frame_of_plan(self._session, plan).agg(F.when(F.count("*") > 0, 1).alias("exists"))
        return row._jdf.queryExecution().analyzed()

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
        hint = jvm_class(self._context, f"{_LOGICAL}.JoinHint").NONE()
        nothing = jvm_class(self._context, "scala.Option").empty()
        return jvm_class(self._context, f"{_LOGICAL}.Join")(rows, value, join_type, nothing, hint)
