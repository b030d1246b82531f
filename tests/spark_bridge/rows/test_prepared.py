"""Tests that the plan of a function is built once, and gives the results of the function for each batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flykka.spark_bridge.rows.prepared import Prepared, StableColumns, is_of_columns, with_columns_of
from flykka.spark_bridge.session.session import engine_session

pytestmark = pytest.mark.spark


class Counted:
    """Counts its calls. A prepared function is called for the first batch only."""

    def __init__(self, function: Callable[[DataFrame], DataFrame]) -> None:
        self._function = function
        self.calls = 0

    def __call__(self, rows: DataFrame) -> DataFrame:
        self.calls += 1
        return self._function(rows)


def batch(session: SparkSession, *numbers: int) -> DataFrame:
    names = pa.array([str(each) for each in numbers], pa.string())
    return session.createDataFrame(pa.table({"id": pa.array(numbers, pa.int64()), "name": names}))


def twice(rows: DataFrame) -> DataFrame:
    return rows.select("name", (F.col("id") * 2).alias("twice")).where("twice > 2")


def most_of_group(rows: DataFrame) -> DataFrame:
    groups = rows.groupBy((F.col("id") % 2).alias("odd")).agg(F.max("id").alias("id"))
    return groups.unionAll(groups.where("id > 3")).orderBy("id").limit(3)


def with_itself(rows: DataFrame) -> DataFrame:
    return rows.join(
        rows.where("id > 1").select(F.col("id").alias("other")), F.col("id") == F.col("other"), "left_semi"
    )


@pytest.mark.parametrize("function", [twice, most_of_group, with_itself])
@pytest.mark.parametrize("stored", ["in the driver", "in blocks", "in files"])
def test_a_function_is_called_for_the_first_batch_only(
    spark: SparkSession, tmp_path: Path, function: Callable[[DataFrame], DataFrame], stored: str
) -> None:
    engine, columns = engine_session(spark), StableColumns()
    counted = Counted(function)
    prepared = Prepared(counted)

    for number, numbers in enumerate([(1, 2, 3), (4, 5), (), (1, 1, 9)]):
        rows = batch(engine, *numbers)
        if stored == "in blocks":
            rows = rows.localCheckpoint()
        elif stored == "in files":
            rows.write.parquet(f"{tmp_path}/{number}")
            rows = engine.read.schema(rows.schema).parquet(f"{tmp_path}/{number}")
        assert sorted(prepared(columns.of(rows)).collect()) == sorted(function(rows).collect())

    assert counted.calls == 1


def test_prepared_functions_follow_each_other(spark: SparkSession) -> None:
    engine, columns = engine_session(spark), StableColumns()
    second = Counted(lambda rows: rows.groupBy("name").agg(F.sum("twice").alias("sum")))
    functions = Prepared(twice), Prepared(second)

    for numbers in [(1, 2), (3, 3)]:
        rows = columns.of(batch(engine, *numbers))
        for each in functions:
            rows = each(rows)
        expected = twice(batch(engine, *numbers)).groupBy("name").agg(F.sum("twice").alias("sum"))
        assert sorted(rows.collect()) == sorted(expected.collect())

    assert second.calls == 1


def test_batches_with_other_columns_have_plans_of_their_own(spark: SparkSession) -> None:
    engine, columns = engine_session(spark), StableColumns()
    prepared = Prepared(lambda rows: rows.select(F.col("id") + 1))

    results = [
        prepared(columns.of(engine.createDataFrame([(number,)], schema))).collect()
        for number, schema in ((1, "id bigint"), (1.0, "id double"), (1, "id bigint"), (1.0, "id double"))
    ]

    assert results == [[(2,)], [(2.0,)], [(2,)], [(2.0,)]]


@pytest.mark.parametrize(
    "function",
    [
        lambda rows: rows.withColumn("random", F.expr("rand()")),
        lambda rows: rows.mapInArrow(lambda batches: batches, rows.schema),
        lambda rows: rows.join(rows.sparkSession.range(3), "id"),
    ],
)
def test_a_plan_that_may_differ_between_batches_is_not_used_again(
    spark: SparkSession, function: Callable[[DataFrame], DataFrame]
) -> None:
    engine, columns, counted = engine_session(spark), StableColumns(), Counted(function)
    prepared = Prepared(counted)

    for _ in range(3):
        prepared(columns.of(batch(engine, 1, 2)))

    assert counted.calls == 3


def test_rows_of_an_unknown_plan_are_passed_to_the_function(spark: SparkSession) -> None:
    rows = batch(engine_session(spark), 1, 2).where("id > 1")

    assert StableColumns().of(rows) is rows
    assert Prepared(twice)(rows).collect() == [("2", 4)]


def test_a_frame_with_the_same_columns_can_take_the_place_of_the_rows(spark: SparkSession) -> None:
    columns, counted = StableColumns(), Counted(twice)
    prepared = Prepared(counted)

    for _ in range(2):
        rows = columns.of(batch(engine_session(spark), 1, 2))
        prepared(with_columns_of(rows.coalesce(1), rows))

    assert counted.calls == 1
    assert not is_of_columns(twice)
