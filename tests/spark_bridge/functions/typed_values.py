"""Hypothesis strategies for state types and their values."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Context, Decimal
from typing import Any

from hypothesis import strategies as st

from flykka.spark_bridge.functions.column_types import ColumnType, array_of, map_of

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_NAMES = st.text("abcAB_ `:,", min_size=1, max_size=3)
_KEY_TYPES = ("boolean", "tinyint", "smallint", "int", "bigint", "string", "binary", "date", "timestamp_ntz")
_WIDE = Context(prec=76)
_DATETIMES = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))


@st.composite
def _decimals(draw: st.DrawFn) -> ColumnType:
    precision = draw(st.integers(1, 38))
    return ColumnType("decimal", sizes=(precision, draw(st.integers(0, precision))))


def _structs(below: st.SearchStrategy[ColumnType]) -> st.SearchStrategy[ColumnType]:
    fields = st.lists(st.tuples(_NAMES, below), min_size=1, max_size=3, unique_by=lambda each: each[0].lower())
    return fields.map(
        lambda each: ColumnType("struct", tuple(type_ for _, type_ in each), tuple(name for name, _ in each))
    )


def types() -> st.SearchStrategy[ColumnType]:
    simple = st.sampled_from([*_KEY_TYPES, "float", "double", "timestamp"]).map(ColumnType)
    keys = st.sampled_from(_KEY_TYPES).map(ColumnType)
    return st.recursive(
        simple | _decimals(),
        lambda below: below.map(array_of) | st.builds(map_of, keys, below) | _structs(below),
        max_leaves=5,
    )


def values_of_type(type_: ColumnType) -> st.SearchStrategy[Any]:
    """Return a strategy for values of the type; None occurs only in nested fields."""
    match type_.name:
        case "array":
            return st.lists(st.none() | values_of_type(type_.parts[0]), max_size=3)
        case "map":
            return st.dictionaries(
                values_of_type(type_.parts[0]), st.none() | values_of_type(type_.parts[1]), max_size=3
            )
        case "struct":
            of_fields = zip(type_.fields, type_.parts, strict=True)
            return st.fixed_dictionaries({name: st.none() | values_of_type(part) for name, part in of_fields})
        case "decimal":
            precision, scale = type_.sizes
            limit = 10**precision - 1
            return st.integers(-limit, limit).map(lambda digits: Decimal(digits).scaleb(-scale, _WIDE))
    return _simple(type_.name)


def _simple(name: str) -> st.SearchStrategy[Any]:
    match name:
        case "boolean":
            return st.booleans()
        case "float":
            return st.floats(width=32, allow_nan=False)
        case "double":
            return st.floats(allow_nan=False)
        case "string":
            return st.text(max_size=3)
        case "binary":
            return st.binary(max_size=3)
        case "date":
            return st.dates()
        case "timestamp":
            return _DATETIMES.map(lambda when: when.replace(tzinfo=UTC))
        case "timestamp_ntz":
            return _DATETIMES
    limit = 1 << (_BITS[name] - 1)
    return st.integers(-limit, limit - 1)
