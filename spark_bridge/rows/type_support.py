"""The types of columns that each use of rows takes: one table of those that it refuses, at any depth.

What a job would fail at is known where the program is written. Types of files beyond this table are asked of Spark, and
those of Delta, PostgreSQL and Iceberg tables of the table. docs/types.md has all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    DayTimeIntervalType,
    GeographyType,
    GeometryType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimeType,
    UserDefinedType,
    VariantType,
    YearMonthIntervalType,
)


class Use(StrEnum):
    """The uses of rows, as an error tells them."""

    STREAM = "rows of a stream"
    PYTHON = "functions of Python and rows that are kept"
    KEY = "keys"
    ORDER = "running minima and maxima"
    WINDOW = "functions of windows, whose rows are state,"
    ORC = "orc files"
    AVRO = "avro files"
    FOLDER = "names of folders"


class Collated(StringType):
    """Stands for texts with a collation."""


class NestedVoid(NullType):
    """Stands for parts of a column that have no values."""


_OF_BYTES = (VariantType, GeometryType, GeographyType)
_REFUSED: Mapping[Use, tuple[type[DataType], ...]] = {
    Use.STREAM: (CalendarIntervalType, TimeType),
    Use.PYTHON: (YearMonthIntervalType, NestedVoid),
    Use.KEY: (YearMonthIntervalType, NullType, Collated, *_OF_BYTES),
    Use.ORDER: (YearMonthIntervalType, NullType, Collated, ArrayType, StructType, UserDefinedType, *_OF_BYTES),
    Use.WINDOW: (
        *(YearMonthIntervalType, DayTimeIntervalType, NullType, Collated, UserDefinedType),
        *_OF_BYTES,
    ),
    Use.ORC: (Collated,),
    Use.AVRO: (Collated,),
    Use.FOLDER: (ArrayType, MapType, StructType, UserDefinedType, NullType, *_OF_BYTES),
}


def misfit(columns: StructType, use: Use) -> str | None:
    """Tell which column has a type that is not taken, and what to do; None where all are."""
    for column in columns:
        for part in parts_of(column.dataType):
            kind = _kind(part, is_nested=part is not column.dataType)
            if issubclass(kind, _REFUSED[use]):
                return (
                    f"{column.name!r} is of the type {column.dataType.simpleString()}, which {use} do not take:"
                    f" {_instead(kind, column.name)}"
                )
    return None


def has_collation(data_type: DataType) -> bool:
    """Tell whether texts of a type are compared by other than their bytes."""
    return any(map(_is_collated, parts_of(data_type)))


def parts_of(data_type: DataType) -> Iterator[DataType]:
    """A type, and all that it consists of."""
    yield data_type
    match data_type:
        case StructType():
            for field in data_type:
                yield from parts_of(field.dataType)
        case ArrayType():
            yield from parts_of(data_type.elementType)
        case MapType():
            yield from parts_of(data_type.keyType)
            yield from parts_of(data_type.valueType)


def _kind(part: DataType, *, is_nested: bool) -> type[DataType]:
    if is_nested and isinstance(part, NullType):
        return NestedVoid
    return Collated if _is_collated(part) else type(part)


def _is_collated(data_type: DataType) -> bool:
    return isinstance(data_type, StringType) and data_type.collation != "UTF8_BINARY"


def _instead(kind: type[DataType], name: str) -> str:
    if issubclass(kind, Collated):
        return f"give a column without a collation, such as lower(collate({name}, 'UTF8_BINARY'))"
    if issubclass(kind, VariantType):
        return f"take what is needed of it, as in variant_get({name}, '$.id', 'bigint'), or its text, to_json({name})"
    if issubclass(kind, (GeometryType, GeographyType)):
        return f"take its bytes, st_asbinary({name})"
    if issubclass(kind, NullType):
        return f"give it the type that it is meant to have, as in CAST({name} AS string)"
    if issubclass(kind, (ArrayType, MapType, StructType, UserDefinedType)):
        return "take a part of it"
    return f"cast it, as in CAST({name} AS string), or EXTRACT numbers from it"
