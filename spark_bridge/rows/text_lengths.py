"""Columns of CHAR(n) and VARCHAR(n), which Spark has as strings: the length is looked at where a table is written."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, CharType, DataType, MapType, StringType, StructField, StructType, VarcharType

_DECLARED_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
"""Spark's key in the metadata of a column."""


def without_lengths(columns: StructType) -> StructType:
    """The columns with strings in place of CHAR(n) and VARCHAR(n), at any depth."""
    return StructType([StructField(each.name, _as_strings(each.dataType), each.nullable) for each in columns])


def with_lengths_noted(columns: StructType) -> StructType:
    """The same, with the declared types where Spark's store assignment looks for them."""
    strings = without_lengths(columns)
    for declared, column in zip(columns, strings, strict=True):
        if declared.dataType != column.dataType:
            column.metadata = {_DECLARED_TYPE: declared.dataType.simpleString()}
    return strings


def _as_strings(data_type: DataType) -> DataType:
    match data_type:
        case CharType() | VarcharType():
            return StringType()
        case StructType():
            return without_lengths(data_type)
        case ArrayType():
            return ArrayType(_as_strings(data_type.elementType), data_type.containsNull)
        case MapType():
            return MapType(
                _as_strings(data_type.keyType), _as_strings(data_type.valueType), data_type.valueContainsNull
            )
    return data_type
