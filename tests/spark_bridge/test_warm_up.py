"""Tests that warming up a session leaves no data and no jobs in it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flykka.spark_bridge import warm_up as module
from flykka.spark_bridge.warm_up import warm_up

pytestmark = pytest.mark.spark


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def jobs(session: SparkSession) -> int:
    """Return the number of Spark jobs so far. The status store forgets old jobs."""
    return int(session.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def blocks(session: SparkSession) -> int:
    return len(session.sparkContext._jsc.sc().getRDDStorageInfo())


def test_warming_up_runs_stages_and_leaves_no_files_or_blocks(spark: SparkSession, temporary: Path) -> None:
    before = jobs(spark), blocks(spark)

    warm_up(spark)

    assert jobs(spark) >= before[0] + 3
    assert blocks(spark) == before[1]
    assert {path.name for path in temporary.rglob("*")} == {f"flykka-{os.getuid()}", ".lock"}


def test_remote_executors_are_not_warmed_up(
    spark: SparkSession, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "has_one_machine", lambda session: False)
    before = jobs(spark)

    warm_up(spark)

    assert jobs(spark) == before


def test_a_session_with_an_unwritable_folder_is_not_warmed_up_without_error(
    spark: SparkSession, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(module, "write_files", refuse)

    warm_up(spark)

    assert {path.name for path in temporary.rglob("*")} == {f"flykka-{os.getuid()}", ".lock"}
