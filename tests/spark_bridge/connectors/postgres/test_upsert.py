"""Tests that an upserting PostgresSink stores the last row of each key in its table, and reports missing keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from flykka.spark_bridge.connectors.postgres.sink import PostgresSink
from tests.spark_bridge.connectors.postgres.server import Database
from tests.spark_bridge.connectors.postgres.writing import Writing, expect_refusal

pytestmark = [pytest.mark.spark, pytest.mark.slow]


CHANGES = "id long, name string, row_kind string, at long"


def changing(database: Database, **more: Any) -> PostgresSink:
    database.run("CREATE TABLE names (id bigint PRIMARY KEY, name text)")
    return PostgresSink.upsert(database.conninfo, "names", keys=["id"], row_kind="row_kind", sequence_by="at", **more)


def test_the_last_change_of_a_key_and_deletions_are_applied(
    spark: SparkSession, database: Database, writing: Callable[[PostgresSink], Writing]
) -> None:
    writer = writing(changing(database))
    first = [(1, "a", "+I", 1), (2, "b", "+I", 2), (1, "A", "+U", 4), (1, "a", "-U", 3), (3, "c", "+I", 5)]
    second = [(2, None, "-D", 7), (3, None, "-D", 8), (3, "C", "+I", 9), (4, None, "-D", 10)]

    writer.publish(spark.createDataFrame(first, CHANGES))
    after_first = sorted(database.rows("SELECT * FROM names"))
    writer.publish(spark.createDataFrame(second, CHANGES))

    assert after_first == [(1, "A"), (2, "b"), (3, "c")]
    assert sorted(database.rows("SELECT * FROM names")) == [(1, "A"), (3, "C")]


def test_a_row_older_than_the_stored_row_is_ignored(
    spark: SparkSession, database: Database, writing: Callable[[PostgresSink], Writing]
) -> None:
    database.run("CREATE TABLE names (id bigint PRIMARY KEY, name text, at bigint)")
    sink = PostgresSink.upsert(database.conninfo, "names", keys=["id"], row_kind="row_kind", sequence_by=["at"])
    writer = writing(sink)

    writer.publish(spark.createDataFrame([(1, "new", "+I", 9), (2, "new", "+I", 9)], CHANGES))
    writer.publish(spark.createDataFrame([(1, "old", "+U", 8), (2, "old", "-D", 8)], CHANGES))

    assert sorted(database.rows("SELECT * FROM names")) == [(1, "new", 9), (2, "new", 9)]


def test_conflicting_rows_of_one_key_are_refused(
    spark: SparkSession, database: Database, writing: Callable[[PostgresSink], Writing]
) -> None:
    tied = writing(changing(database))
    unordered = writing(PostgresSink.upsert(database.conninfo, "names", keys=["id"]))
    rows = spark.createDataFrame([(7, "a"), (7, "b")], "id long, name string")

    with expect_refusal(r"several rows with the key id = 7 have equal values in at: add another column"):
        tied.publish(spark.createDataFrame([(7, "a", "+I", 1), (7, "b", "+U", 1)], CHANGES))
    with expect_refusal(r"several rows have the key id = 7: name the column that orders them"):
        unordered.publish(rows)

    assert database.rows("SELECT * FROM names") == []


def test_equal_rows_are_merged(
    spark: SparkSession, database: Database, writing: Callable[[PostgresSink], Writing]
) -> None:
    database.run("CREATE TABLE names (id bigint PRIMARY KEY, name text)")

    writing(PostgresSink.upsert(database.conninfo, "names", keys=["id"])).publish(
        spark.createDataFrame([(7, "a"), (7, "a")], "id long, name string")
    )

    assert database.rows("SELECT * FROM names") == [(7, "a")]


def test_an_unknown_row_kind_is_refused(
    spark: SparkSession, database: Database, writing: Callable[[PostgresSink], Writing]
) -> None:
    with expect_refusal(r"the column 'row_kind' contains c, which is not a kind of row"):
        writing(changing(database)).publish(spark.createDataFrame([(7, "a", "c", 1)], CHANGES))
