"""The column types that each use of rows supports, as one table of the unsupported types, at any depth.

Type errors of a job are reported when the program is built. Types that are not in this table are checked only by
Spark's file formats and the Delta, PostgreSQL or Iceberg tables themselves. docs/types.md lists all types. Spark
represents CHAR(n) and VARCHAR(n) as strings: their length is checked when a table is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    CalendarIntervalType,
    CharType,
    DataType,
    DayTimeIntervalType,
    GeographyType,
    GeometryType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimeType,
    UserDefinedType,
    VarcharType,
    VariantType,
    YearMonthIntervalType,
)


class Use(StrEnum):
    """The uses of rows, by their names in error messages."""

    STREAM = "rows of a stream"
    PYTHON = "functions of Python and rows that are kept"
    GROUPS = "groups of two streams and broadcast variables"
    PREVIEW = "previews"
    KEY = "keys"
    ORDER = "running minima and maxima"
    WINDOW = "functions of windows, whose rows are state,"
    ORC = "orc files"
    AVRO = "avro files"
    AVRO_READ = "avro files that are read"
    CSV = "csv files that are written"
    JSON = "json files that are read"
    STORE = "files that are read with storage_options(...)"
    FOLDER = "names of folders"


class Collated(StringType):
    """Represents strings with a collation."""


class NoVoid(NullType):
    """Represents non-nullable fields of the type VOID, which can have no value."""


class Empty(StructType):
    """Represents structs without fields."""


class OddKeys(MapType):
    """Represents maps whose keys are not strings."""


_OF_BYTES = (VariantType, GeometryType, GeographyType)
_INTERVALS = (YearMonthIntervalType, DayTimeIntervalType)
_NESTED = (ArrayType, MapType, StructType, UserDefinedType)
_REFUSED: Mapping[Use, tuple[type[DataType], ...]] = {
    Use.STREAM: (CalendarIntervalType, TimeType, Empty),
    Use.PYTHON: (YearMonthIntervalType, NoVoid),
    Use.GROUPS: (YearMonthIntervalType, NoVoid, UserDefinedType, *_OF_BYTES),
    Use.PREVIEW: (YearMonthIntervalType, NoVoid, *_OF_BYTES),
    Use.KEY: (YearMonthIntervalType, NullType, Collated, *_OF_BYTES),
    Use.ORDER: (YearMonthIntervalType, NullType, Collated, *_NESTED, *_OF_BYTES),
    Use.WINDOW: (*_INTERVALS, NullType, Collated, UserDefinedType, *_OF_BYTES),
    Use.ORC: (Collated,),
    Use.AVRO: (Collated, OddKeys, UserDefinedType),
    Use.AVRO_READ: (ByteType, ShortType),
    Use.CSV: (BinaryType,),
    Use.JSON: (OddKeys,),
    Use.STORE: (*_INTERVALS, NullType, Collated, UserDefinedType, *_OF_BYTES),
    Use.FOLDER: (BinaryType, NullType, Collated, *_NESTED, *_OF_BYTES),
}


def unsupported_type(columns: StructType, use: Use) -> str | None:
    """Return the first column with an unsupported type and the remedy, as text; None if all types are supported."""
    for column in columns:
        for part in parts_of(column.dataType):
            kind = _kind(part)
            if issubclass(kind, _REFUSED[use]):
                return (
                    f"{column.name!r} is of the type {column.dataType.simpleString()}, which {use} do not support:"
                    f" {_instead(kind, column.name)}"
                )
    return None


def has_collation(data_type: DataType) -> bool:
    """Return True if values of the type contain strings that are not compared by their bytes."""
    return any(map(_is_collated, parts_of(data_type)))


def parts_of(data_type: DataType) -> Iterator[DataType]:
    yield data_type
    match data_type:
        case StructType():
            for field in data_type:
                yield from _parts(field.dataType, field.nullable)
        case ArrayType():
            yield from _parts(data_type.elementType, data_type.containsNull)
        case MapType():
            yield from _parts(data_type.keyType, False)
            yield from _parts(data_type.valueType, data_type.valueContainsNull)


def _parts(data_type: DataType, may_be_null: bool) -> Iterator[DataType]:
    yield from [NoVoid()] if isinstance(data_type, NullType) and not may_be_null else parts_of(data_type)


def _kind(part: DataType) -> type[DataType]:
    match part:
        case StringType() if _is_collated(part):
            return Collated
        case StructType(fields=[]):
            return Empty
        case MapType() if not isinstance(part.keyType, StringType):
            return OddKeys
    return type(part)


def _is_collated(data_type: DataType) -> bool:
    return isinstance(data_type, StringType) and data_type.collation != "UTF8_BINARY"


def _instead(kind: type[DataType], name: str) -> str:
    if issubclass(kind, Collated):
        return f"give a column without a collation, such as lower(collate({name}, 'UTF8_BINARY'))"
    if issubclass(kind, VariantType):
        return f"extract the needed parts, as in variant_get({name}, '$.id', 'bigint'), or its text, to_json({name})"
    if issubclass(kind, (GeometryType, GeographyType)):
        return f"take its bytes, st_asbinary({name})"
    if issubclass(kind, Empty):
        return "drop it, or add a field to it"
    if issubclass(kind, (ByteType, ShortType)):
        return "declare it as int"
    if issubclass(kind, BinaryType):
        return f"write a text of it, base64({name}) or hex({name})"
    if issubclass(kind, NullType):
        return f"cast it to the intended type, as in CAST({name} AS string)"
    if issubclass(kind, _NESTED):
        return "select a part of it"
    return f"cast it, as in CAST({name} AS string), or EXTRACT numbers from it"


def nullable(rows: StructType) -> StructType:
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


_DECLARED_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
"""Spark's key for the declared type in the metadata of a column."""


def without_lengths(columns: StructType) -> StructType:
    """Return the columns with strings in place of CHAR(n) and VARCHAR(n), at any depth."""
    return StructType([StructField(each.name, _as_strings(each.dataType), each.nullable) for each in columns])


def with_lengths_noted(columns: StructType) -> StructType:
    """Return the columns with their declared types in the metadata, which Spark's store assignment reads."""
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
