"""Tests frames of several slices."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from flykka.spark_bridge.rows.materialise import coalesced, in_order
from flykka.spark_bridge.session.session import engine_session

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(("slices", "partitions", "expected"), [(7, 2, 2), (5, 3, 3), (2, 4, 2)])
def test_slices_in_few_partitions_keep_their_order(
    spark: SparkSession, slices: int, partitions: int, expected: int
) -> None:
    # Cached blocks have locations, by which Spark's coalesce would distribute them.
    session = engine_session(spark)
    kept = [session.range(4 * each, 4 * each + 4, 1, 2).localCheckpoint() for each in range(slices)]

    rows = coalesced(kept, partitions)

    assert [row.id for row in rows.collect()] == [*range(4 * slices)]
    assert rows.rdd.getNumPartitions() == expected


def test_rows_of_blocks_and_of_files_keep_their_order(spark: SparkSession, tmp_path: Path) -> None:
    session = engine_session(spark)

    def in_blocks(start: int) -> DataFrame:
        return session.range(start, start + 4, 1, 2).localCheckpoint()

    def in_files(start: int) -> DataFrame:
        session.range(start, start + 4, 1, 1).write.parquet(str(tmp_path / str(start)))
        return session.read.parquet(str(tmp_path / str(start)))

    rows = in_order([in_files(0), in_blocks(4), in_files(8), in_blocks(12)])

    assert [row.id for row in rows.collect()] == [*range(16)]
    assert rows.columns == ["id"]
