"""Queries on streams of bids, for tests that need no tables of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.flykka.api.table.queries import Queries
from tests.flykka.programs import bids


@pytest.fixture
def queries(spark: SparkSession) -> Iterator[Queries]:
    """Queries with the constant table `item` and the changelog view `auction`."""
    spark.createDataFrame([(1, "boots")], "id bigint, title string").createOrReplaceTempView("item")
    made = Queries(spark)
    made.create_temporary_view("auction", bids(spark, made.program, event_time=None), primary_key="auction")
    yield made
    spark.catalog.dropTempView("item")
