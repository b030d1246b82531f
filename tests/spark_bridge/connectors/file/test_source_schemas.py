"""Tests the columns of a FileSource: declared, or read from files that all agree."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from pyspark.sql import SparkSession

from flykka.spark_bridge.connectors.file.source import FileSource
from flykka.spark_bridge.errors import (
    EmptySourceError,
    FileSchemaError,
    SourceError,
    SourceNotFoundError,
    UnreadableFileError,
)
from flykka.spark_bridge.program.prototype import PrototypeError
from tests.spark_bridge.connectors.file.test_source import discovery
from tests.spark_bridge.harness import write_rows
from tests.spark_bridge.reached import Reach, both_ways, by_fsspec

pytestmark = pytest.mark.spark


@both_ways
def test_an_empty_bounded_source_is_refused_when_bound(spark: SparkSession, tmp_path: Path, reach: Reach) -> None:
    nowhere = reach(FileSource.parquet(tmp_path / "nowhere", schema="key long"))
    empty = reach(FileSource.parquet(tmp_path, schema="key long"))

    with pytest.raises(SourceNotFoundError, match="nowhere"):
        nowhere.bound(spark, None)
    with pytest.raises(EmptySourceError, match="no files to read"):
        empty.bound(spark, None)
    assert nowhere.monitor_continuously("1s").bound(spark, None).interval_ms == 1000
    with pytest.raises(
        SourceNotFoundError, match=r"no such folder or file yet to take the schema from: declare it with schema"
    ):
        reach(FileSource.parquet(tmp_path / "nowhere")).monitor_continuously("1s").bound(spark, None)


@both_ways
def test_the_schema_is_inferred_once(spark: SparkSession, tmp_path: Path, reach: Reach) -> None:
    write_rows(tmp_path / "0.parquet", [(1, 1, 1)])
    bound = reach(FileSource.parquet(tmp_path)).bound(spark, None)
    pq.write_table(pa.table({"other": [1]}), tmp_path / "0.parquet")

    assert bound.prototype(spark).columns == ["key", "amount", "at"]


def test_timestamps_unreadable_for_spark_are_explained(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": pa.array([0], pa.timestamp("ns"))}), tmp_path / "a.parquet")

    with pytest.raises(UnreadableFileError, match="write timestamps in microseconds"):
        FileSource.parquet(tmp_path).prototype(spark)


def test_a_declared_schema_requires_no_file(spark: SparkSession) -> None:
    with pytest.raises(PrototypeError, match=r'the columns of parquet in, .*, cannot be read: .*"NONSENSE"'):
        FileSource.parquet("in", schema="key nonsense").prototype(spark)


@both_ways
def test_a_declared_schema_needs_no_file(spark: SparkSession, tmp_path: Path, reach: Reach) -> None:
    source = reach(FileSource.parquet(str(tmp_path / "later"), schema="key long, at timestamp"))

    assert source.prototype(spark).columns == ["key", "at"]


def write_columns(folder: Path, **files: list[str]) -> Path:
    for name, columns in files.items():
        (folder / name).mkdir(parents=True)
        pq.write_table(pa.table({column: [1] for column in columns}), folder / name / "a.parquet")
    return folder


@both_ways
def test_columns_of_one_folder_are_not_assumed_for_all_folders(
    spark: SparkSession, tmp_path: Path, reach: Reach
) -> None:
    write_columns(tmp_path, customers=["id", "city"], orders=["id"])

    with pytest.raises(
        FileSchemaError, match=r"^/.*/customers/a.parquet has a column 'city', and /.*/orders/a.parquet"
    ):
        reach(FileSource.parquet(tmp_path)).bound(spark, None)
    merged = reach(FileSource.parquet(tmp_path, mergeSchema=True)).bound(spark, None)
    assert sorted(merged.prototype(spark).columns) == ["city", "id"]


def test_columns_of_one_partition_are_not_assumed_for_all_partitions(spark: SparkSession, tmp_path: Path) -> None:
    write_columns(tmp_path, **{"day=1": ["id"], "day=2": ["id", "more"]})

    with pytest.raises(FileSchemaError, match=r"day=2/a.parquet has a column 'more', and /.*/day=1/a.parquet has none"):
        FileSource.parquet(tmp_path).bound(spark, None)
    merged = FileSource.parquet(tmp_path, mergeSchema=True).bound(spark, None)
    assert merged.prototype(spark).columns == ["id", "more", "day"]


@both_ways
def test_folders_with_equal_columns_give_a_schema(spark: SparkSession, tmp_path: Path, reach: Reach) -> None:
    source = reach(FileSource.parquet(write_columns(tmp_path, a=["id", "more"], b=["more", "ID"]))).bound(spark, None)

    splits = discovery(spark, source).discover(b"").splits
    (rows,) = source.read(spark, source.prototype(spark).schema, splits, in_slices=False)
    assert rows.count() == 2
    assert rows.columns == ["id", "more"]


def test_partition_columns_must_be_declared_with_storage_options(spark: SparkSession, tmp_path: Path) -> None:
    write_columns(tmp_path, **{"day=1": ["id"]})

    with pytest.raises(
        SourceError, match=r"needs a schema .* names of its folders contain values of columns \(day\): sch"
    ):
        by_fsspec(FileSource.parquet(tmp_path)).bound(spark, None)


def test_conflicting_types_are_reported_when_columns_are_merged(spark: SparkSession, tmp_path: Path) -> None:
    write_columns(tmp_path, a=["id"])
    pq.write_table(pa.table({"id": ["text"]}), tmp_path / "a" / "b.parquet")

    with pytest.raises(FileSchemaError, match=r"/a/b.parquet does not fit the files before it: .*id"):
        by_fsspec(FileSource.parquet(tmp_path, mergeSchema=True)).bound(spark, None)
