"""Tests of rows in the driver: which rows are computed without a job, and that values stay the same."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flykka.spark_bridge.rows.local_rows import LocalRows, are_local, collected_rows, local_rows, rows_of_table
from flykka.spark_bridge.session.session import engine_session, jobs_run

pytestmark = pytest.mark.spark

COLUMNS = (
    "id bigint, name string, price decimal(20, 3), at timestamp, day date, ratio double, tags array<string>,"
    " place struct<x: int, y: map<string, bigint>>, raw binary"
)
ROWS = [
    (
        1,
        "é",
        Decimal("12345678901234567.891"),
        datetime(1969, 12, 31, 23, 59, 59, 1, UTC),
        date(1, 1, 1),
        float("inf"),
        ["a", None],
        (1, {"k": 2}),
        b"\x00",
    ),
    (None,) * 9,
]


@pytest.fixture
def engine(spark: SparkSession) -> SparkSession:
    return engine_session(spark)


def rows_in_driver(engine: SparkSession) -> DataFrame:
    rows = engine.createDataFrame(ROWS, COLUMNS)
    return rows_of_table(engine, rows.toArrow(), rows.schema)


def test_projections_of_local_rows_need_no_job(engine: SparkSession) -> None:
    rows = rows_in_driver(engine).where("id > 0").select("name", (F.col("id") + 1).alias("next"))
    before = jobs_run()

    local = local_rows(rows)

    assert jobs_run() == before
    assert local is not None
    assert local.rows == 1
    assert local.table().to_pylist() == [{"name": "é", "next": 2}]
    assert local.frame.collect() == [("é", 2)]


def test_other_plans_need_a_job(engine: SparkSession) -> None:
    rows = rows_in_driver(engine)

    assert local_rows(rows.groupBy("name").count()) is None
    assert not are_local(engine.range(3))
    assert local_rows(rows.select(F.udf(lambda name: name)("name"))) is None


def test_stored_rows_are_moved_into_the_driver(engine: SparkSession) -> None:
    stored = engine.createDataFrame(ROWS, COLUMNS).localCheckpoint()

    local = collected_rows(stored.where("id is not null"))

    assert local is not None
    assert are_local(local.frame)
    assert local.frame.schema == stored.schema
    assert local.frame.collect() == stored.where("id is not null").collect()


def test_a_plan_that_may_make_more_rows_is_not_collected(engine: SparkSession) -> None:
    stored = engine.range(2).localCheckpoint()

    assert collected_rows(stored.select(F.explode(F.array_repeat("id", 1000)))) is None
    assert collected_rows(stored.select(F.parse_json(F.lit("1")))) is None


def test_arrow_preserves_all_values(engine: SparkSession) -> None:
    rows = engine.createDataFrame(ROWS, COLUMNS)
    local = LocalRows.of_frame(rows_in_driver(engine))
    assert local is not None

    copied = rows_of_table(engine, local.table(), rows.schema)

    assert local.frame.collect() == copied.collect() == rows.collect()
    assert local.frame.schema == copied.schema == rows.schema


def test_appended_rows_may_be_null_in_other_columns(engine: SparkSession) -> None:
    columns = "CAST(null AS bigint) AS left, id AS right", "id AS left, CAST(null AS bigint) AS right"
    first, second = (
        local_rows(rows_of_table(engine, pa.table({"id": [7]}), engine.range(0).schema).selectExpr(*each.split(", ")))
        for each in columns
    )
    assert first is not None
    assert second is not None

    both = first.followed_by([second]).frame

    assert both.where("left IS NULL").collect() == [(None, 7)]
    assert both.where("right IS NULL").collect() == [(7, None)]


def test_local_rows_are_appended_in_order(engine: SparkSession) -> None:
    first, second, third = (
        LocalRows.of_frame(rows_of_table(engine, pa.table({"id": pa.array(ids, pa.int64())}), engine.range(0).schema))
        for ids in ([3, 1], [], [2])
    )
    assert first is not None
    assert second is not None
    assert third is not None

    assert [row.id for row in first.followed_by([second, third]).frame.collect()] == [3, 1, 2]
