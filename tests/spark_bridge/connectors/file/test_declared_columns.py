"""Tests that a parquet file has the declared columns, or is refused with the name of the first column that does not
match.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from pyarrow.fs import LocalFileSystem
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from flykka.spark_bridge.connectors.file.footers import footer, schema_mismatch


def struct_of(kind: DataType) -> StructType:
    return StructType([StructField("a", kind)])


def schema_of(kind: pa.DataType) -> pa.Schema:
    return pa.schema([("a", kind)])


@pytest.mark.parametrize(
    ("expected", "there"),
    [
        (LongType(), pa.int64()),
        (LongType(), pa.int32()),
        (DoubleType(), pa.float32()),
        (DecimalType(10, 2), pa.decimal128(8, 2)),
        (StringType(), pa.large_string()),
        (VarcharType(3), pa.string()),
        (DateType(), pa.date32()),
        (TimestampType(), pa.timestamp("us", "UTC")),
        (TimestampType(), pa.timestamp("ms")),
        (TimestampNTZType(), pa.timestamp("us")),
        (ArrayType(LongType()), pa.list_(pa.int64())),
        # Only Spark detects this case: it raises an error while reading.
        (LongType(), pa.null()),
    ],
)
def test_columns_that_spark_can_convert_are_accepted(expected: DataType, there: pa.DataType) -> None:
    assert schema_mismatch(struct_of(expected), schema_of(there)) is None


@pytest.mark.parametrize(
    ("expected", "there", "wrong"),
    [
        (LongType(), pa.string(), "its column 'a' is of type string, not bigint"),
        (IntegerType(), pa.int64(), "its column 'a' is of type bigint, not int"),
        (StringType(), pa.int64(), "its column 'a' is of type bigint, not string"),
        (TimestampType(), pa.int64(), "its column 'a' is of type bigint, not timestamp"),
        (LongType(), pa.list_(pa.int64()), "its column 'a' is of type array<bigint>, not bigint"),
        (DoubleType(), pa.decimal128(8, 2), "its column 'a' is of type decimal(8,2), not double"),
    ],
)
def test_a_wrong_type_is_reported_with_the_expected_type(expected: DataType, there: pa.DataType, wrong: str) -> None:
    assert schema_mismatch(struct_of(expected), schema_of(there)) == wrong


def test_a_missing_column_is_reported_with_the_existing_columns() -> None:
    others = pa.schema([("b", pa.int64()), ("c", pa.int64())])

    wrong = schema_mismatch(struct_of(LongType()), others)

    assert wrong == (
        "it has no column 'a' (expected bigint); its columns are b, c; with the option mergeSchema=True missing columns"
        " are read as nulls"
    )
    assert schema_mismatch(struct_of(LongType()), others, may_lack=True) is None


def test_partition_columns_may_be_missing_from_files() -> None:
    assert schema_mismatch(struct_of(LongType()), pa.schema([]), elsewhere={"a"}) is None


def test_column_names_are_compared_as_in_spark() -> None:
    assert schema_mismatch(struct_of(LongType()), pa.schema([("A", pa.int64())])) is None


def test_nanoseconds_are_refused_with_a_remedy() -> None:
    wrong = schema_mismatch(struct_of(TimestampType()), schema_of(pa.timestamp("ns")))

    assert wrong == "its column 'a' has nanoseconds, which Spark does not read: write it in microseconds"


def test_int96_timestamps_of_spark_are_accepted(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([0], pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "old.parquet", use_deprecated_int96_timestamps=True)

    schema = footer(str(tmp_path / "old.parquet"), None, LocalFileSystem().open_input_file).schema

    assert schema_mismatch(struct_of(TimestampType()), schema) is None
