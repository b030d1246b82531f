"""Tests that a PostgresCdcSource reads rows and changes of a table once, and resumes from a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pytest
from pyspark.sql import SparkSession

from flykka.connectors import Boundedness, FileSystem, OperatorId, SourceError
from flykka.connectors.testing import Row, SourceContract
from flykka.spark_bridge.connectors.postgres import log_ranges
from flykka.spark_bridge.connectors.postgres.cdc_source import PostgresCdcSource
from flykka.spark_bridge.program.prototype import PrototypeError
from tests.spark_bridge.connectors.postgres.reading import changes_since, discover_all_splits, read_splits
from tests.spark_bridge.connectors.postgres.server import Database
from tests.spark_bridge.connectors.postgres.test_job import until
from tests.spark_bridge.connectors.postgres.writing import expect_refusal

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class CdcContract(SourceContract):
    database: Database
    made: PostgresCdcSource

    @pytest.fixture(autouse=True)
    def _table(self, table: PostgresCdcSource, database: Database) -> None:
        self.database = database
        self._numbers = count()
        self.made = table.bounded()

    def source(self) -> PostgresCdcSource:
        # The test always uses the same object, because it holds the snapshot.
        return self.made

    def add(self, rows: Sequence[Row]) -> None:
        for key, name, _ in rows:
            self.database.run(f"INSERT INTO names VALUES ({key}, '{name}')")

    def rows(self) -> list[Row]:
        return [(number, f"row {number}", "+I") for number in (next(self._numbers) for _ in range(3))]


# The tests below read snapshots.
@pytest.mark.long
class TestSnapshot(CdcContract):
    pass


class TestChanges(CdcContract):
    @pytest.fixture(autouse=True)
    def _slot(self, _table: None) -> None:
        discover_all_splits(self.made.start_from("latest-offset"))
        self.made = self.made.start_from("committed-offset")


def test_changes_become_rows_in_commit_order(spark: SparkSession, database: Database, table: PostgresCdcSource) -> None:
    database.run("INSERT INTO names VALUES (1, 'there')")
    begun = discover_all_splits(table)
    with database.connection() as early:
        early.execute("INSERT INTO names VALUES (2, 'commits last')")
        database.run(
            "INSERT INTO names VALUES (3, 'c'), (4, NULL)",
            "UPDATE names SET name = 'C' WHERE id = 3",
            "UPDATE names SET id = 5 WHERE id = 4",
            "DELETE FROM names WHERE id = 3",
        )
        early.execute("UPDATE names SET name = 'twice' WHERE id = 2")

    assert read_splits(spark, table, begun) == [(1, "there", "+I")]
    assert changes_since(spark, table, begun.position) == [
        (3, "c", "+I"),
        (4, None, "+I"),
        (3, "C", "+U"),
        (4, None, "-D"),
        (5, None, "+I"),
        (3, None, "-D"),
        (2, "commits last", "+I"),
        (2, "twice", "+U"),
    ]


def test_a_transaction_is_read_once_wherever_the_log_is_split(
    spark: SparkSession, database: Database, table: PostgresCdcSource
) -> None:
    snapshot = discover_all_splits(table)
    rows: list[Row] = []
    with database.connection() as long:
        for number in range(3):
            database.run(f"INSERT INTO names VALUES ({number}, 'short')")
            long.execute("INSERT INTO names VALUES (%s, 'long')", (100 + number,))
            snapshot = discover_all_splits(table, snapshot.position)
            rows += read_splits(spark, table, snapshot)
        during = list(rows)
    rows += changes_since(spark, table, snapshot.position)

    assert during == [(number, "short", "+I") for number in range(3)]
    assert rows[3:] == [(100 + number, "long", "+I") for number in range(3)]


def test_only_changes_that_the_snapshot_lacks_are_read(
    spark: SparkSession, database: Database, table: PostgresCdcSource
) -> None:
    discover_all_splits(table.start_from("latest-offset"))
    database.run("INSERT INTO names VALUES (1, 'behind the slot, before the snapshot')")
    with database.connection() as running:
        running.execute("INSERT INTO names VALUES (2, 'not committed')")
        database.run("INSERT INTO names VALUES (3, 'committed')")
        discovered = discover_all_splits(table)
        database.run("INSERT INTO names VALUES (4, 'behind the snapshot')")
    rows = read_splits(spark, table, discovered) + changes_since(spark, table, discovered.position)

    assert [row[0] for row in rows] == [1, 3, 4, 2]


def test_a_split_is_read_again_unchanged(spark: SparkSession, database: Database, table: PostgresCdcSource) -> None:
    database.run("INSERT INTO names VALUES (1, 'a')")
    pages = discover_all_splits(table)
    database.run("UPDATE names SET name = 'b'")
    changes = discover_all_splits(table, pages.position)
    database.run("UPDATE names SET name = 'c'")

    assert read_splits(spark, table, pages) == read_splits(spark, table, pages) == [(1, "a", "+I")]
    assert read_splits(spark, table, changes) == read_splits(spark, table, changes) == [(1, "b", "+U")]


def test_a_large_table_is_read_in_ranges_of_pages(
    spark: SparkSession, database: Database, table: PostgresCdcSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_ranges, "PAGES_PER_SPLIT", 3)
    database.run("INSERT INTO names SELECT number, repeat('x', 100) FROM generate_series(1, 1000) AS number")

    discovered = discover_all_splits(table.bounded())

    assert len(discovered.splits) > 4
    assert sorted(row[0] for row in read_splits(spark, table, discovered)) == list(range(1, 1001))  # type: ignore[type-var]


def test_the_snapshot_is_held_until_a_later_checkpoint_completes(
    spark: SparkSession, database: Database, table: PostgresCdcSource
) -> None:
    def open_snapshots() -> int:
        (discovered,) = database.rows(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'"
        )
        return int(discovered[0])

    begun = discover_all_splits(table)
    during = open_snapshots()
    database.run("INSERT INTO names VALUES (1, 'a')")
    table.notify_checkpoint_complete(1, discover_all_splits(table, begun.position).splits)

    assert during == 1
    # The server ends a session slightly later than its client.
    until(lambda: open_snapshots() == 0)


def test_a_lost_snapshot_is_reported(spark: SparkSession, database: Database, table: PostgresCdcSource) -> None:
    database.run("INSERT INTO names VALUES (1, 'a')")
    discovered = discover_all_splits(table)
    table.open_snapshot.close()

    with expect_refusal(r"snapshot for the initial read of public.names is lost"):
        read_splits(spark, table, discovered)


def test_a_bounded_source_ends_at_the_initial_or_configured_log_position(
    spark: SparkSession, database: Database, table: PostgresCdcSource
) -> None:
    discover_all_splits(table.start_from("latest-offset"))
    database.run("INSERT INTO names VALUES (1, 'a')")
    ((until,),) = database.rows("SELECT pg_current_wal_flush_lsn()::text")
    database.run("INSERT INTO names VALUES (2, 'b')")
    kept = table.start_from("committed-offset")

    to_now, to_then = discover_all_splits(kept.bounded()), discover_all_splits(kept.bounded(until))
    database.run("INSERT INTO names VALUES (3, 'c')")

    assert (to_now.finished, to_then.finished, discover_all_splits(kept).finished) == (True, True, False)
    assert [row[0] for row in read_splits(spark, table, to_now)] == [1, 2]
    assert [row[0] for row in read_splits(spark, table, to_then)] == [1]
    assert discover_all_splits(kept.bounded(), to_now.position).splits == ()
    assert kept.bounded().boundedness is Boundedness.BOUNDED


def test_values_have_the_types_of_their_columns(spark: SparkSession, database: Database) -> None:
    database.run(
        "CREATE TABLE things (id int PRIMARY KEY, n numeric(12,2), f real, b boolean, y bytea, d date, z timestamptz,"
        " w timestamp, a text[], k int[], j jsonb, u uuid, twice int GENERATED ALWAYS AS (2 * id) STORED)",
        "INSERT INTO things VALUES (1, 12.5, 0.5, true, '\\x00ff', '2024-02-29', '2024-01-01 12:00:00.5+02',"
        """ '2024-01-01 12:00:00', '{"a \\"b\\"",NULL,"c,d"}', '{1,NULL}', '{"a": 1}',"""
        " '00000000-0000-0000-0000-00000000002a')",
    )
    source = PostgresCdcSource.of_table(database.conninfo, "things", slot=f"slot_{database.name}")
    source = source.with_metadata("ts_ms", "lsn")
    begun = discover_all_splits(source)
    database.run("UPDATE things SET b = b", "DELETE FROM things")

    (of_snapshot,) = read_splits(spark, source, begun)
    updated, deleted = changes_since(spark, source, begun.position)

    assert of_snapshot[:-3] == updated[:-3]
    assert str(of_snapshot[1:-3]) == (
        "(Decimal('12.50'), 0.5, True, b'\\x00\\xff', datetime.date(2024, 2, 29),"
        " datetime.datetime(2024, 1, 1, 10, 0, 0, 500000), datetime.datetime(2024, 1, 1, 12, 0),"
        """ ['a "b"', None, 'c,d'], [1, None], '{"a": 1}', '00000000-0000-0000-0000-00000000002a')"""
    )
    assert [row[-3] for row in (of_snapshot, updated, deleted)] == ["+I", "+U", "-D"]
    assert 0 == of_snapshot[-1] < updated[-1] < deleted[-1]  # type: ignore[operator]
    assert of_snapshot[-2] <= updated[-2] <= deleted[-2]  # type: ignore[operator]
    assert set(deleted[1:-3]) == {None}


def test_an_unchanged_large_value_requires_a_full_replica_identity(
    spark: SparkSession, database: Database, table: PostgresCdcSource
) -> None:
    database.run(
        "ALTER TABLE names ADD COLUMN body text",
        "ALTER TABLE names ALTER COLUMN body SET STORAGE EXTERNAL",
        "INSERT INTO names VALUES (1, 'a', repeat('x', 10000))",
    )
    begun = discover_all_splits(table)
    database.run("UPDATE names SET name = 'b'")
    without_value = discover_all_splits(table, begun.position)
    database.run("ALTER TABLE names REPLICA IDENTITY FULL", "UPDATE names SET name = 'c'", "DELETE FROM names")
    with_value = discover_all_splits(table, without_value.position)

    with expect_refusal(r"does not contain the value of 'body', which is large"):
        read_splits(spark, table, without_value)
    assert read_splits(spark, table, with_value) == [(1, "c", "x" * 10000, "+U"), (1, "c", "x" * 10000, "-D")]


def test_a_partitioned_table_is_read_as_one_table(spark: SparkSession, database: Database) -> None:
    database.run(
        "CREATE TABLE parts (id int PRIMARY KEY, name text) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE high PARTITION OF parts FOR VALUES FROM (10) TO (20)",
        "INSERT INTO parts VALUES (1, 'a'), (11, 'b')",
    )
    source = PostgresCdcSource.of_table(database.conninfo, "parts", slot=f"slot_{database.name}")
    begun = discover_all_splits(source)
    database.run("UPDATE parts SET id = 12 WHERE id = 1", "DELETE FROM parts WHERE id = 11")

    assert sorted(read_splits(spark, source, begun)) == [(1, "a", "+I"), (11, "b", "+I")]
    assert changes_since(spark, source, begun.position) == [(1, None, "-D"), (12, "a", "+I"), (11, None, "-D")]


def test_a_renamed_table_is_reported(spark: SparkSession, database: Database, table: PostgresCdcSource) -> None:
    bound = table.bound(spark, None)
    begun = discover_all_splits(bound)
    database.run("ALTER TABLE names RENAME TO others", "INSERT INTO others VALUES (1, 'a')")

    with pytest.raises(SourceError, match=r"no longer contains public\.names, .*: was it dropped, or renamed"):
        discover_all_splits(bound, begun.position)


def test_other_tables_are_skipped(spark: SparkSession, database: Database, table: PostgresCdcSource) -> None:
    database.run(
        "CREATE SCHEMA other",
        "CREATE TABLE other.names (id bigint PRIMARY KEY, name text)",
        f"CREATE PUBLICATION {table.slot.name} FOR ALL TABLES",
    )
    begun = discover_all_splits(table)
    database.run("INSERT INTO other.names VALUES (1, 'a')", "INSERT INTO names VALUES (2, 'b')", "TRUNCATE other.names")

    assert changes_since(spark, table, begun.position) == [(2, "b", "+I")]


def test_unreadable_tables_are_refused(spark: SparkSession, database: Database, table: PostgresCdcSource) -> None:
    database.run(
        "CREATE TABLE keyless (id int)",
        "CREATE VIEW shown AS SELECT 1 AS id",
        "CREATE TABLE taken (id int PRIMARY KEY, row_kind text)",
        f"CREATE ROLE plain_{database.name} LOGIN PASSWORD 'plain'",
        f"CREATE PUBLICATION {table.slot.name} FOR TABLE taken",
    )
    plain = f"{database.conninfo} user=plain_{database.name} password=plain"

    def of(name: str, conninfo: str = database.conninfo) -> PostgresCdcSource:
        return PostgresCdcSource.of_table(conninfo, name, slot=table.slot.name)

    with pytest.raises(SourceError, match="there is no table nowhere at"):
        of("nowhere").bound(spark, None)
    with pytest.raises(SourceError, match=r"public.keyless .* has no primary key: .*REPLICA IDENTITY FULL"):
        of("keyless").bound(spark, None)
    with pytest.raises(SourceError, match=r"public.shown .* is not an ordinary table"):
        of("shown").bound(spark, None)
    with pytest.raises(PrototypeError, match="two columns 'row_kind'"):
        of("taken").bound(spark, None)
    with pytest.raises(SourceError, match=r"may not read changes at .*: ALTER ROLE plain_"):
        of("names", plain).check_input(OperatorId("source"), FileSystem(spark))
    with pytest.raises(SourceError, match=r"publication .* without public.names: ALTER PUBLICATION"):
        of("names").check_input(OperatorId("source"), FileSystem(spark))
    with pytest.raises(ValueError, match="the name of a replication slot"):
        PostgresCdcSource.of_table(database.conninfo, "names", slot="My Slot")
    with pytest.raises(ValueError, match="starts from initial, latest-offset"):
        of("names").start_from("earliest")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r'on_schema_change is "fail" or "ignore", not \'evolve\''):
        PostgresCdcSource.of_table(database.conninfo, "names", slot="slot", on_schema_change="evolve")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a change has no 'op'"):
        of("names").with_metadata("op")
    with pytest.raises(ValueError, match="is written like 0/16B3748"):
        of("names").bounded("12")
