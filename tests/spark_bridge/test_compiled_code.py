"""Tests that Spark compiles an operator's code once, for all watermarks and numbers of segments."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flykka.spark_bridge.program.event_time import instant
from flykka.spark_bridge.rows.materialise import together
from flykka.spark_bridge.session.session import engine_session

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    """Microseconds 0 to 9999 in their stored form, in a session that compiles code as a user's session does."""
    session = engine_session(spark)
    session.conf.set("spark.sql.codegen.wholeStage", "true")
    session.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    return session.range(10_000).localCheckpoint()


def before(rows: DataFrame, milliseconds: int) -> DataFrame:
    return rows.where(F.col("id") < instant(milliseconds, F.col("id")))


def segments(rows: DataFrame, number: int) -> DataFrame:
    return together([rows.where("id % 2 = 0")] * number).coalesce(1).agg(F.sum("id"))


@pytest.mark.parametrize(("make", "first", "second"), [(before, 3, 4), (segments, 2, 3), (segments, 3, 9)])
def test_no_code_is_compiled_again(
    spark: SparkSession, rows: DataFrame, make: Callable[[DataFrame, int], DataFrame], first: int, second: int
) -> None:
    assert spark._jvm is not None
    times = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    make(rows, first).collect()
    compiled = times.getCount()

    make(rows, second).collect()

    assert times.getCount() == compiled > 0


def test_rows_are_compared_with_the_watermark_instant(rows: DataFrame) -> None:
    assert before(rows, 3).count() == 3000
    assert before(rows, -(2**63)).count() == 0
    assert before(rows, 2**63).count() == 10_000


def test_many_slices_keep_all_rows(rows: DataFrame) -> None:
    assert segments(rows, 9).collect()[0][0] == 9 * sum(range(0, 10_000, 2))
