"""Matches columns of rows with columns of a table, and converts values to texts that PostgreSQL reads.

Rows are copied as CSV, in which Arrow writes numbers, texts and times unchanged. Spark first converts bytes, arrays and
nested values to texts. Values are never truncated or rounded: the user must cast values that do not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
    VariantType,
)

from flykka.actors.machines.state.schema_evolution import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column

    from flykka.spark_bridge.connectors.postgres.tables import Table, TableColumn

_BYTES = {"int2": 2, "int4": 4, "int8": 8}
_BYTES_OF: dict[type[DataType], int] = {ByteType: 1, ShortType: 2, IntegerType: 4, LongType: 8}
_TAKES: dict[type[DataType], frozenset[str]] = {
    FloatType: frozenset({"float4", "float8"}),
    DoubleType: frozenset({"float8"}),
    BooleanType: frozenset({"bool"}),
    DateType: frozenset({"date"}),
    TimestampType: frozenset({"timestamptz", "timestamp"}),
    TimestampNTZType: frozenset({"timestamp"}),
}
_TEXTS = (StringType, VarcharType, CharType)
_NESTED = (StructType, MapType, ArrayType, VariantType)
# Categories of strings, enums, addresses, shapes, bits, ranges and user-defined types, such as uuid and json.
_READ_FROM_TEXT = frozenset("SEIGVRU")
_MADE: dict[type[DataType], str] = {
    ByteType: "smallint",
    ShortType: "smallint",
    IntegerType: "integer",
    LongType: "bigint",
    FloatType: "real",
    DoubleType: "double precision",
    BooleanType: "boolean",
    StringType: "text",
    VarcharType: "text",
    CharType: "text",
    BinaryType: "bytea",
    DateType: "date",
    TimestampType: "timestamptz",
    TimestampNTZType: "timestamp",
    StructType: "jsonb",
    MapType: "jsonb",
    VariantType: "jsonb",
}
_ISO_TIME = "yyyy-MM-dd HH:mm:ss.SSSSSSXXXXX"


class WrittenForm(StrEnum):
    PLAIN = "plain"
    HEX = "hex"
    ARRAY = "array"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenColumn:
    name: str
    form: WrittenForm
    type: str

    def text(self, kind: DataType) -> Column:
        column = named(self.name)
        match self.form:
            case WrittenForm.PLAIN:
                result = column
            case WrittenForm.HEX:
                result = F.concat(F.lit("\\x"), F.hex(column))
            case WrittenForm.JSON:
                result = F.to_json(column, {"ignoreNullFields": "false"})
            case WrittenForm.ARRAY:
                assert isinstance(kind, ArrayType), "the column is not an array"
                elements = F.transform(column, lambda each: _element(each, kind.elementType))
                result = F.concat(F.lit("{"), F.array_join(elements, ","), F.lit("}"))
        return result.alias(self.name)


def named(name: str) -> Column:
    return F.col(quoted(name))


def written_form(kind: DataType, column: TableColumn) -> WrittenForm | None:
    is_plain = False
    match kind:
        case ByteType() | ShortType() | IntegerType() | LongType():
            is_plain = column.base == "numeric" or _BYTES_OF[type(kind)] <= _BYTES.get(column.base, 0)
        case DecimalType():
            declared = column.precision
            is_plain = column.base == "numeric" and (declared is None or declared[1] >= kind.scale)
        case _ if isinstance(kind, _TEXTS):
            is_plain = column.category in _READ_FROM_TEXT and column.base != "bytea"
        case BinaryType():
            return WrittenForm.HEX if column.base == "bytea" else None
        case _ if isinstance(kind, _NESTED) and column.base in ("json", "jsonb"):
            return WrittenForm.JSON
        case ArrayType():
            return (
                WrittenForm.ARRAY
                if column.element is not None and _is_element(kind.elementType, column.element)
                else None
            )
        case _:
            is_plain = column.base in _TAKES.get(type(kind), ())
    return WrittenForm.PLAIN if is_plain else None


def column_type_for(kind: DataType) -> str | None:
    if isinstance(kind, DecimalType):
        return f"numeric({kind.precision},{kind.scale})"
    if isinstance(kind, ArrayType):
        element = column_type_for(kind.elementType)
        return f"{element}[]" if element is not None and _is_simple(kind.elementType) else "jsonb"
    return _MADE.get(type(kind))


def written_columns(
    table: Table, fields: Sequence[StructField], beside: Iterable[str] = ()
) -> tuple[WrittenColumn, ...] | str:
    """Return the columns of the table to which rows are written, or the reason why rows do not fit the table.

    `beside` are columns of the rows that the table need not have.
    """
    columns: list[WrittenColumn] = []
    for field in fields:
        column = table.column(field.name)
        if column is None:
            if field.name in beside:
                continue
            there = ", ".join(each.name for each in table.columns)
            return f"{table} has no column {field.name!r}, which the rows have; its columns are {there}"
        if column.is_generated or column.is_identity:
            return f"{table} generates the values of its column {field.name!r}: leave it out of the rows"
        form = written_form(field.dataType, column)
        if form is None:
            return (
                f"the column {field.name!r} of {table} is of type {column.type} and accepts no"
                f" {field.dataType.simpleString()}: cast it"
            )
        columns.append(WrittenColumn(name=field.name, form=form, type=column.type))
    names = {each.name for each in columns}
    for column in table.columns:
        if column.is_not_null and not (column.has_default or column.is_generated) and column.name not in names:
            return f"the column {column.name!r} of {table} must have a value, but the rows have no such column"
    return tuple(columns) if columns else f"the rows have none of the columns of {table}"


def _is_simple(kind: DataType) -> bool:
    return column_type_for(kind) is not None and not isinstance(kind, (*_NESTED, BinaryType))


def _is_element(kind: DataType, element: str) -> bool:
    if not _is_simple(kind):
        return False
    if isinstance(kind, _TEXTS):
        return element not in _NOT_OF_TEXT
    if isinstance(kind, DecimalType):
        return element == "numeric"
    if type(kind) in _BYTES_OF:
        return element == "numeric" or _BYTES_OF[type(kind)] <= _BYTES.get(element, 0)
    return element in _TAKES.get(type(kind), ())


_NOT_OF_TEXT = frozenset({*_BYTES, *(name for takes in _TAKES.values() for name in takes), "numeric", "bytea"})


def _element(value: Column, kind: DataType) -> Column:
    if isinstance(kind, _TEXTS):
        escaped = F.replace(F.replace(value, F.lit("\\"), F.lit("\\\\")), F.lit('"'), F.lit('\\"'))
        text = F.concat(F.lit('"'), escaped, F.lit('"'))
    elif isinstance(kind, TimestampType):
        text = F.concat(F.lit('"'), F.date_format(value, _ISO_TIME), F.lit('"'))
    elif isinstance(kind, TimestampNTZType):
        text = F.concat(F.lit('"'), value.cast("string"), F.lit('"'))
    else:
        text = value.cast("string")
    return F.coalesce(text, F.lit("NULL"))
