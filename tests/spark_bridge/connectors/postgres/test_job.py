"""Tests jobs from table to table: a copy follows its original, joined with a refreshed table, whichever process is
killed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from flykka import JobClient, StreamExecutionEnvironment
from flykka.errors import JobExecutionError
from flykka.messages.attempt.commands import CommitCheckpoint
from flykka.messages.wire.message import Message
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.faults import kill_when
from flykka.spark_bridge.connectors.postgres.cdc_source import PostgresCdcSource
from flykka.spark_bridge.connectors.postgres.sink import PostgresSink
from flykka.spark_bridge.connectors.postgres.table_reading import postgres_table
from tests.spark_bridge.connectors.postgres.server import Database

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.cluster(task_managers=2, slots_per_task_manager=2),
]

PATIENCE_S = 60.0


@pytest.fixture
def shop(database: Database) -> Database:
    database.run(
        "CREATE TABLE items (item text PRIMARY KEY, price numeric(9,2))",
        "INSERT INTO items VALUES ('tea', 2.50), ('cup', 4)",
        "CREATE TABLE orders (id bigint PRIMARY KEY, item text, pieces int)",
        "INSERT INTO orders SELECT number, CASE number % 2 WHEN 0 THEN 'tea' ELSE 'cup' END, number % 7"
        " FROM generate_series(1, 200) AS number",
        "CREATE TABLE priced (id bigint PRIMARY KEY, item text, amount numeric(21,2), lsn bigint)",
    )
    return database


def start_priced_orders(env: StreamExecutionEnvironment, shop: Database, folder: Path, *, bounded: bool) -> JobClient:
    env.enable_checkpointing("200ms", tolerable_failures=100).set_checkpoint_dir(str(folder / "checkpoints"))
    orders = PostgresCdcSource.of_table(shop.conninfo, "orders", slot=f"slot_{shop.name}").poll_every("100ms")
    orders = orders.with_metadata("lsn")
    items = postgres_table(env.spark, shop.conninfo, "items", refresh="1min")
    priced = env.from_source(orders.bounded() if bounded else orders, uid="orders").join(items, "item", "left")
    amount = (F.col("pieces") * F.col("price")).cast("decimal(21,2)").alias("amount")
    priced.select("id", "item", amount, "row_kind", "lsn").uid("amounts").sink_to(
        PostgresSink.upsert(shop.conninfo, "priced", keys=["id"], sequence_by="lsn")
    ).uid("priced")
    return env.execute_async("priced orders")


def differences(shop: Database) -> list[tuple[object, ...]]:
    """Return the rows that only one of the two tables contains."""
    expected = "SELECT id, item, pieces * price FROM orders LEFT JOIN items USING (item)"
    there = "SELECT id, item, amount FROM priced"
    return shop.rows(f"({expected} EXCEPT {there}) UNION ALL ({there} EXCEPT {expected})")


def change(shop: Database, number: int) -> None:
    shop.run(
        f"INSERT INTO orders VALUES ({10_000 + number}, 'tea', 1)",
        f"UPDATE orders SET pieces = pieces + 1 WHERE id % 50 = {number % 50}",
        f"UPDATE orders SET id = {20_000 + number} WHERE id = {10_000 + number - 1}",
        f"DELETE FROM orders WHERE id = {number + 1}",
    )


@pytest.mark.long
def test_a_table_is_copied_and_joined_with_prices(
    env: StreamExecutionEnvironment, shop: Database, tmp_path: Path
) -> None:
    start_priced_orders(env, shop, tmp_path, bounded=True).wait(timeout=PATIENCE_S)

    assert differences(shop) == []
    assert shop.rows("SELECT count(*) FROM priced") == [(200,)]


def test_output_is_exactly_once_when_a_task_manager_and_connections_are_killed(
    env: StreamExecutionEnvironment, shop: Database, tmp_path: Path
) -> None:
    recipients: list[str] = []

    def publishes(recipient: ActorRef, message: Message) -> bool:
        is_moment = recipient.path.startswith("/user/task-manager-") and isinstance(message, CommitCheckpoint)
        if is_moment:
            recipients.append("/".join(recipient.path.split("/")[:3]))
        return is_moment

    kill = kill_when(env.cluster.system, lambda: env.cluster.system.find(recipients[-1]), publishes, 2)
    client = start_priced_orders(env, shop, tmp_path, bounded=False)
    for number in range(6):
        change(shop, number)
    assert kill.wait(timeout=PATIENCE_S)
    for number in range(6, 12):
        change(shop, number)
        shop.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND query ~ '^(COPY|FETCH|INSERT|WITH)'"
        )
    until(lambda: differences(shop) == [])
    failures = len(client.exception_history)
    client.cancel()

    assert failures >= 1
    assert differences(shop) == []


# test_schema_changes.py tests the error that ends the job, and what a second run reads.
@pytest.mark.long
def test_a_job_failed_by_an_added_column_continues_when_rerun(
    env: StreamExecutionEnvironment, shop: Database, tmp_path: Path
) -> None:
    client = start_priced_orders(env, shop, tmp_path, bounded=False)
    change(shop, 1)
    until(lambda: differences(shop) == [])
    shop.run("ALTER TABLE orders ADD COLUMN note text")
    with pytest.raises(JobExecutionError, match="'note' was added"):
        client.wait(timeout=PATIENCE_S)
    restarts = client.details.number_of_restarts
    change(shop, 2)

    start_priced_orders(env, shop, tmp_path, bounded=True).wait(timeout=PATIENCE_S)

    assert restarts == 0
    assert differences(shop) == []


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
