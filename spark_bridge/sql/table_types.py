"""The columns of functions of tables that queries call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import ArrayType, BooleanType, IntegerType, StructField, StructType

from flykka.spark_bridge.worker.first_rows import FIRST_ROWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def first_rows_types(prototype: DataFrame, emitted: Sequence[str], number: str) -> tuple[StructType, StructType]:
    """The state and the output of `FirstRows` for rows like the prototype."""
    schema = prototype.schema
    output = [*(schema[name] for name in emitted), StructField(number, IntegerType())]
    return StructType([StructField(FIRST_ROWS, ArrayType(schema))]), StructType(output)


def marks_type(conditions: Sequence[str]) -> StructType:
    """The state of `FirstOfValues`."""
    return StructType([StructField(name, BooleanType()) for name in conditions])
