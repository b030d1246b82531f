"""Converts values of a state's type to bytes and back: msgpack, interpreted by the type.

Dates are stored as ordinals, timestamps as microseconds since 1970, decimals as texts, structs as arrays of their
fields, and maps as arrays of pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import msgpack

from flykka.spark_bridge.functions.column_types import ColumnType
from flykka.spark_bridge.functions.times import micros_of, time_of_micros

Convert = Callable[[Any], Any]


def to_bytes(value: Any, type_: ColumnType) -> bytes:
    packed: bytes = msgpack.packb(_or_none(_packer(type_))(value))
    return packed


def from_bytes(data: bytes, type_: ColumnType) -> Any:
    return _or_none(_unpacker(type_))(msgpack.unpackb(data))


def _packer(type_: ColumnType) -> Convert:
    match type_.name:
        case "date":
            return date.toordinal
        case "decimal":
            return str
        case "timestamp" | "timestamp_ntz":
            return micros_of
    below = [_or_none(_packer(part)) for part in type_.parts]
    match type_.name:
        case "array":
            (element,) = below
            return lambda values: [element(each) for each in values]
        case "map":
            key, value_codec = below
            return lambda entries: [[key(each), value_codec(value)] for each, value in entries.items()]
        case "struct":
            fields = [*zip(type_.fields, below, strict=True)]
            return lambda row: [pack(row[name]) for name, pack in fields]
    return lambda value: value


def _unpacker(type_: ColumnType) -> Convert:
    match type_.name:
        case "date":
            return date.fromordinal
        case "decimal":
            return Decimal
        case "timestamp":
            return time_of_micros
        case "timestamp_ntz":
            return lambda micros: time_of_micros(micros).replace(tzinfo=None)
    below = [_or_none(_unpacker(part)) for part in type_.parts]
    match type_.name:
        case "array":
            (element,) = below
            return lambda values: [element(each) for each in values]
        case "map":
            key, value_codec = below
            return lambda pairs: {key(each): value_codec(value) for each, value in pairs}
        case "struct":
            fields = [*zip(type_.fields, below, strict=True)]
            return lambda values: {name: unpack(value) for (name, unpack), value in zip(fields, values, strict=True)}
    return lambda value: value


def _or_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)
