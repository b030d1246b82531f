"""Tests that Spark distributes units exactly as long as a job uses them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from pyspark import SparkFiles
from pyspark.sql import SparkSession

from flykka.spark_bridge.user_files.distributed_files import put_on_path, take_off_path
from flykka.spark_bridge.user_files.job_files import JobFiles
from flykka.spark_bridge.user_files.staged_files import staged_files

pytestmark = pytest.mark.spark


@pytest.fixture
def unit() -> Iterator[str]:
    def write(folder: Path) -> None:
        folder.mkdir()
        (folder / "comets.py").write_text("COUNT = 4\n")

    added = staged_files.add("comets", write)
    yield added
    staged_files.release(added)


def listed_archives(spark: SparkSession) -> list[str]:
    return [name for name in spark.sparkContext.listArchives if "comets" in name]


def on_executor(spark: SparkSession, unit: str) -> bool:
    def is_there(_: Iterable[int]) -> Iterator[bool]:
        yield os.path.exists(SparkFiles.get(unit))

    return any(spark.sparkContext.parallelize([1], 1).mapPartitions(is_there).collect())


def test_a_unit_exists_until_its_last_job_has_ended(spark: SparkSession, unit: str) -> None:
    one, other = JobFiles(units=(unit,)), JobFiles(units=(unit,))
    for job in (one, other, one):
        job.distribute(spark)

    one.withdraw()
    one.withdraw()
    while_one_has_it = len(listed_archives(spark)), on_executor(spark, unit)
    other.withdraw()

    assert while_one_has_it == (1, True)
    assert listed_archives(spark) == []
    assert not on_executor(spark, unit)


def test_a_unit_is_distributed_again_with_a_later_job(spark: SparkSession, unit: str) -> None:
    first, later = JobFiles(units=(unit,)), JobFiles(units=(unit,))
    first.distribute(spark)
    first.withdraw()

    later.distribute(spark)

    assert on_executor(spark, unit)
    later.withdraw()


def test_workers_with_different_paths_are_different_processes(spark: SparkSession, unit: str) -> None:
    def worker(_: Iterable[int]) -> Iterator[str | None]:
        yield os.environ.get("FLYKKA_PYTHON_PATH")

    def files_in_workers() -> list[str | None]:
        return spark.sparkContext.parallelize([1], 1).mapPartitions(worker).collect()

    before = files_in_workers()
    put_on_path(spark.sparkContext, [unit])
    try:
        with_unit = files_in_workers()
    finally:
        take_off_path(spark.sparkContext, [unit])

    assert before == files_in_workers() == [None]
    assert with_unit != [None]
