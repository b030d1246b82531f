"""Tests the tutorial's example: its output equals one plain Spark batch over the same orders."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from flykka.cli.main import main
from flykka.datagen import Field
from tests.layout.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

EXAMPLE = ROOT / "examples" / "orders.py"
ORDERS = 15_000
"""The number of orders, which span two and a half minutes. The windows of the last minute fire at the end of the input.
"""


def as_a_batch(spark: SparkSession) -> list[Row]:
    """Return minute, city, revenue and largest order of the expected rows, computed as a batch."""
    fields = runpy.run_path(str(EXAMPLE))["FIELDS"]
    columns = (made(Field(name=name, seed=0)).alias(name) for name, made in fields.items())
    orders = spark.range(ORDERS).withColumnRenamed("id", "index").select(*columns).where("amount >= 10")
    minute = F.date_trunc("minute", "ordered").alias("minute")
    return orders.groupBy(minute, "city").agg(F.sum("amount"), F.max("amount")).collect()


def test_tutorial_results_equal_those_of_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    code = main(["run", str(EXAMPLE), "--", "--folder", str(tmp_path), "--orders", str(ORDERS)])

    written = spark.read.parquet(str(tmp_path / "revenue")).drop("window_end").collect()
    batch = as_a_batch(spark)
    assert code == 0
    assert len(written) == len(batch) == 3 * 4
    assert {(start, city): most for start, city, _, most in written} == {(m, c): most for m, c, _, most in batch}
    # A sum of doubles depends on the order of the summands.
    revenues = {(minute, city): pytest.approx(revenue) for minute, city, revenue, _ in batch}
    assert {(start, city): revenue for start, city, revenue, _ in written} == revenues
