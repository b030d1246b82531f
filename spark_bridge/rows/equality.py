"""Equality of keys, by Spark's rule, in all grouping, joining, storing and looking up by key.

NaN equals NaN and 0.0 equals -0.0, at any depth (Spark's NormalizeFloatingNumbers), and null is an ordinary key.
Spark's `hash` follows this rule. Strings with a collation do not: Spark hashes them by one rule and Arrow compares them
by another, so they are rejected as keys (`type_support`).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType, StructType

from flykka.spark_bridge.functions.equal_values import NAN
from flykka.spark_bridge.rows.type_support import parts_of


def normalised_values(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Normalise values of a type without nested fields so that Arrow's equality agrees with Spark's."""
    if not pa.types.is_floating(values.type):
        return values
    # The sum -0.0 + 0.0 is 0.0.
    numbers = pc.add(values, pa.scalar(0.0, values.type))
    return pc.if_else(pc.is_nan(numbers), pa.scalar(NAN, values.type), numbers)


def normalised_column(column: Column, data_type: DataType) -> Column:
    """Normalise a column as Spark does before grouping, so that equal values have equal bits.

    Maps become arrays of their sorted entries.
    """
    if not any(isinstance(part, FloatType | DoubleType | MapType) for part in parts_of(data_type)):
        return column
    match data_type:
        case StructType():
            of_fields = (
                normalised_column(column.getField(each.name), each.dataType).alias(each.name) for each in data_type
            )
            return F.when(column.isNotNull(), F.struct(*of_fields))
        case ArrayType():
            return F.transform(column, lambda element: normalised_column(element, data_type.elementType))
        case MapType():
            entry = StructType().add("key", data_type.keyType).add("value", data_type.valueType)
            return F.array_sort(F.transform(F.map_entries(column), lambda each: normalised_column(each, entry)))
    return F.when(F.isnan(column), F.lit(NAN).cast(data_type)).otherwise(column + F.lit(0.0).cast(data_type))
