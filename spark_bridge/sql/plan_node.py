"""Nodes of Spark's analyzed plans, and their expressions, for the planner."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from py4j.java_gateway import get_field
from pyspark.sql.types import StructField, StructType, _parse_datatype_json_string

from flykka.spark_bridge.program.across_rows import join_type
from flykka.spark_bridge.program.expressions import elements
from flykka.spark_bridge.session.jvm_classes import is_instance


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A position in a text: line and column, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """A column of a plan. Two columns with the same name have different ids."""

    id: int
    name: str


_OTHER_NAME = "org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable"
COMPUTED = -1
"""The id of computed expressions. Spark's ids begin with 0."""

_STORING = ("AssertNotNull", "KnownNotNull", "CheckOverflowInTableInsert")
_WHOLE_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint"})


_GENERATED = re.compile(r"`?__auto_generated_subquery_name`?\.")


def without_generated_names(text: str) -> str:
    return _GENERATED.sub("", text)


class _Node:
    def __init__(self, java: Any, position: Position | None = None) -> None:
        """A node that replaces another node of the text has the position of that node."""
        self.java = java
        self._position = position

    @cached_property
    def kind(self) -> str:
        return str(self.java.getClass().getSimpleName()).removesuffix("$")

    @cached_property
    def position(self) -> Position | None:
        return self._position or position_of(self.java.origin())


class Expression(_Node):
    @cached_property
    def children(self) -> tuple[Expression, ...]:
        return expressions(self.java.children())

    @property
    def sql(self) -> str:
        return without_generated_names(str(self.java.sql()))

    @property
    def display_name(self) -> str:
        return self.attribute.name if self.kind == "AttributeReference" else self.sql

    @cached_property
    def attribute(self) -> Attribute:
        return Attribute(id=int(self.java.exprId().id()), name=str(self.java.name()))

    @property
    def name_parts(self) -> tuple[str, ...]:
        """The parts of the name of an unresolved column, in lower case; empty for other expressions."""
        is_column = self.kind == "UnresolvedAttribute"
        return tuple(str(part).lower() for part in elements(self.java.nameParts())) if is_column else ()

    @cached_property
    def column_id(self) -> int:
        """The id of the column to which the expression refers, possibly with an alias; else `COMPUTED`."""
        expression = self
        while expression.kind == "Alias":
            expression = expression.children[0]
        return expression.attribute.id if expression.kind == "AttributeReference" else COMPUTED

    @cached_property
    def stored_column_id(self) -> int:
        """The id of the column that the expression casts injectively; `COMPUTED` if it is not such a cast."""
        expression = self
        while expression.kind in _STORING or (
            expression.kind == "Cast" and _keeps_apart(expression.children[0].type_name, expression.type_name)
        ):
            expression = expression.children[0]
        return COMPUTED if expression is self else expression.column_id

    @property
    def marks(self) -> str:
        return str(self.java.metadata().json()) if self.kind == "AttributeReference" else ""

    @property
    def is_session(self) -> bool:
        """True for the column of session windows, which Spark merges when it groups by them."""
        return "spark.sessionWindow" in self.marks

    def walk(self) -> Iterator[Expression]:
        yield self
        for child in self.children:
            yield from child.walk()

    def conjuncts(self) -> Iterator[Expression]:
        if self.kind == "And":
            for child in self.children:
                yield from child.conjuncts()
        else:
            yield self

    def equals(self, other: Expression) -> bool:
        return bool(self.java.semanticEquals(other.java))

    @cached_property
    def called(self) -> Expression:
        return Expression(self.java.aggregateFunction())

    @property
    def replacement(self) -> Expression | None:
        """The function by which Spark computes an aggregate function that is just an alias; None for others."""
        return Expression(self.java.replacement()) if is_instance(self.java, _OTHER_NAME) else None

    @cached_property
    def columns(self) -> frozenset[int]:
        return frozenset(each.attribute.id for each in expressions(self.java.references().toSeq()))

    @property
    def between(self) -> tuple[Expression, Expression, Expression]:
        value, lower, upper = expressions(self.java.parameters())
        return value, lower, upper

    @property
    def is_time_cast(self) -> bool:
        """True for a cast that does not change times and intervals."""
        return self.type_name.split()[0] == self.children[0].type_name.split()[0]

    @property
    def field(self) -> str:
        return str(self.java.extractFieldName())

    @property
    def column(self) -> StructType:
        return StructType([StructField(self.sql, _parse_datatype_json_string(str(self.java.dataType().json())))])

    @cached_property
    def type_name(self) -> str:
        return str(self.java.dataType().simpleString())

    @property
    def is_of_months(self) -> bool:
        """True for an interval of months or years, whose length varies."""
        return self.type_name.startswith(("interval month", "interval year"))

    @property
    def is_constant(self) -> bool:
        return bool(self.java.foldable())

    @property
    def interval(self) -> tuple[int, int, int]:
        months, days, micros = (int(get_field(self.value, name)) for name in ("months", "days", "microseconds"))
        return months, days, micros

    @property
    def value(self) -> Any:
        """The value of a constant, in Catalyst's representation."""
        return self.java.eval(None)


_BY_PLACE = frozenset({"Union", "Distinct", "CTERelationDef"})
"""Nodes that use all columns of their input by position."""

_COMPUTE_WINDOWS = frozenset({"Project", "Filter", "Expand"})
"""Nodes between an aggregate and its input in which Spark's analyzer computes windows."""


class PlanNode(_Node):
    """A node of an analyzed plan, which computes rows from the rows of its children."""

    @cached_property
    def children(self) -> tuple[PlanNode, ...]:
        return tuple(PlanNode(child) for child in elements(self.java.children()))

    @cached_property
    def inner_children(self) -> tuple[PlanNode, ...]:
        """Plans inside this node that are not children: subqueries, and common table expressions before analysis."""
        return tuple(PlanNode(each) for each in elements(self.java.innerChildren()))

    @cached_property
    def output(self) -> tuple[Attribute, ...]:
        return tuple(each.attribute for each in expressions(self.java.output()))

    def columns_named(self, parts: Sequence[str]) -> tuple[Attribute, ...]:
        """Return the node's columns to which a qualified or unqualified name may refer, ignoring case."""
        *qualifier, name = (part.lower() for part in parts)
        columns = []
        for each in elements(self.java.output()):
            column_qualifier = [str(part).lower() for part in elements(each.qualifier())]
            if str(each.name()).lower() == name and (not qualifier or column_qualifier[-len(qualifier) :] == qualifier):
                columns.append(Expression(each).attribute)
        return tuple(columns)

    @cached_property
    def expressions(self) -> tuple[Expression, ...]:
        return expressions(self.java.expressions())

    @cached_property
    def subqueries(self) -> tuple[PlanNode, ...]:
        return tuple(PlanNode(each) for each in elements(self.java.subqueries()))

    def part(self, name: str) -> tuple[Expression, ...]:
        """Return the node's expressions in the field `name` of its class, such as `groupingExpressions`."""
        return expressions(getattr(self.java, name)())

    @property
    def join_type(self) -> str:
        return join_type(self.java)

    @property
    def condition(self) -> Expression | None:
        condition = self.java.condition()
        return Expression(condition.get()) if condition.isDefined() else None

    @property
    def first_projection(self) -> tuple[Expression, ...]:
        """The expressions of the first row that an Expand creates from each row."""
        return expressions(self.java.projections().head())

    @cached_property
    def columns_read(self) -> frozenset[int]:
        """The ids of the columns that the node reads; for an aggregate, also the columns that its windows need."""
        if self.kind in _BY_PLACE:
            return frozenset(each.id for child in self.children for each in child.output)
        ids = {int(each.exprId().id()) for each in elements(self.java.references().toSeq())}
        (node, *_) = self.children or (self,)
        while self.kind == "Aggregate" and node.kind in _COMPUTE_WINDOWS:
            ids |= node.columns_read
            (node,) = node.children
        return frozenset(ids)

    @cached_property
    def reads_common_tables(self) -> bool:
        return self.kind == "CTERelationRef" or any(
            each.reads_common_tables for each in (*self.children, *self.subqueries)
        )

    @cached_property
    def view_name(self) -> str | None:
        return str(self.java.desc().identifier().table()) if self.kind == "View" else None


def expressions(sequence: Any) -> tuple[Expression, ...]:
    return tuple(Expression(each) for each in elements(sequence))


def _keeps_apart(stored: str, as_type: str) -> bool:
    """Return True if a store assignment's cast between these types is injective, or fails."""
    return stored in _WHOLE_NUMBERS and (as_type in _WHOLE_NUMBERS or as_type == "string")


def position_of(origin: Any) -> Position | None:
    line, start = origin.line(), origin.startPosition()
    if not line.isDefined() or not start.isDefined():
        return None
    return Position(line=int(line.get()), column=int(start.get()) + 1)


class SqlTextError(ValueError):
    """Spark cannot parse or analyze a text. `condition` is Spark's name for the error."""

    def __init__(self, text: str, position: Position | None, condition: str = "") -> None:
        super().__init__(text)
        self.position = position
        self.condition = condition
