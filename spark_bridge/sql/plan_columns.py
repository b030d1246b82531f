"""Builds Columns from analyzed expressions, over rows with named columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.spark_bridge.functions.event_time import WINDOW_END, WINDOW_START
from flykka.spark_bridge.program.expressions import ExpressionBuilder, elements

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

    from flykka.spark_bridge.sql.plan_node import Expression

_SKIP_NULLS = frozenset({"Count", "Sum", "Min", "Max", "Average"})
"""Aggregates that ignore a row with a null argument, exactly like a row excluded by a FILTER."""


class PlanColumns:
    """Builds Columns over rows. `names` are the names of the plan's columns, by column id.

    If rows of several sides are joined, a name consists of the side and the column's name in it.
    """

    def __init__(self, session: SparkSession, names: Mapping[int, str | tuple[str, str]]) -> None:
        self._builder = ExpressionBuilder(session)
        self._names = names

    def column(self, expression: Expression, known_columns: Sequence[tuple[Expression, Column]] = ()) -> Column:
        """Return the Column of an expression. Subexpressions in `known_columns` are replaced by their Columns."""
        while expression.kind == "Alias":
            expression = expression.children[0]
        return self._rebuilt(expression.java, known_columns)

    def counts(self, call: Expression) -> Column:
        """Return a Column that is true for the rows that an aggregate of one argument counts."""
        is_there = self.column(call.called.children[0]).isNotNull()
        condition = call.java.filter()
        return is_there & self._rebuilt(condition.get()) if condition.isDefined() else is_there

    def over_marked_rows(self, call: Expression, value: Column, mark: Column) -> Column:
        marked = self._builder.expression(F.when(mark, value))
        function = call.called.java.withNewChildren(self._builder.sequence([marked]))
        return self._builder.column(function.toAggregateExpression())

    def mean(self, call: Expression, total: str, count: str) -> Column:
        return self._builder.mean(call.called.java, total, count)

    def ordering(self, order: Expression) -> Column:
        column = self.column(order.children[0])
        direction, nulls = str(order.java.direction().sql()), str(order.java.nullOrdering().sql())
        ordered: Column = getattr(column, f"{direction}_{nulls.replace(' ', '_')}".lower())()
        return ordered

    def _rebuilt(self, expression: Any, known_columns: Sequence[tuple[Expression, Column]] = ()) -> Column:
        def replace(java: Any) -> Any | None:
            for each, value in known_columns:
                if java.semanticEquals(each.java):
                    return self._builder.expression(value)
            if _kind(java) == "AggregateExpression" and java.filter().isDefined() and not java.isDistinct():
                return self._filtered(java)
            if _kind(java) == "With":
                return self._written_out(java, known_columns)
            return self._named(java)

        return self._builder.column(self._builder.rebuilt(expression, replace))

    def _written_out(self, java: Any, known_columns: Sequence[tuple[Expression, Column]]) -> Any:
        """Inline common expressions, such as the value of BETWEEN, in place of the references to them.

        The references are untyped until Spark resolves the common expressions over the rows, so Spark cannot rebuild
        them.
        """
        named_here = {str(each.id().toString()): each.child() for each in elements(java.defs())}

        def replace(java_node: Any) -> Any | None:
            return named_here[str(java_node.id().toString())] if _kind(java_node) == "CommonExpressionRef" else None

        return self._builder.expression(self._rebuilt(self._builder.rebuilt(java.child(), replace), known_columns))

    def _named(self, java: Any) -> Any | None:
        if _kind(java) != "AttributeReference":
            return None
        name = self._names[int(java.exprId().id())]
        return self._builder.attribute(*((name,) if isinstance(name, str) else name))

    def _filtered(self, aggregate: Any) -> Any | None:
        """Return an aggregate over a CASE that is equal to this aggregate with a FILTER, but can be decomposed."""
        function = aggregate.aggregateFunction()
        arguments = list(elements(function.children()))
        if _kind(function) not in _SKIP_NULLS or len(arguments) != 1:
            return None
        filtered = F.when(self._rebuilt(aggregate.filter().get()), self._rebuilt(arguments[0]))
        return function.withNewChildren(
            self._builder.sequence([self._builder.expression(filtered)])
        ).toAggregateExpression()


def named(name: str) -> Column:
    return F.col(quoted(name))


def named_of(side: str, name: str) -> Column:
    return F.col(f"{side}.{quoted(name)}")


def null_of(type_: DataType) -> Column:
    return F.lit(None).cast(type_)


def struct_of(column: Column) -> Column:
    """Return a struct that contains the column. The struct is never null."""
    return F.struct(column.alias("value"))


def first_of(*columns: Column) -> Column:
    return F.coalesce(*columns)


def window_struct() -> Column:
    """Return the struct of Spark's `window(...)` function, from the bounds of stream windows."""
    return F.struct(F.col(WINDOW_START).alias("start"), F.col(WINDOW_END).alias("end"))


def window_end(name: str, size_ms: int | None) -> Column:
    """Return the end of the window in a column, which has the start instead for windows of a fixed size."""
    column = named(name)
    return column.getField("end") if size_ms is None else F.timestamp_add("MILLISECOND", F.lit(size_ms), column)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstOfWindows:
    """The first rows, by an order, of each window and each combination of `parts` in it; `number` counts from 1."""

    parts: tuple[Column, ...]
    order: tuple[Column, ...]
    limit: int
    number: str

    def __call__(self, rows: DataFrame) -> DataFrame:
        first = Window.partitionBy(WINDOW_START, WINDOW_END, *self.parts).orderBy(*self.order)
        return rows.withColumn(self.number, F.row_number().over(first)).where(F.col(quoted(self.number)) <= self.limit)


def _kind(java: Any) -> str:
    return str(java.getClass().getSimpleName())
