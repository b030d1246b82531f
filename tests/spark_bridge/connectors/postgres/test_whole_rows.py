"""Tests that a sink of changes keeps equal rows as often as they were added and not removed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from flykka.spark_bridge.connectors.postgres.sink import PostgresSink
from tests.spark_bridge.connectors.postgres.server import Database
from tests.spark_bridge.connectors.postgres.writing import Writing, expect_refusal

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CHANGES = "id long, price double, tags array<string>, kind string"
TABLE = "id bigint, price float8, tags json, since timestamptz NOT NULL DEFAULT now()"
ROWS = "SELECT id, price, tags::text FROM rows ORDER BY id NULLS FIRST, price"


@pytest.fixture
def writer(database: Database, writing: Callable[[PostgresSink], Writing]) -> Writing:
    database.run(f"CREATE TABLE rows ({TABLE}) PARTITION BY LIST (id)")
    database.run(
        "CREATE TABLE ones PARTITION OF rows FOR VALUES IN (1)", "CREATE TABLE others PARTITION OF rows DEFAULT"
    )
    return writing(PostgresSink.apply_changes(database.conninfo, "rows", row_kind="kind"))


def test_one_of_several_equal_rows_is_removed_for_each_change(
    spark: SparkSession, database: Database, writer: Writing
) -> None:
    nan = float("nan")
    first: list[tuple[object, ...]] = [(1, 0.5, ["a"], "+I")] * 3 + [
        (None, nan, None, "+I"),
        (None, nan, None, "+U"),
        (2, None, [], "+I"),
    ]
    second = [
        (1, 0.5, ["a"], "-D"),
        (1, 0.5, ["a"], "-U"),
        (None, nan, None, "-D"),
        (2, None, [], "-U"),
        (2, 1.0, [], "+U"),
        # A row may be removed before it is added; then the table does not contain the row.
        (3, 1.0, None, "-D"),
        (3, 1.0, None, "+I"),
    ]

    writer.publish(spark.createDataFrame(first, CHANGES))
    after_first = database.rows(ROWS)
    writer.publish(spark.createDataFrame(second, CHANGES))

    assert [(key, tags) for key, _, tags in after_first] == [(None, None)] * 2 + [(1, '["a"]')] * 3 + [(2, "[]")]
    assert [(key, tags) for key, _, tags in database.rows(ROWS)] == [(None, None), (1, '["a"]'), (2, "[]")]
    assert database.rows("SELECT price FROM rows WHERE id = 2") == [(1.0,)]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ((1, 0.5, None, "-D"), r"rows does not have the row \(1,0\.5,\) as often as it is removed"),
        ((1, 0.5, None, "+X"), r"the column 'kind' contains \+X, which is not a kind of row"),
    ],
)
def test_a_change_that_does_not_fit_the_table_is_refused(
    spark: SparkSession, database: Database, writer: Writing, change: tuple[object, ...], why: str
) -> None:
    with expect_refusal(why):
        writer.publish(spark.createDataFrame([(2, 1.0, None, "+I"), change], CHANGES))

    assert database.rows(ROWS) == []


def test_rows_without_the_column_of_kinds_are_refused(spark: SparkSession, database: Database) -> None:
    with expect_refusal("needs the column 'row_kind', but the rows have id"):
        PostgresSink.apply_changes(database.conninfo, "rows").check_rows(spark.range(1))
