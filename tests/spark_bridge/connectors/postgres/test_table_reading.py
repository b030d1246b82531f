"""Tests that a postgres_table is read each time that it is computed, or at most as often as configured."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from flykka.spark_bridge.connectors.postgres import table_reading
from flykka.spark_bridge.connectors.postgres.read_types import ReadValues
from flykka.spark_bridge.connectors.postgres.table_reading import ReadTable, postgres_table
from flykka.spark_bridge.errors import SourceError
from tests.spark_bridge.connectors.postgres.server import Database

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def prices(database: Database) -> Database:
    database.run(
        "CREATE TABLE prices (id int, item text, price numeric(9,2))",
        "INSERT INTO prices VALUES (1, 'tea', 2.50), (2, '', NULL), (NULL, NULL, NULL)",
    )
    return database


def test_a_lookup_table_has_the_current_rows(spark: SparkSession, prices: Database) -> None:
    table = postgres_table(spark, prices.conninfo, "prices")
    before = {tuple(row) for row in table.selectExpr("id", "item", "string(price)").collect()}
    prices.run("DELETE FROM prices", "INSERT INTO prices VALUES (3, E'a\\n\\\"b', 1)")

    assert table.dtypes == [("id", "int"), ("item", "string"), ("price", "decimal(9,2)")]
    assert before == {(1, "tea", "2.50"), (2, "", None), (None, None, None)}
    assert [tuple(row)[:2] for row in table.collect()] == [(3, 'a\n"b')]


@pytest.mark.parametrize("partitions", [2, 5, 50])
def test_a_lookup_table_is_read_in_ranges_of_a_column(spark: SparkSession, prices: Database, partitions: int) -> None:
    table = postgres_table(spark, prices.conninfo, "prices", partition_by="id", partitions=partitions)
    prices.run("INSERT INTO prices SELECT number, 'x', 1 FROM generate_series(-20, 20) AS number")

    ids = sorted((row.id for row in table.collect()), key=str)

    assert ids == sorted([1, 2, None, *range(-20, 21)], key=str)


def test_a_view_is_read_as_a_table(spark: SparkSession, prices: Database) -> None:
    prices.run("CREATE VIEW dear AS SELECT item FROM prices WHERE price > 2")

    assert [row.item for row in postgres_table(spark, prices.conninfo, "dear").collect()] == ["tea"]


def test_a_worker_reuses_rows_until_they_expire(
    prices: Database, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    import pyarrow as pa

    now = [0.0]
    monkeypatch.setattr(table_reading.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(table_reading, "_cached", {})
    database = table_reading.Database.of(prices.conninfo, "a test")
    table = postgres_table(spark, prices.conninfo, "prices")
    columns = [table_reading.ReadColumn(name=name, type="string") for name in table.columns]
    values = ReadValues(table="prices", columns=columns)
    work = ReadTable(database=database, queries=[b"SELECT * FROM prices"], values=values, refresh_ms=60_000)
    task = pa.record_batch({"id": pa.array([0], pa.int64())})

    def rows() -> int:
        return sum(batch.num_rows for batch in work([task]))

    first = rows()
    prices.run("DELETE FROM prices")
    now[0] = 59.0
    kept = rows()
    now[0] = 60.0

    assert (first, kept, rows()) == (3, 3, 0)


def test_unreadable_tables_are_refused(spark: SparkSession, prices: Database) -> None:
    with pytest.raises(SourceError, match="there is no table nowhere at"):
        postgres_table(spark, prices.conninfo, "nowhere")
    with pytest.raises(SourceError, match=r"ranges of 'item', which is of type text: use an integer column"):
        postgres_table(spark, prices.conninfo, "prices", partition_by="item", partitions=2)
    with pytest.raises(ValueError, match="partition_by names the integer column"):
        postgres_table(spark, prices.conninfo, "prices", partitions=2)
    with pytest.raises(SourceError, match=r"prices at 127\.0\.0\.1/x cannot be read"):
        postgres_table(spark, "host=127.0.0.1 port=1 dbname=x", "prices")
