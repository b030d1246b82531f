"""Tests how users' paths are interpreted."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flykka.spark_bridge.rows.filesystem import FileSystem

pytestmark = pytest.mark.spark


def test_a_relative_path_begins_where_the_program_is_and_not_where_the_jvm_was_started(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert FileSystem(spark).absolute("logs/today") == str(tmp_path / "logs" / "today")


@pytest.mark.parametrize("path", ["/data/logs", "file:/data/logs", "hdfs://cluster/logs", "s3a://bucket/logs"])
def test_every_other_path_stays_as_it_is(spark: SparkSession, path: str) -> None:
    assert FileSystem(spark).absolute(path) == path
