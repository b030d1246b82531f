"""From a split to a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from flykka.messages.source import FileBatchSplit, FileSplit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from flykka.spark_bridge.sources.file_source import FileSource

_LARGE_FILE_ROWS = 4_000_000


def read_split(session: SparkSession, source: FileSource, schema: StructType, split: FileBatchSplit) -> DataFrame:
    """The rows of a batch, in as many Spark partitions as Spark finds fit."""
    rows = _read(session, source, schema, split.files)
    return rows if split.files[0].whole_file else _range(rows, split.files[0])


def read_sliced(
    session: SparkSession, source: FileSource, schema: StructType, split: FileBatchSplit
) -> tuple[DataFrame, ...]:
    """The rows of a batch in slices of one Spark partition each, as many as there are cores for.

    What is aggregated slice by slice needs no shuffle. A file too large for one core is read as Spark likes.
    """
    if any(not file.whole_file or file.rows > _LARGE_FILE_ROWS for file in split.files):
        return (read_split(session, source, schema, split),)
    slices = min(len(split.files), max(1, session.sparkContext.defaultParallelism))
    return tuple(_read(session, source, schema, split.files[number::slices]).coalesce(1) for number in range(slices))


def _read(session: SparkSession, source: FileSource, schema: StructType, files: Sequence[FileSplit]) -> DataFrame:
    # The paths are those of files that are there: a bracket in a name is a bracket.
    reader = session.read.schema(schema).option("__globPaths__", "false")
    if any("/" in file.split_id for file in files):
        # Below the source's folder: the names of the folders between may be partition columns.
        reader = reader.option("basePath", source.path)
    return reader.parquet(*(file.path for file in files))


def _range(rows: DataFrame, split: FileSplit) -> DataFrame:
    """Some rows of a file, by their number in it.

    The bounds differ from batch to batch, and Spark writes numbers into the code that it compiles; decimals it hands
    over, so the code is compiled once.
    """
    number = F.col("_metadata.row_index").cast("decimal(20,0)")
    first, behind = Decimal(split.start_row), Decimal(split.start_row + split.rows)
    return rows.where((number >= F.lit(first)) & (number < F.lit(behind)))
