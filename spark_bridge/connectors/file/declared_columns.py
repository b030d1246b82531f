"""Checks that a parquet file has the columns that a source declares, by its footer.

Spark would read a column that is not there as nulls, and find a wrong type when rows are read. Refused is only what
Spark cannot read: a file may hold narrower numbers, or timestamps of either kind.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

import pyarrow
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_INTEGERS = frozenset({"tinyint", "smallint", "int"})
_TEXTS = frozenset({"string", "binary"})
_TIMESTAMPS = frozenset({"timestamp", "timestamp_ntz"})
_READABLE_AS = {
    "boolean": frozenset({"boolean"}),
    "tinyint": _INTEGERS,
    "smallint": _INTEGERS,
    "int": _INTEGERS,
    "bigint": _INTEGERS | {"bigint"},
    "float": frozenset({"float"}),
    "double": _INTEGERS | {"float", "double"},
    "decimal": _INTEGERS | {"bigint", "decimal"},
    "string": _TEXTS,
    "binary": _TEXTS,
    "date": frozenset({"date"}),
    "timestamp": _TIMESTAMPS,
    "timestamp_ntz": _TIMESTAMPS | {"date"},
    "array": frozenset({"array"}),
    "map": frozenset({"map"}),
    "struct": frozenset({"struct"}),
}


def misfit(
    declared: StructType, found: pyarrow.Schema, *, elsewhere: Set[str] = frozenset(), may_lack: bool = False
) -> str | None:
    """Tell what is wrong with the first column that does not fit; None where all do.

    `elsewhere` are columns, in lower case, that the names of folders give; `may_lack`: files have different columns.
    """
    types = {field.name.lower(): field.type for field in found}
    for column in declared:
        if column.name.lower() in elsewhere:
            continue
        expected = column.dataType.simpleString()
        if column.name.lower() not in types:
            if may_lack:
                continue
            columns = ", ".join(found.names)
            return (
                f"it has no column {column.name!r} (expected {expected}), but {columns}; with the option"
                " mergeSchema=True what a file does not have is read as nulls"
            )
        there = types[column.name.lower()]
        if pyarrow.types.is_timestamp(there) and there.unit == "ns" and expected in _TIMESTAMPS:
            return f"its column {column.name!r} has nanoseconds, which Spark does not read: write it in microseconds"
        name = _spark_name(there)
        readable = _READABLE_AS.get(_kind(expected))
        if readable is not None and name is not None and _kind(name) not in readable:
            return f"its column {column.name!r} is of type {name}, not {expected}"
    return None


def _spark_name(there: pyarrow.DataType) -> str | None:
    """Spark's name of a type; None where only Spark can say whether it reads it."""
    if pyarrow.types.is_null(there):
        return None
    try:
        return from_arrow_type(there, prefer_timestamp_ntz=True).simpleString()
    except PySparkException:
        return None


def _kind(name: str) -> str:
    """`decimal` of `decimal(10,2)`, `array` of `array<int>`, `string` of `varchar(3)`."""
    kind = name.partition("(")[0].partition("<")[0]
    return "string" if kind in {"char", "varchar"} else kind
