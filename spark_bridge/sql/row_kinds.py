"""Columns of rows that change: their kinds, and sums of which a row that no longer holds is taken back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from flykka.spark_bridge.rows.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from flykka.spark_bridge.sql.plan_columns import named

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

    from flykka.spark_bridge.sql.plan_node import Expression


def kind_where(condition: Column, row_kind: str | None) -> Column:
    """The kind of rows for which a condition is true; `-D` where it is not."""
    known = F.lit(UPDATE_AFTER) if row_kind is None else named(row_kind)
    return F.when(condition, known).otherwise(F.lit(DELETE))


def kind_of(row_kind: str | None) -> Column:
    """The kind of rows: that of their column, or where they have none, `+I`."""
    return F.lit(INSERT) if row_kind is None else named(row_kind)


def null_of(data_type: DataType) -> Column:
    """A null of a type."""
    return F.lit(None).cast(data_type)


def constant(value: bool) -> Column:
    """The value, for every row."""
    return F.lit(value)


def counted(condition: Column, value: Column) -> Column:
    """The value, of the rows for which the condition is true; null for others."""
    return F.when(condition, value)


def number_of_rows(row_kind: str) -> Column:
    """The number of rows that hold: those that were added, less those that were taken back."""
    return F.sum(_sign(row_kind))


def kind_of_number(number: str) -> Column:
    """The kind of the result of so many rows: without any it is deleted."""
    return F.when(named(number) > 0, F.lit(UPDATE_AFTER)).otherwise(F.lit(DELETE))


@dataclass(frozen=True, slots=True)
class RetractedCall:
    """A count, sum or average of changing rows, with the columns of its argument, and of its values' number and sum."""

    call: Expression
    argument: str
    count: str
    total: str

    def sums(self, row_kind: str) -> list[Column]:
        """The number of values, and where the call asks for it their sum."""
        value = named(self.argument)
        sums = [F.sum(F.when(value.isNotNull(), _sign(row_kind)).otherwise(F.lit(0))).alias(self.count)]
        if self.call.called.kind != "Count":
            sums.append(F.sum(F.when(_is_back(row_kind), -value).otherwise(value)).alias(self.total))
        return sums

    @property
    def result(self) -> Column:
        """The value of the call, of the type that Spark gives it."""
        count, total = named(self.count), named(self.total)
        if self.call.called.kind == "Count":
            return count
        value = total if self.call.called.kind == "Sum" else total / count
        return F.when(count > 0, value).cast(self.call.type_name)


def _is_back(row_kind: str) -> Column:
    return named(row_kind).isin(UPDATE_BEFORE, DELETE)


def _sign(row_kind: str) -> Column:
    return F.when(_is_back(row_kind), F.lit(-1)).otherwise(F.lit(1))
