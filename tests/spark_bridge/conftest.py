"""One data plane for all tests of the Spark side, and an attempt fixture for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flykka.spark_bridge.data_plane import SparkDataPlane
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from tests.spark_bridge.harness import Harness


@pytest.fixture(scope="session")
def registry() -> CodeRegistry:
    return CodeRegistry()


@pytest.fixture(scope="session")
def plane(spark: SparkSession, registry: CodeRegistry) -> SparkDataPlane:
    return SparkDataPlane(spark, registry)


@pytest.fixture
def harness(plane: SparkDataPlane, registry: CodeRegistry, tmp_path: Path) -> Iterator[Harness]:
    """Checks after every test that the job has left no RDD in Spark."""
    created = Harness(plane, registry, tmp_path)
    before = created.persisted()
    yield created
    created.end()
    assert plane.stats().batches == 0
    # RDDs of earlier tests may disappear in the meantime, because Spark collects them at any time.
    assert created.persisted() <= before
