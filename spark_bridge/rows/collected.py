"""Rows that were collected, with values as functions see them: structs are dicts, and times are in UTC.

PySpark gives times without a zone, in that of the driver's system.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def collected(rows: DataFrame) -> list[dict[str, Any]]:
    schema = rows.schema
    return [_struct(row, schema) for row in rows.collect()]


def _value(value: Any, data_type: DataType) -> Any:
    match value, data_type:
        case datetime(), TimestampType():
            return value.astimezone(UTC)
        case list(), ArrayType(elementType=element):
            return [_value(each, element) for each in value]
        case Mapping(), MapType(keyType=key, valueType=held):
            return {_value(each, key): _value(value[each], held) for each in value}
        case tuple(), StructType():
            return _struct(value, data_type)
    return value


def _struct(row: Sequence[Any], data_type: StructType) -> dict[str, Any]:
    return {field.name: _value(value, field.dataType) for field, value in zip(data_type, row, strict=True)}
