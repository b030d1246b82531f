"""Tests PostgreSQL tables in SQL: inserts and upserts into them, and changes read from them."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from flykka import JobClient, StreamExecutionEnvironment
from flykka.errors import SqlError
from tests.spark_bridge.connectors.postgres.server import Database

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

PATIENCE_SECONDS = 120


def test_changes_of_one_table_are_counted_into_another(spark: SparkSession, database: Database) -> None:
    database.run(
        "CREATE TABLE orders (id bigint PRIMARY KEY, item text)",
        "INSERT INTO orders SELECT number, 'item ' || number % 3 FROM generate_series(1, 100) AS number",
        "CREATE TABLE counts (item text PRIMARY KEY, n bigint)",
        "CREATE TABLE firsts (item text PRIMARY KEY, n bigint)",
        "CREATE TABLE pairs (item text PRIMARY KEY, n bigint)",
        "INSERT INTO pairs VALUES ('item 0', 1)",
        "CREATE TABLE numbers (n bigint)",
    )
    options = f"conninfo '{database.conninfo}'"

    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.execute_sql(
            "CREATE TABLE orders (id BIGINT, item STRING, PRIMARY KEY (id) NOT ENFORCED) USING postgres"
            f" OPTIONS ({options}, table 'orders', slot 'slot_{database.name}', bounded true)"
        )
        columns = "(item STRING, n BIGINT, PRIMARY KEY (item) NOT ENFORCED)"
        for table in ("firsts", "pairs"):
            env.execute_sql(f"CREATE TABLE {table} {columns} USING postgres OPTIONS ({options}, table '{table}')")
        env.execute_sql(
            f"CREATE TABLE counts {columns} USING postgres OPTIONS ({options}, table 'counts', sequence_by 'n')"
        )
        query = "SELECT item, count(*) AS n FROM orders GROUP BY item"
        env.execute_sql(
            f"CREATE TABLE changes (item STRING) USING postgres OPTIONS ({options}, table 'orders', slot 's')"
        )
        with pytest.raises(SqlError, match="a column row_kind STRING gives all changes as rows"):
            env.execute_sql("INSERT INTO counts SELECT item, 1 FROM changes")
        with pytest.raises(SqlError, match="the option 'slot' is missing"):
            env.execute_sql("INSERT INTO counts SELECT * FROM firsts")
        together = env.create_statement_set().add_insert_sql(f"INSERT INTO counts {query}")
        together.add_insert_sql("INSERT INTO firsts SELECT item, id FROM orders ON CONFLICT DO NOTHING")
        # Without sequence_by the sink gets one row per key and checkpoint.
        together.add_insert_sql(f"INSERT INTO pairs {query}")
        env.execute_sql(f"CREATE TABLE numbers (n BIGINT) USING postgres OPTIONS ({options}, table 'numbers')")
        together.add_insert_sql(f"INSERT INTO numbers SELECT n FROM ({query})")
        together.execute().wait(timeout=PATIENCE_SECONDS)

    counts = [("item 0", 33), ("item 1", 34), ("item 2", 33)]
    assert database.rows("SELECT item, n FROM counts ORDER BY item") == counts
    assert database.rows("SELECT item, n FROM pairs ORDER BY item") == counts
    assert database.rows("SELECT n FROM numbers ORDER BY n") == [(33,), (33,), (34,)]
    firsts = [("item 0", 3), ("item 1", 1), ("item 2", 2)]
    assert database.rows("SELECT item, n FROM firsts ORDER BY item") == firsts


def test_an_sql_table_has_rules_for_unreadable_values_but_no_side_output(
    spark: SparkSession, database: Database
) -> None:
    database.run(
        "CREATE TABLE days (id bigint PRIMARY KEY, day date)",
        "INSERT INTO days VALUES (1, 'infinity')",
        "CREATE TABLE copies (id bigint PRIMARY KEY, day date)",
    )
    options = f"conninfo '{database.conninfo}'"
    read = f"{options}, table 'days', slot 'slot_{database.name}', bounded true, on_truncate 'ignore'"
    columns = "(id BIGINT, day DATE, PRIMARY KEY (id) NOT ENFORCED)"

    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.execute_sql(
            f"CREATE TABLE copies {columns} USING postgres OPTIONS ({options}, table 'copies', sequence_by 'day')"
        )
        with pytest.raises(SqlError, match="the option 'on_unreadable' is one of fail, null, not 'side-output'"):
            env.execute_sql(
                f"CREATE TABLE aside {columns} USING postgres OPTIONS ({read}, on_unreadable 'side-output')"
            )
        env.execute_sql(f"CREATE TABLE days {columns} USING postgres OPTIONS ({read}, on_unreadable 'null')")
        client = env.execute_sql("INSERT INTO copies SELECT id, day FROM days")
        assert isinstance(client, JobClient)
        client.wait(timeout=60)

    assert database.rows("SELECT * FROM copies") == [(1, None)]
