"""Tests functions that may be called with slices of a batch, because they map each row independently."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from flykka.spark_bridge.operators.stateless import LocalAggregateCode
from flykka.spark_bridge.program.row_wise import works_row_by_row
from tests.spark_bridge.harness import END, Harness, transform, write_rows

pytestmark = pytest.mark.spark

Function = Callable[[DataFrame], DataFrame]


def same(number: int) -> int:
    return number


ROW_BY_ROW: dict[str, Function] = {
    "select": lambda rows: rows.select("key", (F.col("amount") * 2).alias("amount"), "at"),
    "where": lambda rows: rows.where("amount > 3").where(F.col("key").isNotNull()),
    "alias": lambda rows: rows.alias("a").where("a.key > 2"),
    "columns": lambda rows: rows.withColumn("new", F.current_timestamp()).withColumnRenamed("key", "k").drop("at"),
    "filled": lambda rows: rows.fillna(0),
    "python": lambda rows: rows.withColumn("same", F.udf(same, "long")("key")),
}

WHOLE: dict[str, Function] = {
    "deduplicated": lambda rows: rows.dropDuplicates(["key"]),
    "limited": lambda rows: rows.limit(5),
    "aggregated": lambda rows: rows.groupBy("key").agg(F.max("at").alias("at")),
    "numbered": lambda rows: rows.withColumn("n", F.row_number().over(Window.partitionBy("key").orderBy("at"))),
    "joined": lambda rows: rows.join(rows.groupBy("key").count(), "key"),
    "compared": lambda rows: rows.where(F.col("amount") > rows.select(F.max("amount")).scalar()),
    "sampled": lambda rows: rows.sample(0.5),
    "drawn": lambda rows: rows.where(F.rand() > 0.5),
    "counted": lambda rows: rows.withColumn("id", F.monotonically_increasing_id()),
    "unlike": lambda rows: rows.withColumn("same", F.udf(same, "long").asNondeterministic()("key")),
    "in pandas": lambda rows: rows.mapInPandas(lambda parts: parts, rows.schema),
    "looked at": lambda rows: rows.where(F.col("amount") > rows.count()),
    "another's": lambda rows: rows.sparkSession.range(3).withColumnRenamed("id", "key"),
    "failing": lambda rows: rows.select("no such column"),
}


@pytest.mark.parametrize("function", ROW_BY_ROW.values(), ids=ROW_BY_ROW.keys())
def test_row_wise_functions_may_be_sliced(spark: SparkSession, function: Function) -> None:
    schema = spark.createDataFrame([], "key long, amount long, at timestamp").schema

    assert works_row_by_row(spark, schema, [function])


@pytest.mark.parametrize("function", WHOLE.values(), ids=WHOLE.keys())
def test_functions_across_rows_receive_all_rows(spark: SparkSession, function: Function) -> None:
    schema = spark.createDataFrame([], "key long, amount long, at timestamp").schema

    assert not works_row_by_row(spark, schema, [function])
    assert not works_row_by_row(spark, schema, [ROW_BY_ROW["where"], function])


def test_slicing_is_allowed_without_a_function(spark: SparkSession) -> None:
    schema = spark.createDataFrame([], "key struct<a: int, b: array<string>>").schema

    assert works_row_by_row(spark, schema, [])
    assert works_row_by_row(spark, schema, [lambda rows: rows])


@pytest.mark.slow
def test_a_function_across_rows_before_windows_receives_the_whole_batch(harness: Harness) -> None:
    for number in range(2):
        write_rows(harness.input / f"{number}.parquet", [(1, 10, 0.0), (number + 2, 20, 0.5)])
    windows = harness.windows()
    once = transform(lambda rows: rows.dropDuplicates(["key"]))
    source = harness.begin(harness.source(once, LocalAggregateCode(of=windows), per_batch=2)).open()
    window = harness.begin(harness.vertex("windows", windows, harness.sink()), reads=source).open()

    window.run(source.read(harness.splits(source.engine.descriptor.vertex)))
    window.snapshot(1, END)
    window.commit(1)

    assert sorted((row.key, row.n) for row in harness.published().collect()) == [(1, 1), (2, 1), (3, 1)]
