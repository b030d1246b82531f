"""Tests that percent signs, backticks, dots and quotes are allowed in names of schemas, tables and columns."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from flykka.spark_bridge.connectors.postgres.sink import PostgresSink
from tests.spark_bridge.connectors.postgres.server import Database
from tests.spark_bridge.connectors.postgres.writing import Writing

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NAMES = ("100%", "%s", "b`ack", "a.b", 'q"uote', "Mixed Case", "{}", "größe")
SCHEMA = StructType([StructField("user", LongType()), *(StructField(name, StringType()) for name in NAMES)])
ROWS = [(1, *(f"one {name}" for name in NAMES)), (2, *(f"two {name}" for name in NAMES))]
TABLE = '"50% `off`"."Order %s.2"'


def quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.fixture
def odd(database: Database) -> Database:
    columns = ", ".join(f"{quoted_name(name)} text" for name in NAMES)
    database.run(
        'CREATE SCHEMA "50% `off`"',
        f'CREATE TABLE {TABLE} ("user" bigint PRIMARY KEY, {columns})',
        f"INSERT INTO {TABLE} VALUES (1)",
    )
    return database


def test_rows_are_appended_to_a_table_with_special_characters_in_names(
    spark: SparkSession, odd: Database, writing: Callable[[PostgresSink], Writing]
) -> None:
    odd.run(f"DELETE FROM {TABLE}")
    writing(PostgresSink.append(odd.conninfo, TABLE)).publish(spark.createDataFrame(ROWS, SCHEMA))

    assert odd.rows(f'SELECT * FROM {TABLE.replace("%", "%%")} ORDER BY "user"') == ROWS


def test_rows_are_replaced_in_a_table_with_special_characters_in_names(
    spark: SparkSession, odd: Database, writing: Callable[[PostgresSink], Writing]
) -> None:
    sink = PostgresSink.upsert(odd.conninfo, TABLE, keys=["user"], sequence_by="a.b")
    writing(sink).publish(spark.createDataFrame(ROWS, SCHEMA))

    assert odd.rows(f'SELECT * FROM {TABLE.replace("%", "%%")} ORDER BY "user"') == ROWS


def test_a_table_with_special_characters_in_names_is_created(
    spark: SparkSession, odd: Database, writing: Callable[[PostgresSink], Writing]
) -> None:
    odd.run(f"DROP TABLE {TABLE}")
    sink = PostgresSink.upsert(odd.conninfo, TABLE, keys=["user", "100%"]).create_table()
    writing(sink).publish(spark.createDataFrame(ROWS, SCHEMA))

    assert odd.rows(f'SELECT * FROM {TABLE.replace("%", "%%")} ORDER BY "user"') == ROWS
