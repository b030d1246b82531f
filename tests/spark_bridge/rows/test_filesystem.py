"""Tests how users' paths are interpreted."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flykka.spark_bridge.rows.filesystem import FileSystem

pytestmark = pytest.mark.spark


def test_a_relative_path_is_resolved_in_the_programs_folder_not_the_jvms(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert FileSystem(spark).absolute("logs/today") == str(tmp_path / "logs" / "today")


@pytest.mark.parametrize("path", ["/data/logs", "file:/data/logs", "hdfs://cluster/logs", "s3a://bucket/logs"])
def test_other_paths_are_unchanged(spark: SparkSession, path: str) -> None:
    assert FileSystem(spark).absolute(path) == path
