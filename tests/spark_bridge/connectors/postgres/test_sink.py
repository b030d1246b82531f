"""Tests that a PostgresSink writes the rows of a checkpoint once, all or none of them, in any attempt."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from pyspark.sql import SparkSession

from flykka.connectors.testing import Row
from flykka.spark_bridge.connectors.postgres.sink import PostgresSink
from tests.spark_bridge.connectors.contracts import ShortestSinkContract
from tests.spark_bridge.connectors.postgres.server import Database
from tests.spark_bridge.connectors.postgres.writing import (
    DEADLINE_S,
    Writing,
    expect_refusal,
    in_background,
    process_waiting_in,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class PostgresContract(ShortestSinkContract):
    database: Database

    @pytest.fixture(autouse=True)
    def _table(self, database: Database) -> None:
        self.database = database
        database.run("CREATE TABLE names (id bigint PRIMARY KEY, name text)")

    def published(self) -> list[Row]:
        return self.database.rows("SELECT id, name FROM names")


@pytest.mark.long
class TestAppend(PostgresContract):
    def sink(self) -> PostgresSink:
        return PostgresSink.append(self.database.conninfo, "names")


class TestUpsert(PostgresContract):
    def sink(self) -> PostgresSink:
        return PostgresSink.upsert(self.database.conninfo, "names", keys=["id"])


def test_a_killed_transaction_publishes_no_rows_and_the_next_publishes_all(
    spark: SparkSession, database: Database, writing: Callable[[PostgresSink], Writing]
) -> None:
    database.run("CREATE TABLE names (id bigint, name text)")
    sink = PostgresSink.append(database.conninfo, "names")
    first = writing(sink)
    first.prepare(spark.createDataFrame([(number, "x") for number in range(100)], "id long, name string"))
    with database.connection() as blocking:
        blocking.execute("LOCK TABLE names IN ACCESS EXCLUSIVE MODE")
        publishing = in_background(lambda: first.writer.commit(1))
        (killed,) = (
            blocking.execute("SELECT pg_terminate_backend(%s)", (process_waiting_in(database, "COPY"),)).fetchone()
            or ()
        )
    with expect_refusal(r"terminat"):
        publishing.result(DEADLINE_S)
    before = database.rows("SELECT count(*) FROM names")
    noted = database.rows("SELECT checkpoint_id FROM flykka_checkpoints")

    writing(sink).writer.restore(first.prepared)

    assert killed
    assert (before, noted) == ([(0,)], [])
    assert database.rows("SELECT count(*), count(DISTINCT id) FROM names") == [(100, 100)]


@pytest.mark.long
def test_an_attempt_waits_for_a_zombie_and_sees_its_commit(
    spark: SparkSession, database: Database, writing: Callable[[PostgresSink], Writing]
) -> None:
    database.run("CREATE TABLE names (id bigint, name text)")
    sink = PostgresSink.append(database.conninfo, "names")
    first = writing(sink)
    first.publish(spark.createDataFrame([(1, "one")], "id long, name string"))
    first.prepare(spark.createDataFrame([(2, "two")], "id long, name string"))
    with database.connection() as zombie:
        zombie.execute("UPDATE flykka_checkpoints SET checkpoint_id = 2")
        zombie.execute("INSERT INTO names VALUES (2, 'two')")
        restored = in_background(lambda: writing(sink).writer.restore(first.prepared))
        process_waiting_in(database, "INSERT INTO")
    restored.result(DEADLINE_S)

    assert sorted(database.rows("SELECT * FROM names")) == [(1, "one"), (2, "two")]


def test_a_commit_is_durable_despite_the_roles_settings(
    spark: SparkSession, database: Database, writing: Callable[[PostgresSink], Writing]
) -> None:
    database.run(
        f"ALTER DATABASE {database.name} SET synchronous_commit = off",
        "CREATE TABLE names (id bigint, durable text DEFAULT current_setting('synchronous_commit'))",
    )

    writing(PostgresSink.append(database.conninfo, "names")).publish(spark.createDataFrame([(1,)], "id long"))

    assert database.rows("SELECT * FROM names") == [(1, "on")]


def test_a_late_zombie_changes_no_row(
    spark: SparkSession, database: Database, writing: Callable[[PostgresSink], Writing]
) -> None:
    database.run("CREATE TABLE names (id bigint PRIMARY KEY, name text)")
    sink = PostgresSink.upsert(database.conninfo, "names", keys=["id"])
    zombie = writing(sink)
    zombie.prepare(spark.createDataFrame([(1, "old")], "id long, name string"))
    living = writing(sink)
    living.writer.restore(zombie.prepared)
    living.checkpoint = 1
    living.publish(spark.createDataFrame([(1, "new")], "id long, name string"))

    with suppress(Exception):
        zombie.writer.commit(1)

    assert database.rows("SELECT * FROM names") == [(1, "new")]
