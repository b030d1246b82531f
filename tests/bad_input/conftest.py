"""Fixtures for tests of bad input, which check that a test leaves no threads, files or cached data."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flykka.cli.main import main
from tests.bad_input.apps import Apps, wait_for_threads_to_end
from tests.flykka.cli.shell import Shell


@pytest.fixture(scope="session")
def hundred_rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows") / "in"
    spark.sql("SELECT id, timestamp_seconds(id) AS at FROM range(100)").coalesce(1).write.parquet(str(folder))
    (file,) = folder.glob("*.parquet")
    return file


@pytest.fixture
def apps(spark: SparkSession, hundred_rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Apps]:
    """Runs apps, and checks that Spark's cached data and flykka's threads are the same before and after a test."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.parquet").write_bytes(hundred_rows.read_bytes())
    apps_of_test = Apps(tmp_path, spark, capsys)
    held, threads = apps_of_test.held(), threading.enumerate()

    yield apps_of_test

    assert wait_for_threads_to_end(threads) == []
    assert apps_of_test.held() == held


@pytest.fixture
def flykka(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Return a function that runs the command line without input, and returns its exit code and output."""
    monkeypatch.setattr(sys, "stdin", StringIO())

    def run(*words: str | Path) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main([str(word) for word in words])
        out, err = capfd.readouterr()
        return code, out, err

    return run
