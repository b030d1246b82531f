"""The file formats that Spark reads and writes without an additional jar, and the names of partition folders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

FileFormat = Literal["parquet", "orc", "avro", "json", "csv", "text"]

_SOURCES = "org.apache.spark.sql.execution.datasources"
_CATALYST = "org.apache.spark.sql.catalyst"
_AVRO = "org.apache.spark.sql.avro"


@dataclass(frozen=True, slots=True)
class SparkFormat:
    data_source: str
    file_format: str
    options: str


SPARK_FORMATS: dict[FileFormat, SparkFormat] = {
    "parquet": SparkFormat("parquet", f"{_SOURCES}.parquet.ParquetFileFormat", f"{_SOURCES}.parquet.ParquetOptions"),
    "orc": SparkFormat("orc", f"{_SOURCES}.orc.OrcFileFormat", f"{_SOURCES}.orc.OrcOptions"),
    # The class is part of Spark, but the short name only works with an additional jar.
    "avro": SparkFormat(f"{_AVRO}.AvroFileFormat", f"{_AVRO}.AvroFileFormat", f"{_AVRO}.AvroOptions"),
    "json": SparkFormat("json", f"{_SOURCES}.json.JsonFileFormat", f"{_CATALYST}.json.JSONOptions"),
    "csv": SparkFormat("csv", f"{_SOURCES}.csv.CSVFileFormat", f"{_CATALYST}.csv.CSVOptions"),
    "text": SparkFormat("text", f"{_SOURCES}.text.TextFileFormat", f"{_SOURCES}.text.TextOptions"),
}


_NULL = "__HIVE_DEFAULT_PARTITION__"


def partition_in(path: str) -> dict[str, str | None]:
    """Return the partition values in a path's folder names, as strings."""
    folders = (folder.partition("=") for folder in path.split("/")[:-1])
    # Spark decodes each encoded byte as one character.
    values = {unquote(column, "latin-1"): unquote(value, "latin-1") for column, equals, value in folders if equals}
    return {column: None if value == _NULL else value for column, value in values.items()}
