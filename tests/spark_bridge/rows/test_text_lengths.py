"""Tests that CHAR(n) and VARCHAR(n) are strings in all declared columns, at any nesting depth."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from flykka.spark_bridge.connectors.file.source import empty_frame
from flykka.spark_bridge.connectors.kafka.formats import JsonFormat
from flykka.spark_bridge.operators.process_functions import declared_rows
from flykka.spark_bridge.rows.type_support import with_lengths_noted

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DECLARED = "a varchar(5), b char(2), c array<varchar(1)>, d map<char(1), struct<e: varchar(9)>>, f int"
STRINGS = "a string, b string, c array<string>, d map<string, struct<e: string>>, f int"


@pytest.fixture
def declared(spark: SparkSession) -> StructType:
    read = StructType.fromDDL(DECLARED)
    assert isinstance(read, StructType)
    return read


def test_declared_columns_with_lengths_are_strings(spark: SparkSession, declared: StructType) -> None:
    strings = spark.createDataFrame([], STRINGS).schema

    assert declared_rows(spark, DECLARED).schema == strings
    assert empty_frame(spark, DECLARED, "files").schema == strings
    assert empty_frame(spark, declared, "files").schema == strings
    assert JsonFormat(declared=DECLARED).schema(spark) == strings


def test_spark_finds_the_declared_lengths_in_the_metadata(declared: StructType) -> None:
    noted = with_lengths_noted(declared)

    assert {column.name: list(column.metadata.values()) for column in noted} == {
        "a": ["varchar(5)"],
        "b": ["char(2)"],
        "c": ["array<varchar(1)>"],
        "d": ["map<char(1),struct<e:varchar(9)>>"],
        "f": [],
    }
