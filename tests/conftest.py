"""What every test shares: how Hypothesis searches, and the one Spark session of the run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No deadline: two busy cores say nothing about a law. CI draws the same examples every time; elsewhere the search goes
# on from run to run, and a failure prints the line that repeats it.
settings.register_profile("search", deadline=None, print_blob=True)
settings.register_profile("ci", parent=settings.get_profile("search"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "search")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that all Spark tests share: two cores, few shuffle partitions, no web server."""
    from pyspark.sql import SparkSession

    # Workers would start the first python3 on PATH, which need not be the one that has the libraries.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = (
        SparkSession.builder.master("local[2]")
        .appName("flykka tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    yield session
    session.stop()
