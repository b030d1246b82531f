"""Converts columns to the form that Python code needs: nullable, and with times in UTC, whatever Spark's session zone
is.

As for single times (`functions.times`), a millisecond begins with its first microsecond, before 1970 too.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema

from flykka.spark_bridge.functions.times import MICROS_PER_MS
from flykka.spark_bridge.rows.type_support import nullable
from flykka.spark_bridge.worker.keys import Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

T = TypeVar("T", pa.Table, pa.RecordBatch)

MICROS = pa.timestamp("us", "UTC")
"""The type of time columns, as in Spark."""


def as_held(rows: T) -> T:
    """Convert rows to nullable columns and times in UTC, including values in lists, maps and structs.

    The fields of a null struct are null, and Arrow does not cast these to fields that are not nullable.
    """
    schema = held_schema(rows.schema)
    return rows if schema.equals(rows.schema) else rows.cast(schema)


def micros(times: pa.Array | pa.ChunkedArray, offset_ms: int = 0) -> pa.Array | pa.ChunkedArray:
    """Return times in microseconds, shifted by `offset_ms`."""
    return pc.add(times.cast(MICROS).cast(pa.int64()), MICROS_PER_MS * offset_ms)


def millis(times: pa.Array | pa.ChunkedArray, offset_ms: int = 0, *, rounded_up: bool = False) -> pa.Array:
    """Return times in milliseconds, shifted by `offset_ms` and rounded down or, with `rounded_up`, up."""
    in_micros = micros(times, offset_ms)
    micros_or_zero: Rows = pc.fill_null(in_micros, 0).to_numpy()
    in_millis = not_before(micros_or_zero) if rounded_up else micros_or_zero // MICROS_PER_MS
    return pa.array(in_millis, mask=in_micros.is_null().to_numpy(zero_copy_only=False))


def not_before(in_micros: Rows) -> Rows:
    """Return the first millisecond that does not begin before each of these times in microseconds."""
    rounded_up: Rows = -(-in_micros // MICROS_PER_MS)
    return rounded_up


@lru_cache(maxsize=64)
def held_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([_field(field) for field in schema])


def _field(field: pa.Field) -> pa.Field:
    return field.with_type(_type(field.type)).with_nullable(True)


def _type(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(data_type) and data_type.tz is not None:
        return pa.timestamp(data_type.unit, "UTC")
    if pa.types.is_struct(data_type):
        return pa.struct([_field(field) for field in data_type])
    if pa.types.is_list(data_type):
        return pa.list_(_field(data_type.value_field))
    if pa.types.is_map(data_type):
        return pa.map_(_field(data_type.key_field).with_nullable(False), _field(data_type.item_field))
    return data_type


def arrow_schema(columns: StructType) -> pa.Schema:
    return held_schema(to_arrow_schema(columns, timezone="UTC"))


def collected_table(rows: DataFrame) -> pa.Table:
    return rows.to(nullable(rows.schema)).toArrow()
