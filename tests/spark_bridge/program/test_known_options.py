"""Tests the options that Spark reports as known."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from flykka.spark_bridge.connectors.written_columns import check_known
from flykka.spark_bridge.program.prototype import PrototypeError
from flykka.spark_bridge.rows.file_formats import FileFormat

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("file_format", "options"),
    [
        ("csv", ("header", "SEP", "mode", "ignoreCorruptFiles", "maxRecordsPerFile")),
        ("json", ("multiLine", "primitivesasstring")),
        ("orc", ("mergeSchema", "compression", "orc.bloom.filter.columns")),
        ("avro", ("avroSchema", "recordName")),
        ("text", ("wholetext", "lineSep")),
        ("parquet", ("mergeSchema", "compression", "parquet.bloom.filter.enabled#id", "parquet.block.size")),
    ],
)
def test_known_options_and_hadoop_settings_are_accepted_in_any_case(
    spark: SparkSession, file_format: FileFormat, options: tuple[str, ...]
) -> None:
    check_known(spark, file_format, options)


def test_an_unknown_option_is_refused_with_similar_options(spark: SparkSession) -> None:
    with pytest.raises(PrototypeError, match=r"no option 'haeder' for csv files \(did you mean 'header'\?\)"):
        check_known(spark, "csv", ("sep", "haeder"))


def test_an_option_without_similar_options_is_refused_with_all_options(spark: SparkSession) -> None:
    with pytest.raises(PrototypeError, match=r"no option 'q' for parquet files; it has compression, .*mergeSchema"):
        check_known(spark, "parquet", ("q",))


def test_an_option_of_another_format_is_refused(spark: SparkSession) -> None:
    with pytest.raises(PrototypeError, match="no option 'header' for parquet files"):
        check_known(spark, "parquet", ("header",))
