"""Tests that files are read in order, although Spark's scan of several files begins with the largest file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from pyspark.errors import SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession

from flykka.spark_bridge.rows import files
from flykka.spark_bridge.rows.files import read_in_order, read_parquet, rows_at
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.session.session import engine_session

pytestmark = pytest.mark.spark

SIZES = (1, 40, 3, 3, 900, 20)
"""The row counts of the files, which are not sorted by size."""


def write_numbers(folder: Path, names: Sequence[str], sizes: Sequence[int] = SIZES) -> list[str]:
    """Write files of consecutive numbers, and return their paths in the format of sources."""
    paths, number = [], 0
    for name, size in zip(names, sizes, strict=True):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"n": range(number, number + size)}), path, row_group_size=100)
        paths.append(f"file:{path}")
        number += size
    return paths


def numbers(rows: DataFrame) -> list[int]:
    return [row.n for row in rows.select("n").collect()]


@pytest.mark.parametrize(
    "names",
    [
        ["a", "b", "c", "d", "e", "f"],
        ["f", "b", "a", "c", "e", "d"],
        ["a b", "ü%20", "c+d", "e[1]#2", "p?q", "{x}"],
        ["k=1/a", "k=a b/a", "k=%3A/a", "k=0/a", "k=1/b", "k=2/a"],
    ],
    ids=["by name", "in any order", "odd names", "partitions"],
)
@pytest.mark.parametrize(
    ("limit", "value"), [("_RUN_FILES", 128), ("_RUN_FILES", 2), ("_RUN_BYTES", 1000)], ids=["one", "few", "large"]
)
def test_rows_keep_the_order_of_files(
    spark: SparkSession,
    tmp_path: Path,
    names: list[str],
    limit: str,
    value: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, limit, value)
    paths = write_numbers(tmp_path, names)
    session = engine_session(spark)

    rows = read_in_order(lambda some: read_parquet(session, some, basePath=str(tmp_path)).select("n"), paths)

    assert numbers(rows) == list(range(sum(SIZES)))
    assert numbers(read_parquet(session, paths)) != list(range(sum(SIZES)))


def test_a_few_small_files_are_one_scan_in_one_partition(spark: SparkSession, tmp_path: Path) -> None:
    paths = write_numbers(tmp_path, [f"{number:02d}" for number in range(50)], [1 + number % 7 for number in range(50)])
    session = engine_session(spark)

    rows = read_in_order(lambda some: read_parquet(session, some), paths)

    assert rows.rdd.getNumPartitions() == 1
    assert numbers(rows) == list(range(len(numbers(rows))))


@pytest.mark.parametrize("part_bytes", [700, 128 * 1024**2], ids=["cut", "whole"])
def test_lines_keep_their_order_even_in_split_files(spark: SparkSession, tmp_path: Path, part_bytes: int) -> None:
    session = engine_session(spark)
    session.conf.set("spark.sql.files.maxPartitionBytes", part_bytes)
    paths, number = [], 0
    for name, size in zip("abcdef", SIZES, strict=True):
        (tmp_path / name).write_text("".join(f"{each}\n" for each in range(number, number + size)))
        paths.append(f"file:{tmp_path}/{name}")
        number += size

    rows = read_in_order(lambda some: rows_at(session.read.format("csv").schema("n int"), some), paths)

    assert numbers(rows) == list(range(sum(SIZES)))
    assert numbers(
        read_in_order(lambda some: rows_at(session.read.format("csv").schema("n int"), some), paths[4:5])
    ) == list(range(47, 947))


def test_columns_and_filters_are_pushed_into_the_scan(spark: SparkSession, tmp_path: Path) -> None:
    paths = write_numbers(tmp_path, list("abcdef"))
    session = engine_session(spark)

    rows = read_in_order(lambda some: read_parquet(session, some), paths).where("n > 3").selectExpr("1 AS one")

    assert rows.count() == sum(SIZES) - 4


def test_an_unrequested_file_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    paths = write_numbers(tmp_path, list("abcdef"))
    session = engine_session(spark)

    rows = read_in_order(lambda some: read_parquet(session, [*some[:-1], paths[0]]), paths[2:])

    with pytest.raises(SparkRuntimeException, match=r"Spark has read an unexpected file: .*/a"):
        numbers(rows)


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("file:/tmp/a.parquet", "file:/tmp/a.parquet"),
        ("/tmp/k=1/a.parquet", "file:/tmp/k=1/a.parquet"),
        ("file:///tmp/a b%20ü.parquet", "file:/tmp/a%20b%2520ü.parquet"),
        ("s3a://bucket/a-1.parquet", "s3a://bucket/a-1.parquet"),
    ],
)
def test_a_path_has_sparks_format(spark: SparkSession, path: str, uri: str) -> None:
    assert FileSystem(spark).uri(path) == uri
