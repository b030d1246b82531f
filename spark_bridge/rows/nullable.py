"""Columns that may hold nulls."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType


def nullable(rows: StructType) -> StructType:
    """The columns, each of which may hold nulls, and all columns in it."""
    return StructType([StructField(field.name, _nullable(field.dataType)) for field in rows])


def _nullable(data_type: DataType) -> DataType:
    match data_type:
        case StructType():
            return nullable(data_type)
        case ArrayType():
            return ArrayType(_nullable(data_type.elementType))
        case MapType():
            return MapType(_nullable(data_type.keyType), _nullable(data_type.valueType))
        case _:
            return data_type
