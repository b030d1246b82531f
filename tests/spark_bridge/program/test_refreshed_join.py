"""Tests a periodically refreshed table: with which version a batch is joined, and when the table is refreshed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from flykka.spark_bridge.program.prototype import PrototypeError
from flykka.spark_bridge.program.refreshed_join import CachedTable, JoinRefreshed
from flykka.spark_bridge.program.rich_function import RuntimeContext

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Clock:
    """A clock that the test sets, in seconds."""

    seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def write_name(folder: Path, number: int, name: str) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": [number], "name": [name]}), folder / f"{number}.parquet")


def names_by_item(rows: DataFrame) -> dict[int, str | None]:
    return {row.item: row.name for row in rows.select("item", "name").collect()}


@pytest.fixture
def orders(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1,), (2,)], "item long")


def test_a_table_is_cached_and_later_read_again_with_current_files(
    spark: SparkSession, orders: DataFrame, tmp_path: Path
) -> None:
    write_name(tmp_path / "items", 1, "one")
    items, clock = spark.read.parquet(str(tmp_path / "items")), Clock()
    join = JoinRefreshed(CachedTable(items, 60_000, clock), orders["item"] == items["id"], "left", orders)

    first = join(orders)
    write_name(tmp_path / "items", 2, "two")
    clock.seconds += 59.9
    kept = names_by_item(join(orders))
    clock.seconds += 0.1
    again = names_by_item(join(orders))

    assert kept == {1: "one", 2: None}
    assert again == {1: "one", 2: "two"}
    assert names_by_item(first) == kept


def test_a_new_attempt_reads_the_table_again(spark: SparkSession, orders: DataFrame, tmp_path: Path) -> None:
    write_name(tmp_path / "items", 1, "one")
    items = spark.read.parquet(str(tmp_path / "items")).withColumnRenamed("id", "item")
    join = JoinRefreshed(CachedTable(items, 60_000, Clock()), "item", "left", orders)
    join(orders)
    write_name(tmp_path / "items", 2, "two")

    join.open(RuntimeContext(uid="join", task_name="join", session=spark))

    assert names_by_item(join(orders)) == {1: "one", 2: "two"}


def test_defining_a_program_does_not_read_the_table(spark: SparkSession, orders: DataFrame) -> None:
    broken = spark.range(1).selectExpr("id AS item", "CAST(raise_error('it is read') AS STRING) AS name")

    join = JoinRefreshed(CachedTable(broken, 60_000, Clock()), "item", "inner", orders)

    assert join.schema is not None
    with pytest.raises(PrototypeError, match="nothing"):
        JoinRefreshed(CachedTable(broken, 60_000, Clock()), "nothing", "inner", orders)
