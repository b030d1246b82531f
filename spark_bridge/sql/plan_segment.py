"""Applies some nodes of an analyzed plan to the rows of each batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from flykka.spark_bridge.program.expressions import ExpressionBuilder, elements
from flykka.spark_bridge.session.jvm_classes import frame_of_plan, jvm_class

if TYPE_CHECKING:
    from typing import Any

    from pyspark.sql import Column, DataFrame, SparkSession

    from flykka.spark_bridge.sql.plan_node import Expression, PlanNode

_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSegment:
    """Nodes of a plan, bottom-up, each with the index of the child that provides its rows.

    The first columns of the rows replace the `attributes` that the lowest node reads. So the
    nodes are used as Spark has analyzed them, and no table, function or type is resolved again. `tables` are common
    table expressions that the nodes read in addition to the rows. `names` are new names for the columns of the result,
    and `added` are columns computed from these. Columns of the rows that the nodes do not know are `carried` through
    projections and filters, and follow the result's other columns.
    """

    is_of_columns: ClassVar[bool] = True

    attributes: tuple[Expression, ...]
    nodes: tuple[tuple[PlanNode, int], ...]
    names: tuple[str, ...] | None
    tables: tuple[PlanNode, ...] = ()
    added: Mapping[str, Column] = field(default_factory=dict)
    carried: tuple[str, ...] = ()

    def __call__(self, rows: DataFrame) -> DataFrame:
        session = rows.sparkSession
        project = jvm_class(session.sparkContext, f"{_LOGICAL}.Project")
        plan = rows._jdf.queryExecution().analyzed()
        columns = list(elements(plan.output()))
        carried = [column for column in columns if str(column.name()) in self.carried] if self.carried else []
        plan = project(self._renamed(columns, carried, session), plan)
        sequence = ExpressionBuilder(session).sequence
        for node, place in self.nodes:
            children = [child.java for child in node.children]
            children[place] = plan
            plan = node.java.withNewChildren(sequence(children))
            if carried and node.kind == "Project":
                columns = [*elements(node.java.projectList()), *carried]
                plan = project(sequence(columns), children[place])
            elif carried and node.kind == "Expand":
                expand = jvm_class(session.sparkContext, f"{_LOGICAL}.Expand")
                rows_made = [sequence([*elements(each), *carried]) for each in elements(node.java.projections())]
                columns = sequence([*elements(node.java.output()), *carried])
                plan = expand(sequence(rows_made), columns, children[place])
        frame = _frame(session, plan, self.tables)
        frame = frame if self.names is None else frame.toDF(*self.names, *self.carried)
        return frame.withColumns(dict(self.added)) if self.added else frame

    def _renamed(self, columns: list[Any], carried: list[Any], session: SparkSession) -> Any:
        sequence = ExpressionBuilder(session).sequence
        return sequence([*_with_ids(columns, self.attributes, session), *carried])


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSegment:
    """A join of an analyzed plan, applied to the rows of both sides, whose columns replace the side's attributes."""

    node: PlanNode
    left: tuple[Expression, ...]
    right: tuple[Expression, ...]
    names: tuple[str, ...]

    def __call__(self, left: DataFrame, right: DataFrame) -> DataFrame:
        session = left.sparkSession
        project = jvm_class(session.sparkContext, f"{_LOGICAL}.Project")
        sequence = ExpressionBuilder(session).sequence
        sides = []
        for rows, attributes in ((left, self.left), (right, self.right)):
            plan = rows._jdf.queryExecution().analyzed()
            sides.append(project(sequence(_with_ids(list(elements(plan.output())), attributes, session)), plan))
        return frame_of_plan(session, self.node.java.withNewChildren(sequence(sides))).toDF(*self.names)


def frame_of_node(session: SparkSession, node: PlanNode, tables: Sequence[PlanNode] = ()) -> DataFrame:
    """Return the rows of a node that reads only tables; `tables` are the common table expressions that it may read."""
    return _frame(session, node.java, tables)


def _frame(session: SparkSession, plan: Any, tables: Sequence[PlanNode]) -> DataFrame:
    if tables:
        read = ExpressionBuilder(session).sequence([each.java for each in tables])
        plan = jvm_class(session.sparkContext, f"{_LOGICAL}.WithCTE")(plan, read)
    return frame_of_plan(session, plan)


def _with_ids(columns: list[Any], attributes: tuple[Expression, ...], session: SparkSession) -> list[Any]:
    """Return columns with the names and ids that a node reads, and with the mark by which Spark merges sessions."""
    nothing, option = ExpressionBuilder(session).sequence([]), jvm_class(session.sparkContext, "scala.Option")
    make = jvm_class(session.sparkContext, "org.apache.spark.sql.catalyst.expressions.Alias")

    def renamed(column: Any, attribute: Expression) -> Any:
        metadata = option.apply(attribute.java.metadata()) if attribute.is_session else option.empty()
        return make(column, attribute.attribute.name, attribute.java.exprId(), nothing, metadata, nothing)

    return list(map(renamed, columns, attributes))
