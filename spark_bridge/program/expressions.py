"""Spark's analyzed expressions, read and rebuilt through the JVM.

A resolved expression belongs to the plan in which it was resolved. To use a subexpression elsewhere, it is rebuilt with
its attributes replaced by names. Casts, evaluation modes and result types that the analyzer has chosen stay unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import DataType, DecimalType, DoubleType, LongType, _parse_datatype_json_string

from flykka.spark_bridge.program.stored_columns import PART_PREFIX
from flykka.spark_bridge.rows.type_support import has_collation
from flykka.spark_bridge.session.jvm_classes import jvm_class, scala_sequence
from flykka.spark_bridge.worker.parts import EXACT_DIGITS, PartFunction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CATALYST = "org.apache.spark.sql.catalyst"
_EXPRESSIONS = "org.apache.spark.sql.classic.ExpressionUtils"

_SUBQUERIES = ("ScalarSubquery", "Exists", "ListQuery", "InSubquery")


_MERGING = {PartFunction.SUM: F.sum, PartFunction.MIN: F.min, PartFunction.MAX: F.max}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A column of state: its value for one row, the aggregate over rows, and the function that merges two values.

    `label`, such as `sum(amount)`, is the same in every run of a program and identifies stored parts. If a sum `wraps`,
    only the low bits of a sum that exceeds its type are kept.
    """

    name: str
    label: str
    of_row: Column
    of_rows: Column
    function: PartFunction
    data_type: DataType
    wraps: bool = False

    def merged(self) -> Column:
        """Return the aggregate that merges parts. Merged decimal sums keep their type instead of gaining digits."""
        return _MERGING[self.function](F.col(self.name)).cast(self.data_type).alias(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decomposition:
    parts: tuple[Part, ...]
    results: tuple[Column, ...]


def columns_read(rows: DataFrame) -> tuple[str, ...]:
    return _names(elements(rows._jdf.queryExecution().analyzed().references().toSeq()))


def columns_read_of_sides(joined: DataFrame) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the columns of the left and the right side that a join and the selections above it read.

    None if there are other operations above the join.
    """
    plan = joined._jdf.queryExecution().analyzed()
    read: list[Any] = []
    while plan.nodeName() == "Project":
        read.append(plan.references())
        plan = plan.child()
    if not plan.nodeName().startswith("Join"):
        return None
    read.append(plan.references())
    attributes = [attribute for references in read for attribute in elements(references.toSeq())]
    left, right = (
        {int(each.exprId().id()) for each in elements(side.output())} for side in (plan.left(), plan.right())
    )
    return _names(attributes, left), _names(attributes, right)


def _names(attributes: Iterable[Any], of: set[int] | None = None) -> tuple[str, ...]:
    expressions = (each for each in attributes if of is None or int(each.exprId().id()) in of)
    return tuple(dict.fromkeys(str(each.name()) for each in expressions))


class _NotDecomposableError(Exception):
    pass


class ExpressionBuilder:
    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext

    def rebuilt(self, expression: Any, replace: Callable[[Any], Any | None]) -> Any:
        """Return an expression in which `replace` has replaced subexpressions. Replacements are not searched."""
        replaced = replace(expression)
        if replaced is not None:
            return replaced
        children = list(elements(expression.children()))
        if not children:
            return expression
        return expression.withNewChildren(self.sequence([self.rebuilt(child, replace) for child in children]))

    def sequence(self, items: Sequence[Any]) -> Any:
        return scala_sequence(self._context, items)

    def attribute(self, *name: str) -> Any:
        return jvm_class(self._context, f"{_CATALYST}.analysis.UnresolvedAttribute")(self.sequence(name))

    def expression(self, column: Column) -> Any:
        return jvm_class(self._context, _EXPRESSIONS).expression(column._jc)

    def column(self, expression: Any) -> Column:
        return ClassicColumn(jvm_class(self._context, _EXPRESSIONS).column(expression))

    def mean(self, average: Any, total: str, count: str) -> Column:
        buffers = elements(average.aggBufferAttributes())
        names = {int(buffer.exprId().id()): name for buffer, name in zip(buffers, (total, count), strict=True)}

        def replace(expression: Any) -> Any | None:
            if _kind(expression) != "AttributeReference":
                return None
            return self.attribute(names[int(expression.exprId().id())])

        return self.column(self.rebuilt(average.evaluateExpression(), replace))


class Aggregation:
    def __init__(self, prototype: DataFrame, plan: Any, keys: int) -> None:
        self._builder = ExpressionBuilder(prototype.sparkSession)
        expressions = list(elements(plan.aggregateExpressions()))
        self._keys, self._aggregates = expressions[:keys], expressions[keys:]
        self._parts: dict[str, Part] = {}

    @classmethod
    def analyze(cls, prototype: DataFrame, keys: Sequence[Column | str], aggregates: Sequence[Column]) -> Aggregation:
        grouped = prototype.groupBy(*keys).agg(*aggregates)
        return cls(prototype, grouped._jdf.queryExecution().analyzed(), len(keys))

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(str(key.name()) for key in self._keys)

    @property
    def key_types(self) -> tuple[DataType, ...]:
        return tuple(_type(key) for key in self._keys)

    def required_columns(self) -> tuple[str, ...]:
        names: dict[str, None] = {}
        for expression in (*self._keys, *self._aggregates):
            for attribute in elements(expression.references().toSeq()):
                names.setdefault(str(attribute.name()))
        return tuple(names)

    def decompose(self, key_name: Callable[[int], str], row_count: str) -> Decomposition | None:
        """Split the aggregates into parts and results; None if they must be computed from all rows at once.

        Results refer to the key at index i as `key_name(i)`, and to the row count as `row_count`.
        """
        self._row_count = row_count
        # A result expression may contain a key column next to aggregates.
        places = {
            int(key.exprId().id()): key_name(place)
            for place, key in enumerate(self._keys)
            if _kind(key) == "AttributeReference"
        }
        try:
            results = tuple(self._result(aggregate, places) for aggregate in self._aggregates)
        except _NotDecomposableError:
            return None
        return Decomposition(parts=tuple(self._parts.values()), results=results)

    def _result(self, aggregate: Any, key_places: dict[int, str]) -> Column:
        def replace(expression: Any) -> Any | None:
            match _kind(expression):
                case "AggregateExpression":
                    return self._builder.expression(self._evaluated(expression))
                case "AttributeReference":
                    place = key_places.get(int(expression.exprId().id()))
                    if place is None:
                        raise _NotDecomposableError
                    return self._builder.attribute(place)
                case kind if kind in _SUBQUERIES:
                    raise _NotDecomposableError
                case _:
                    return None

        value = aggregate.child() if _kind(aggregate) == "Alias" else aggregate
        return self._builder.column(self._builder.rebuilt(value, replace)).alias(str(aggregate.name()))

    def _evaluated(self, aggregate: Any) -> Column:
        """Return an aggregate function as an expression over its parts, and add these parts."""
        if aggregate.isDistinct() or aggregate.filter().isDefined():
            raise _NotDecomposableError
        function = aggregate.aggregateFunction()
        match _kind(function):
            case "Count" if _counts_rows(function):
                return F.col(self._row_count)
            case "Count":
                return self._own_part(function, PartFunction.SUM)
            case "Min" if not has_collation(_type(function)):
                return self._own_part(function, PartFunction.MIN)
            case "Max" if not has_collation(_type(function)):
                return self._own_part(function, PartFunction.MAX)
            case "Sum" if _can_be_parted(function, mode := str(function.evalContext().evalMode().toString())):
                wraps = mode == "LEGACY" and isinstance(_type(function), LongType)
                return self._own_part(function, PartFunction.SUM, wraps=wraps)
            case "Average" if _can_be_parted(function, str(function.evalMode().toString())):
                return self._average(function)
            case _:
                raise _NotDecomposableError

    def _average(self, average: Any) -> Column:
        sum_type = _type(next(elements(average.aggBufferAttributes())))
        if not isinstance(sum_type, DoubleType | DecimalType):
            raise _NotDecomposableError
        values = self._builder.column(self._over_rows(average.child()))
        text, summand = str(average.child().sql()), _summand(sum_type)
        as_summand = f"sum(CAST({text} AS {summand.simpleString().upper()}))"
        total = self._part(as_summand, values, F.sum(values.cast(summand)), PartFunction.SUM, sum_type)
        count = self._part(f"count({text})", _counted([values]), F.count(values), PartFunction.SUM, LongType())
        return self._builder.mean(average, total, count)

    def _own_part(self, function: Any, merge: PartFunction, *, wraps: bool = False) -> Column:
        of_rows = self._builder.column(self._over_rows(function).toAggregateExpression())
        children = list(elements(function.children()))
        arguments = ", ".join(str(child.sql()) for child in children)
        values = [self._builder.column(self._over_rows(child)) for child in children]
        of_row = _counted(values) if _kind(function) == "Count" else values[0]
        label = f"{_kind(function).lower()}({arguments})"
        return F.col(self._part(label, of_row, of_rows, merge, _type(function), wraps=wraps))

    def _part(
        self,
        label: str,
        of_row: Column,
        of_rows: Column,
        merge: PartFunction,
        data_type: DataType,
        *,
        wraps: bool = False,
    ) -> str:
        if label not in self._parts:
            name = f"{PART_PREFIX}{len(self._parts)}"
            self._parts[label] = Part(
                name=name,
                label=label,
                of_row=of_row.cast(data_type).alias(name),
                of_rows=of_rows.alias(name),
                function=merge,
                data_type=data_type,
                wraps=wraps,
            )
        return self._parts[label].name

    def _over_rows(self, expression: Any) -> Any:
        def replace(expressions: Any) -> Any | None:
            if _kind(expressions) == "AttributeReference":
                return self._builder.attribute(str(expressions.name()))
            return None

        return self._builder.rebuilt(expression, replace)


def _can_be_parted(function: Any, mode: str) -> bool:
    """Return True if a sum of sums fails, wraps or becomes null in the same cases as the sum of the rows."""
    argument = _type(function.child())
    if isinstance(argument, DecimalType):
        return mode == "ANSI" or argument.precision <= EXACT_DIGITS
    return mode in ("ANSI", "LEGACY")


def _counted(values: Sequence[Column]) -> Column:
    return F.when(reduce(and_, (value.isNotNull() for value in values)), 1).otherwise(0)


def _summand(sum_type: DoubleType | DecimalType) -> DataType:
    """Return the type whose sums have the type `sum_type`: Spark adds ten digits to a decimal, up to the maximum."""
    if isinstance(sum_type, DoubleType):
        return sum_type
    return DecimalType(max(1, sum_type.precision - 10), sum_type.scale)


def _counts_rows(count: Any) -> bool:
    return all(_kind(child) == "Literal" and child.value() is not None for child in elements(count.children()))


def elements(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(place) for place in range(sequence.length()))


def _kind(expression: Any) -> str:
    return str(expression.getClass().getSimpleName())


def _type(expression: Any) -> DataType:
    return _parse_datatype_json_string(str(expression.dataType().json()))
