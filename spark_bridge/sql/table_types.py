"""The columns of table functions that queries call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import ArrayType, BooleanType, IntegerType, StringType, StructField, StructType

from flykka.spark_bridge.worker.first_rows import FIRST_ROWS
from flykka.spark_bridge.worker.row_changes import ROW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def first_rows_types(prototype: DataFrame, emitted: Sequence[str], number: str) -> tuple[StructType, StructType]:
    return StructType([StructField(FIRST_ROWS, ArrayType(prototype.schema))]), numbered_type(prototype, emitted, number)


def numbered_type(prototype: DataFrame, emitted: Sequence[str], number: str) -> StructType:
    return StructType([*(prototype.schema[name] for name in emitted), StructField(number, IntegerType())])


def marks_type(conditions: Sequence[str]) -> StructType:
    return StructType([StructField(name, BooleanType()) for name in conditions])


def state_row_type(prototype: DataFrame) -> StructType:
    return StructType([StructField(ROW, prototype.schema)])


def with_kind(schema: StructType, kind: str) -> StructType:
    return StructType([*schema.fields, StructField(kind, StringType())])
