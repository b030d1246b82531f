"""Columns for changing rows: their kinds, and aggregates from which rows can be retracted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, IntegralType, LongType

from flykka.spark_bridge.rows.local_rows import are_local, collected_rows, local_rows
from flykka.spark_bridge.rows.prepared import Prepared, StableColumns
from flykka.spark_bridge.rows.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from flykka.spark_bridge.session.interpretation import are_few
from flykka.spark_bridge.sql.plan_columns import named
from flykka.spark_bridge.worker.parts import EXACT_DIGITS, Overflow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from flykka.spark_bridge.sql.plan_columns import PlanColumns
    from flykka.spark_bridge.sql.plan_node import Expression

_SUMS = frozenset({"Sum", "Average"})


def kind_where(condition: Column, row_kind: str | None) -> Column:
    kind = F.lit(UPDATE_AFTER) if row_kind is None else named(row_kind)
    return F.when(condition, kind).otherwise(F.lit(DELETE))


def weight_of(row_kind: str | None) -> Column:
    return (F.lit(1) if row_kind is None else _sign(row_kind)).cast("bigint")


class WithKinds:
    """Selects columns of weighted rows, and adds the kind of change: a row occurs as often as its weight says."""

    def __init__(self, columns: Sequence[Column], weight: str, kind: str) -> None:
        """Add the column `kind`, and drop the column `weight`."""
        is_added = F.when(named(weight) > 0, F.lit(INSERT)).otherwise(F.lit(DELETE))
        repeated = F.explode(F.array_repeat(is_added, F.abs(named(weight)).cast("int")))
        self._columns = StableColumns()
        self._other_weights = Prepared(lambda rows: rows.where(F.abs(named(weight)) != 1))
        self._once = Prepared(lambda rows: rows.select(*columns, is_added.alias(kind)))
        self._repeated = Prepared(lambda rows: rows.select(*columns, repeated.alias(kind)))

    def __call__(self, rows: DataFrame) -> DataFrame:
        # Without explode, Spark computes few rows in the driver without a job.
        if are_few(rows) and not are_local(rows) and (collected := collected_rows(rows)) is not None:
            rows = self._columns.of(collected.frame)
        others = local_rows(self._other_weights(rows)) if are_few(rows) else None
        return self._repeated(rows) if others is None or others.rows else self._once(rows)


def no_weight() -> Column:
    """Return the weight of a row that does not count."""
    return F.lit(0).cast("bigint")


def no_kind() -> Column:
    """Return the kind of a row that does not count."""
    return F.lit(None).cast("string")


def constant(value: bool) -> Column:
    return F.lit(value)


def counted(condition: Column, value: Column) -> Column:
    return F.when(condition, value)


def number_of_rows(row_kind: str) -> Column:
    return F.sum(F.when(named(row_kind).isNull(), 0).otherwise(_sign(row_kind)))


def kind_of_number(number: str) -> Column:
    """Return the kind of a result over `number` rows: a result over no rows is deleted."""
    return F.when(named(number) > 0, F.lit(UPDATE_AFTER)).otherwise(F.lit(DELETE))


@dataclass(frozen=True, slots=True)
class RetractedCall:
    """An aggregate of changing rows, with the columns of its argument, the count of its values, and their sum."""

    call: Expression
    argument: str
    count: str
    total: str

    @property
    def summand(self) -> Column:
        """The argument. In a sum of integers, it is cast to a type that can hold intermediate sums."""
        value = named(self.argument)
        (argument,) = self.call.called.children[0].column
        if not self._is_sum or not isinstance(argument.dataType, IntegralType):
            return value
        return value.cast(DecimalType(EXACT_DIGITS) if isinstance(argument.dataType, LongType) else LongType())

    def sums(self, row_kind: str) -> list[Column]:
        """Return the count of values, and their sum if the call needs it, minus retracted values."""
        value = named(self.argument)
        sums = [F.sum(F.when(value.isNotNull(), _sign(row_kind)).otherwise(F.lit(0))).alias(self.count)]
        if self._is_sum:
            sums.append(F.sum(F.when(_is_back(row_kind), -value).otherwise(value)).alias(self.total))
        return sums

    def result(self, columns: PlanColumns) -> Column:
        if not self._is_sum:
            return named(self.count)
        if self.call.called.kind == "Average":
            value = columns.mean(self.call, self.total, self.count)
        else:
            value = self._as_integer() if self.call.type_name == "bigint" else named(self.total)
        return F.when(named(self.count) > 0, value).cast(self.call.type_name)

    def _as_integer(self) -> Column:
        """Return the exact sum of integers; if it is too large: null, its low bits, or an error."""
        total = named(self.total)
        match overflow_of(self.call.called):
            case Overflow.NULL:
                return total.try_cast("bigint")
            case Overflow.WRAP:
                return total.cast("bigint")
        fits = total.between(F.lit(-(2**63)), F.lit(2**63 - 1))
        return F.when(fits, total).otherwise(F.raise_error(F.lit(_too_large(self.call.sql, "bigint"))))

    @property
    def _is_sum(self) -> bool:
        return self.call.called.kind in _SUMS


def is_exact_sum(call: Expression) -> bool:
    """Return True if the call counts, sums or averages values that can be retracted exactly.

    The sum of floats depends on the order of values. A decimal sum that is null when too large depends on all values.
    """
    if call.java.isDistinct() or len(call.called.children) != 1:
        return False
    if call.called.kind not in _SUMS:
        return call.called.kind == "Count"
    (argument,) = call.called.children[0].column
    match argument.dataType:
        case DecimalType(precision=digits):
            return digits <= EXACT_DIGITS or overflow_of(call.called) is Overflow.ERROR
        case argument_type:
            return isinstance(argument_type, IntegralType)


def overflow_of(function: Expression) -> Overflow:
    """Return what Spark does if a sum or average exceeds its type; results of other functions always fit."""
    if function.kind not in ("Sum", "Average"):
        return Overflow.ERROR
    java = function.java.evalContext() if function.kind == "Sum" else function.java
    return Overflow(str(java.evalMode().toString()))


def _too_large(sql: str, data_type: object) -> str:
    """Return the error for a sum that exceeds its type, for the call as the user has written it."""
    return (
        f"[ARITHMETIC_OVERFLOW] {sql} is too large for its type, {data_type}: cast its argument to a wider one, or call"
        " try_sum, which is null there"
    )


def _is_back(row_kind: str) -> Column:
    return named(row_kind).isin(UPDATE_BEFORE, DELETE)


def _sign(row_kind: str) -> Column:
    return F.when(_is_back(row_kind), F.lit(-1)).otherwise(F.lit(1))
