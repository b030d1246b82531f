"""Columns for changing rows: their kinds, and aggregates that support retraction of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, IntegralType, LongType

from flykka.spark_bridge.rows.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from flykka.spark_bridge.sql.plan_columns import named
from flykka.spark_bridge.worker.changing_results import AggregateCall, too_large
from flykka.spark_bridge.worker.parts import EXACT_DIGITS, Overflow, PartFunction

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField

    from flykka.spark_bridge.sql.plan_columns import PlanColumns
    from flykka.spark_bridge.sql.plan_node import Expression

_FUNCTIONS: Mapping[str, PartFunction | None] = {
    "Count": None,
    "Sum": PartFunction.SUM,
    "Average": PartFunction.SUM,
    "Min": PartFunction.MIN,
    "Max": PartFunction.MAX,
}

AGGREGATES = frozenset(_FUNCTIONS)
"""The aggregate functions of changing rows."""


def kind_where(condition: Column, row_kind: str | None) -> Column:
    kind = F.lit(UPDATE_AFTER) if row_kind is None else named(row_kind)
    return F.when(condition, kind).otherwise(F.lit(DELETE))


def kind_of(row_kind: str | None) -> Column:
    return F.lit(INSERT) if row_kind is None else named(row_kind)


def weight_of(row_kind: str | None) -> Column:
    """Return 1 for rows that come, and -1 for rows that go."""
    return (F.lit(1) if row_kind is None else _sign(row_kind)).cast("bigint")


def kind_of_weight(weight: str) -> Column:
    """Return a row for each one that comes or goes, as its weight says, with its kind."""
    kind = F.when(named(weight) > 0, F.lit(INSERT)).otherwise(F.lit(DELETE))
    return F.explode(F.array_repeat(kind, F.abs(named(weight)).cast("int")))


def constant(value: bool) -> Column:
    return F.lit(value)


def counted(condition: Column, value: Column) -> Column:
    """Return the value for rows that satisfy the condition; null for others."""
    return F.when(condition, value)


def number_of_rows(row_kind: str) -> Column:
    """Return the number of current rows: added ones less retracted ones."""
    return F.sum(_sign(row_kind))


def kind_of_number(number: str) -> Column:
    """Return the kind of a result over `number` rows: without rows it is deleted."""
    return F.when(named(number) > 0, F.lit(UPDATE_AFTER)).otherwise(F.lit(DELETE))


@dataclass(frozen=True, slots=True)
class RetractedCall:
    """An aggregate of changing rows, with the columns of its argument, of the count of its values, and of their sum.

    For max and min the extreme value takes the place of the sum.
    """

    call: Expression
    argument: str
    count: str
    total: str

    @property
    def supports_retraction(self) -> bool:
        """False if the result needs all values.

        A sum that is null if it is too large must be exact, and floating-point sums depend on the order.
        """
        if self._function not in (None, PartFunction.SUM) or self.call.java.isDistinct():
            return False
        if self._function is not None and not isinstance(self._argument_type, IntegralType | DecimalType):
            return False
        digits = self._argument_type.precision if isinstance(self._argument_type, DecimalType) else 0
        return digits <= EXACT_DIGITS or overflow_of(self.call.called) is Overflow.ERROR

    @property
    def summand(self) -> Column:
        """The argument; that of a sum of integers is cast to a type that can hold intermediate sums."""
        value = named(self.argument)
        if self._function is not PartFunction.SUM or not isinstance(self._argument_type, IntegralType):
            return value
        return value.cast(DecimalType(EXACT_DIGITS) if isinstance(self._argument_type, LongType) else LongType())

    def sums(self, row_kind: str) -> list[Column]:
        """Return the count of values, and their sum if the call needs it, less the retracted ones."""
        value = named(self.argument)
        sums = [F.sum(F.when(value.isNotNull(), _sign(row_kind)).otherwise(F.lit(0))).alias(self.count)]
        if self._function is not None:
            sums.append(F.sum(F.when(_is_back(row_kind), -value).otherwise(value)).alias(self.total))
        return sums

    @property
    def over_rows(self) -> AggregateCall:
        """The same columns, computed from all values."""
        is_distinct = bool(self.call.java.isDistinct())
        return AggregateCall(
            argument=self.argument,
            is_distinct=is_distinct,
            count=self.count,
            value=self.total,
            function=self._function,
            doubles=self._is_of_doubles,
            overflow=overflow_of(self.call.called),
            sql=self.call.sql,
        )

    def fields(self, arguments: DataFrame) -> list[StructField]:
        """Return the types of these columns, for arguments of such types."""
        value = named(self.argument)
        aggregates = [F.count(value).alias(self.count)]
        if self._function is not None:
            computed: Column = getattr(F, self._function)(value.cast("double") if self._is_of_doubles else value)
            aggregates.append(computed.alias(self.total))
        return arguments.select(*aggregates).schema.fields

    def current_count(self, row_kind: str) -> Column:
        """Return the count of values in a row of results, 0 if the row was retracted."""
        return F.when(_is_back(row_kind), F.lit(0)).otherwise(named(self.count))

    def result(self, columns: PlanColumns) -> Column:
        """The value of the call, of the type that Spark gives it."""
        if self._function is None:
            return named(self.count)
        if self.call.called.kind == "Average":
            value = columns.mean(self.call, self.total, self.count)
        else:
            value = self._as_integer() if self.call.type_name == "bigint" else named(self.total)
        return F.when(named(self.count) > 0, value).cast(self.call.type_name)

    def _as_integer(self) -> Column:
        """The exact sum of integers, or the end of one that is too large."""
        total = named(self.total)
        match overflow_of(self.call.called):
            case Overflow.NULL:
                return total.try_cast("bigint")
            case Overflow.WRAP:
                return total.cast("bigint")
        fits = total.between(F.lit(-(2**63)), F.lit(2**63 - 1))
        return F.when(fits, total).otherwise(F.raise_error(F.lit(too_large(self.call.sql, "bigint"))))

    @property
    def _is_of_doubles(self) -> bool:
        """True for averages whose sum is a double in Spark: all except those of decimals."""
        return self.call.called.kind == "Average" and self.call.type_name == "double"

    @property
    def _argument_type(self) -> DataType:
        (column,) = self.call.called.children[0].column
        return column.dataType

    @property
    def _function(self) -> PartFunction | None:
        return _FUNCTIONS[self.call.called.kind]


def overflow_of(function: Expression) -> Overflow:
    """Return what Spark does with a sum or average that exceeds its type; results of other functions always fit."""
    if function.kind not in ("Sum", "Average"):
        return Overflow.ERROR
    java = function.java.evalContext() if function.kind == "Sum" else function.java
    return Overflow(str(java.evalMode().toString()))


def _is_back(row_kind: str) -> Column:
    return named(row_kind).isin(UPDATE_BEFORE, DELETE)


def _sign(row_kind: str) -> Column:
    return F.when(_is_back(row_kind), F.lit(-1)).otherwise(F.lit(1))
