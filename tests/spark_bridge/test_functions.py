"""Tests operations whose results differ from those of Spark's DataFrame."""

from __future__ import annotations

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from flykka.spark_bridge.program.functions import join, where, where_not
from flykka.spark_bridge.session.session import engine_session

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("as_column", [False, True])
def test_a_condition_and_its_negation_partition_the_rows(spark: SparkSession, as_column: bool) -> None:
    rows = spark.createDataFrame([(1,), (2,), (None,)], "n long").coalesce(1)
    condition: Column | str = F.col("n") > 1 if as_column else "n > 1"

    parts = (
        where(rows, condition)
        .withColumn("side", F.lit(True))
        .unionAll(where_not(rows, condition).selectExpr("*", "false"))
    )

    assert sorted(map(tuple, parts.collect()), key=str) == [(1, False), (2, True), (None, False)]


def test_engine_session_rows_can_be_joined_with_a_users_cached_frame(spark: SparkSession) -> None:
    static = spark.createDataFrame([(1, "one"), (2, "two")], "n long, name string").cache()
    rows = engine_session(spark).createDataFrame([(1,), (3,)], "n long").coalesce(1)
    try:
        joined = join(rows, static, on="n", how="left")

        assert sorted(map(tuple, joined.collect())) == [(1, "one"), (3, None)]
        assert "InMemoryTableScan" in joined._jdf.queryExecution().executedPlan().toString()
    finally:
        static.unpersist()
