"""Tests that a ConsoleSink prints the first rows of each batch in one piece."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from flykka.spark_bridge.connectors.console import ConsoleSink
from tests.spark_bridge.sink_contexts import sink_context

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_batch_is_printed_with_name_index_and_the_requested_rows(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = ConsoleSink(limit=2).writer(sink_context(spark, uid="bids", subtask=0, parallelism=1))
    held = set(spark.sparkContext._jsc.getPersistentRDDs())

    first = writer.stage(spark.createDataFrame([(n, "x" * 30) for n in range(1200)], "number long, text string"))
    nothing = writer.stage(spark.range(0))
    writer.stage(spark.range(1))

    assert (first.rows, first.names, nothing.rows) == (1200, (), 0)
    assert set(spark.sparkContext._jsc.getPersistentRDDs()) <= held
    assert capsys.readouterr().out == (
        "bids, batch 1: 1,200 rows\n"
        "+------+--------------------+\n"
        "|number|                text|\n"
        "+------+--------------------+\n"
        "|     0|xxxxxxxxxxxxxxxxx...|\n"
        "|     1|xxxxxxxxxxxxxxxxx...|\n"
        "+------+--------------------+\n"
        "only showing top 2 rows\n"
        "\n"
        "bids, batch 2: 1 row\n"
        "+---+\n"
        "| id|\n"
        "+---+\n"
        "|  0|\n"
        "+---+\n"
        "\n"
    )


@pytest.mark.parametrize(("truncate", "shown"), [(False, "x" * 30), (5, "xx...")])
def test_long_values_are_truncated_on_request(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], truncate: bool | int, shown: str
) -> None:
    sink = ConsoleSink(truncate=truncate)

    sink.writer(sink_context(spark, subtask=1, parallelism=2)).stage(spark.sql("SELECT repeat('x', 30) AS text"))

    printed = capsys.readouterr().out
    assert printed.startswith("my sink (2/2), batch 1: 1 row\n")
    assert f"|{shown}|" in printed


@pytest.mark.parametrize(("limit", "truncate"), [(0, True), (True, True), (1.5, True), (20, -1), (20, "no")])
def test_invalid_numbers_are_refused(limit: int, truncate: int) -> None:
    with pytest.raises(ValueError, match="of a ConsoleSink must be"):
        ConsoleSink(limit=limit, truncate=truncate)
