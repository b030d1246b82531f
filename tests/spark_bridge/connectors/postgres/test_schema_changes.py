"""Tests that a PostgresCdcSource fails its job if the table's columns change, or warns of added columns."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from flykka.spark_bridge.connectors.postgres.cdc_source import PostgresCdcSource
from flykka.spark_bridge.errors import SchemaChangedError
from tests.spark_bridge.connectors.postgres.reading import changes_since, discover_all_splits, read_by
from tests.spark_bridge.connectors.postgres.server import Database
from tests.spark_bridge.connectors.postgres.writing import expect_refusal

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_an_added_column_fails_the_job_at_the_next_discovery(
    spark: SparkSession, database: Database, table: PostgresCdcSource
) -> None:
    bound = table.bound(spark, None)
    begun = discover_all_splits(bound)
    database.run("ALTER TABLE names ADD COLUMN more int")

    with pytest.raises(SchemaChangedError, match=r"postgres-cdc names .*'more' was added\. Run the program again"):
        discover_all_splits(bound, begun.position)


def test_a_rerun_job_reads_added_columns_from_its_checkpoint(
    spark: SparkSession, database: Database, table: PostgresCdcSource
) -> None:
    begun = discover_all_splits(table)
    database.run(
        "INSERT INTO names VALUES (1, 'a'), (2, 'b')",
        "DELETE FROM names WHERE id = 2",
        "ALTER TABLE names ADD COLUMN more int, ADD COLUMN size text NOT NULL DEFAULT 'small'",
        "INSERT INTO names VALUES (3, 'c', 3, 'large')",
    )

    assert changes_since(spark, table, begun.position) == [
        (1, "a", None, "small", "+I"),
        (2, "b", None, "small", "+I"),
        (2, None, None, None, "-D"),
        (3, "c", 3, "large", "+I"),
    ]


def test_an_added_column_with_unknown_older_values_is_refused(
    spark: SparkSession, database: Database, table: PostgresCdcSource
) -> None:
    begun = discover_all_splits(table)
    database.run("INSERT INTO names VALUES (1, 'a')", "ALTER TABLE names ADD COLUMN chance float DEFAULT random()")

    with expect_refusal(r"public.names had no column 'chance' when a row was changed at"):
        changes_since(spark, table, begun.position)


def test_an_ignored_column_is_reported_at_once_and_again_when_read(
    spark: SparkSession, database: Database, table: PostgresCdcSource, caplog: pytest.LogCaptureFixture
) -> None:
    bound = replace(table, on_schema_change="ignore").bound(spark, None)
    begun = discover_all_splits(bound)
    database.run("ALTER TABLE names ADD COLUMN more int", "INSERT INTO names VALUES (1, 'a', 1)")

    added = discover_all_splits(bound, begun.position)
    rows = read_by(spark, bound, added)
    database.run("INSERT INTO names VALUES (2, 'b', 2)")
    later = discover_all_splits(bound, added.position)
    while_it_ran = [record.getMessage() for record in caplog.records]
    caplog.clear()
    again = discover_all_splits(table.bound(spark, None), later.position)
    discover_all_splits(table.bound(spark, None), again.position)

    assert rows == [(1, "a", "+I")]
    assert len(while_it_ran) == 1
    assert "the column 'more' was added while the job runs" in while_it_ran[0]
    (missed,) = (record.getMessage() for record in caplog.records)
    assert "were read without the column 'more', and cannot be read again" in missed


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("DROP COLUMN name", "'name' was dropped"),
        ("RENAME COLUMN name TO title", "'name' is called 'title'"),
        ("ALTER COLUMN name TYPE varchar(9)", r"'name' is character varying\(9\), but was text"),
    ],
)
def test_a_dropped_renamed_or_retyped_column_always_fails_the_job(
    spark: SparkSession, database: Database, table: PostgresCdcSource, change: str, text: str
) -> None:
    bound = replace(table, on_schema_change="ignore").bound(spark, None)
    begun = discover_all_splits(bound)
    database.run(f"ALTER TABLE names {change}")

    with pytest.raises(SchemaChangedError, match=text):
        discover_all_splits(bound, begun.position)


def test_a_change_with_an_added_column_is_refused_before_its_discovery(
    spark: SparkSession, database: Database, table: PostgresCdcSource
) -> None:
    bound = table.bound(spark, None)
    begun = discover_all_splits(bound)
    database.run("ALTER TABLE names ADD COLUMN more int", "INSERT INTO names VALUES (1, 'a', 1)")
    discovered = discover_all_splits(table, begun.position)

    with expect_refusal("'more' was added"):
        read_by(spark, bound, discovered)


# The error is the same as for an added column whose older values are unknown.
@pytest.mark.long
def test_a_renamed_column_is_not_treated_as_an_added_one(
    spark: SparkSession, database: Database, table: PostgresCdcSource
) -> None:
    begun = discover_all_splits(table)
    database.run("INSERT INTO names VALUES (1, 'a')", "ALTER TABLE names RENAME COLUMN name TO title")

    with expect_refusal(r"public.names had no column 'title' when a row was changed at"):
        changes_since(spark, table, begun.position)
