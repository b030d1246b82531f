"""The columns of table functions that queries call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import ArrayType, BooleanType, DataType, IntegerType, StringType, StructField, StructType

from flykka.spark_bridge.worker.first_rows import FIRST_ROWS
from flykka.spark_bridge.worker.row_changes import ROW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.spark_bridge.sql.row_kinds import RetractedCall


def first_rows_types(prototype: DataFrame, emitted: Sequence[str], number: str) -> tuple[StructType, StructType]:
    return StructType([StructField(FIRST_ROWS, ArrayType(prototype.schema))]), numbered_type(prototype, emitted, number)


def numbered_type(prototype: DataFrame, emitted: Sequence[str], number: str) -> StructType:
    return StructType([*(prototype.schema[name] for name in emitted), StructField(number, IntegerType())])


def frames_type(prototype: DataFrame, emitted: Sequence[str], types: Mapping[str, str]) -> StructType:
    """Return the output type of `OverChangingRows`: columns of the rows, and those of the functions."""
    columns = StructType([prototype.schema[name] for name in emitted])
    for name, type_name in types.items():
        columns = columns.add(name, DataType.fromDDL(type_name))
    return columns


def marks_type(conditions: Sequence[str]) -> StructType:
    return StructType([StructField(name, BooleanType()) for name in conditions])


def state_row_type(prototype: DataFrame) -> StructType:
    return StructType([StructField(ROW, prototype.schema)])


def lists_type(**schemas: StructType) -> StructType:
    """Return the state type of changing results: lists of rows, by the names of the columns of state."""
    return StructType([StructField(name, ArrayType(schema)) for name, schema in schemas.items()])


def aggregates_type(rows: DataFrame, keys: Sequence[str], calls: Sequence[RetractedCall]) -> StructType:
    return StructType([*(rows.schema[key] for key in keys), *(field for call in calls for field in call.fields(rows))])


def with_kind(schema: StructType, kind: str) -> StructType:
    return StructType([*schema.fields, StructField(kind, StringType())])
