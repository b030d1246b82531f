"""Fixtures for the tests of the demo."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from tests.layout.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def demo() -> ModuleType:
    """Import the example, which is a program and not a module of the package."""
    spec = importlib.util.spec_from_file_location("flights_example", ROOT / "examples" / "flights.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Iterator[Path]:
    """A folder against which relative paths are resolved, in Python and in Spark."""
    monkeypatch.chdir(tmp_path)
    # The JVM was started in another folder, so it is made to resolve a recipe's relative paths in the test's folder.
    context = spark.sparkContext
    assert context._jvm is not None
    hadoop = context._jvm.org.apache.hadoop.fs
    files = hadoop.FileSystem.get(context._jsc.hadoopConfiguration())
    before = files.getWorkingDirectory()
    files.setWorkingDirectory(hadoop.Path(str(tmp_path)))
    yield tmp_path
    files.setWorkingDirectory(before)
