"""Tests which operations that span several rows are detected in the analyzed Spark plan of a batch function."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from flykka.spark_bridge.program.across_rows import across_rows

pytestmark = pytest.mark.spark

Function = Callable[[DataFrame], DataFrame]
SCHEMA = "key long, amount long, at timestamp"


def static(rows: DataFrame) -> DataFrame:
    """Return rows of a static table after aggregation, sort, limit and rank."""
    names = rows.sparkSession.range(9).groupBy((F.col("id") % 3).alias("key")).agg(F.max("id").alias("name"))
    return names.orderBy("name").limit(2).withColumn("n", F.row_number().over(Window.orderBy("name")))


def latest(rows: DataFrame) -> DataFrame:
    number = F.row_number().over(Window.partitionBy("key").orderBy(F.desc("at")))
    return rows.withColumn("n", number).where("n = 1")


def query(text: str) -> Function:
    def run_query(rows: DataFrame) -> DataFrame:
        rows.createOrReplaceTempView("rows_of_a_batch")
        return rows.sparkSession.sql(text)

    return run_query


ROW_BY_ROW: dict[str, Function] = {
    "the same": lambda rows: rows,
    "columns": lambda rows: rows.select("*", F.rand().alias("r")).where("r > 0.5").drop("r").fillna(0),
    "several of one": lambda rows: rows.select(F.explode(F.sequence(F.lit(1), "key"))),
    "in pandas": lambda rows: rows.mapInPandas(lambda parts: parts, rows.schema),
    "other partitions": lambda rows: rows.repartition(3, "key").sortWithinPartitions("at"),
    "sampled": lambda rows: rows.sample(fraction=0.5, seed=1),
    "united with itself": lambda rows: rows.where("key > 1").union(rows.where("key < 3")),
    "joined": lambda rows: rows.join(static(rows), "key", "left"),
    "joined from the other side": lambda rows: static(rows).join(rows, "key", "right"),
    "without those that others have": lambda rows: rows.join(static(rows), "key", "left_anti"),
    "compared with others": lambda rows: rows.where(F.col("amount") > static(rows).select(F.max("name")).scalar()),
    "others alone": static,
}

ACROSS_ROWS: dict[str, tuple[Function, str]] = {
    "aggregated": (lambda rows: rows.groupBy("key").count(), "aggregates"),
    "aggregated in all ways": (lambda rows: rows.cube("key").agg(F.max("at")), "aggregates"),
    "pivoted": (lambda rows: rows.groupBy("key").pivot("amount", [1, 2]).count(), "aggregates"),
    "described": (lambda rows: rows.describe("amount"), "aggregates"),
    "one of each": (lambda rows: rows.dropDuplicates(["key"]), "removes duplicates"),
    "distinct": (lambda rows: rows.select("key").distinct(), "removes duplicates"),
    "sorted": (lambda rows: rows.orderBy("at"), "sorts"),
    "the first": (lambda rows: rows.limit(3), "limits"),
    "without the first": (lambda rows: rows.offset(3), "limits"),
    "ranked": (latest, "uses a window"),
    "groups": (lambda rows: rows.groupBy("key").applyInPandas(lambda group: group, rows.schema), "gives groups"),
    "both": (lambda rows: rows.intersect(rows.where("key > 1")), "compares sets"),
    "not those": (lambda rows: rows.exceptAll(static(rows).select("key", "name", F.now())), "compares sets"),
    "counted": (lambda rows: rows.select((F.monotonically_increasing_id() + 1).alias("id")), "numbers"),
    "numbered": (lambda rows: rows.zipWithIndex(), "numbers"),
    "with itself": (lambda rows: rows.alias("a").join(rows.alias("b"), "key"), "joins rows of the stream"),
    "with a query": (query("SELECT * FROM rows_of_a_batch WHERE key IN (SELECT amount FROM rows_of_a_batch)"), "joins"),
    "with others": (lambda rows: rows.union(rows.sparkSession.createDataFrame([], SCHEMA)), "adds rows"),
    "joined, and others kept": (lambda rows: rows.join(static(rows), "key", "full"), "joins so that"),
    "others that match": (lambda rows: static(rows).join(rows, "key", "left_semi"), "joins so that"),
}


def found_in(rows: DataFrame, function: Function) -> list[str]:
    return [each.does for each in across_rows(rows, function(rows))]


@pytest.mark.parametrize("function", ROW_BY_ROW.values(), ids=ROW_BY_ROW.keys())
def test_row_wise_operations_are_not_reported(spark: SparkSession, function: Function) -> None:
    assert found_in(spark.createDataFrame([], SCHEMA), function) == []


@pytest.mark.parametrize(("function", "begins"), ACROSS_ROWS.values(), ids=ACROSS_ROWS.keys())
def test_operations_across_rows_are_detected(spark: SparkSession, function: Function, begins: str) -> None:
    (operations,) = found_in(spark.createDataFrame([], SCHEMA), function)

    assert operations.startswith(begins)


def test_operations_are_reported_once_each_in_execution_order(spark: SparkSession) -> None:
    text = """WITH latest AS (SELECT key, max(amount) AS most FROM rows_of_a_batch GROUP BY key)
        SELECT key, rank() OVER (ORDER BY most) AS r FROM latest GROUP BY key, most ORDER BY r LIMIT 3"""

    operations = found_in(spark.createDataFrame([], SCHEMA), query(text))

    expected = ["aggregates rows", "uses a window function", "sorts rows", "limits rows"]
    assert [each.split(" (")[0] for each in operations] == expected


def test_operations_before_the_function_are_not_reported(spark: SparkSession) -> None:
    windows = spark.createDataFrame([], SCHEMA).groupBy("key", "at").agg(F.sum("amount").alias("amount"))
    named = windows.join(static(windows).select("key"), "key")

    assert found_in(named, ROW_BY_ROW["columns"]) == []
    assert [each.split(" (")[0] for each in found_in(named, latest)] == ["uses a window function"]
