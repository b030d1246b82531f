"""Tests that only completed checkpoints advance the slot of a source, and that a slot that lost changes is reported."""

from __future__ import annotations

import time

import psycopg
import pytest
from pyspark.sql import SparkSession

from flykka.connectors import SourceError
from flykka.spark_bridge.connectors.postgres import cdc_source, log_ranges
from flykka.spark_bridge.connectors.postgres.cdc_source import PostgresCdcSource
from tests.spark_bridge.connectors.postgres.reading import (
    changes_since,
    confirmed_position,
    discover_all_splits,
    read_splits,
)
from tests.spark_bridge.connectors.postgres.server import Database
from tests.spark_bridge.connectors.postgres.writing import DEADLINE_S, expect_refusal, in_background

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_the_slot_is_confirmed_only_after_a_checkpoint_completes(
    spark: SparkSession, database: Database, table: PostgresCdcSource
) -> None:
    begun = discover_all_splits(table)
    at_first = confirmed_position(database, table)
    database.run("INSERT INTO names VALUES (1, 'a')")
    discovered = discover_all_splits(table, begun.position)
    read_splits(spark, table, discovered)
    before = confirmed_position(database, table)

    table.notify_checkpoint_complete(1, [*begun.splits, *discovered.splits])
    database.run("INSERT INTO names VALUES (2, 'b')")

    assert before == at_first
    assert confirmed_position(database, table) == log_ranges.lsn_text(
        log_ranges.CdcPosition.read(discovered.position).lsn
    )
    assert changes_since(spark, table, discovered.position) == [(2, "b", "+I")]


def test_a_dropped_or_advanced_slot_is_reported(
    spark: SparkSession, database: Database, table: PostgresCdcSource
) -> None:
    begun = discover_all_splits(table.start_from("latest-offset"))
    database.run("INSERT INTO names VALUES (1, 'a')")
    discovered = discover_all_splits(table, begun.position)
    database.run("INSERT INTO names VALUES (2, 'b')")
    table.notify_checkpoint_complete(1, discover_all_splits(table, begun.position).splits)

    with pytest.raises(SourceError, match=r"retains the changes since .*, but the job continues from"):
        discover_all_splits(table, begun.position)
    with expect_refusal(r"retains the changes since"):
        read_splits(spark, table, discovered)
    table.drop_slot()
    with pytest.raises(
        SourceError,
        match=(
            r"the replication slot .*, which retained the changes since .*,"
            r" no longer exists"
        ),
    ):
        discover_all_splits(table, begun.position)
    with expect_refusal(r"the replication slot .* no longer exists"):
        read_splits(spark, table, discovered)


def using(database: Database, table: PostgresCdcSource) -> psycopg.Connection[tuple[object, ...]]:
    """Return another session that reads from the slot until the session is closed."""
    other = psycopg.connect(f"{database.conninfo} replication=database", autocommit=True)
    options = f"(proto_version '1', publication_names '{table.slot.name}')"
    begun = other.pgconn.exec_(f"START_REPLICATION SLOT {table.slot.name} LOGICAL 0/0 {options}".encode())
    assert begun.status == psycopg.pq.ExecStatus.COPY_BOTH
    return other


def test_a_slot_in_use_is_confirmed_by_a_later_checkpoint(
    spark: SparkSession, database: Database, table: PostgresCdcSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cdc_source, "_CONFIRM_SECONDS", 0.1)
    begun = discover_all_splits(table.start_from("latest-offset"))
    before = confirmed_position(database, table)
    database.run("INSERT INTO names VALUES (1, 'a')")
    splits = discover_all_splits(table, begun.position).splits
    other = using(database, table)
    table.notify_checkpoint_complete(1, splits)
    meanwhile = confirmed_position(database, table)
    other.close()
    monkeypatch.setattr(cdc_source, "_CONFIRM_SECONDS", DEADLINE_S)
    table.notify_checkpoint_complete(2, splits)

    assert (meanwhile == before, confirmed_position(database, table) == before) == (True, False)


def test_a_source_waits_for_a_slot_in_use(spark: SparkSession, database: Database, table: PostgresCdcSource) -> None:
    begun = discover_all_splits(table.start_from("latest-offset"))
    database.run("INSERT INTO names VALUES (1, 'a')")
    other = using(database, table)
    reading = in_background(lambda: changes_since(spark, table, begun.position))
    tries = "application_name = 'flykka' AND query ~ 'FETCH|ROLLBACK|BEGIN|DECLARE'"
    deadline = time.monotonic() + DEADLINE_S
    while not database.rows(f"SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND {tries}"):
        assert time.monotonic() < deadline
    is_waiting = not reading.done()
    other.close()

    assert is_waiting
    assert reading.result(DEADLINE_S) == [(1, "a", "+I")]
