"""Tests that an IcebergSink publishes the rows of a checkpoint once, whatever other writers do to the table."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.types import LongType, NestedField, StringType
from pyspark.sql import SparkSession

from flykka.connectors import FileSystem, SinkError
from flykka.connectors.testing import Row
from flykka.spark_bridge.connectors import connector
from flykka.spark_bridge.connectors.iceberg import IcebergSink
from flykka.spark_bridge.errors import MissingExtraError, OperatorFailedError
from flykka.spark_bridge.program.prototype import PrototypeError
from flykka.spark_bridge.session.session import engine_session
from tests.spark_bridge.connectors.contracts import ShortestSinkContract
from tests.spark_bridge.connectors.delta.attempts import Attempt, frame
from tests.spark_bridge.sink_contexts import CrashError, CrashingFileSystem

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCHEMA = "id long, name string"
COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])
NAME = "shop.orders"


class Warehouse:
    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.properties = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/warehouse",
        }
        with closing(self.catalog()) as catalog:
            catalog.create_namespace("shop")
            catalog.create_table(NAME, COLUMNS)

    def catalog(self) -> SqlCatalog:
        return SqlCatalog("tests", **self.properties)

    def sink(self, identifier: str = NAME) -> IcebergSink:
        return IcebergSink.append(identifier, catalog="tests", **self.properties)

    def rows(self) -> list[tuple[Any, ...]]:
        with closing(self.catalog()) as catalog:
            records = catalog.load_table(NAME).scan().to_arrow().to_pylist()
        return sorted((tuple(row.values()) for row in records), key=repr)

    def act(self, act: Callable[[Table], object]) -> None:
        with closing(self.catalog()) as catalog:
            act(catalog.load_table(NAME))

    def append(self, key: int) -> None:
        self.act(lambda table: table.append(pa.table({"id": [key], "name": ["theirs"]}, schema=COLUMNS)))


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "iceberg")


class TestAppend(ShortestSinkContract):
    @pytest.fixture(autouse=True)
    def _warehouse(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse

    def sink(self) -> IcebergSink:
        return self.warehouse.sink()

    def published(self) -> list[Row]:
        return self.warehouse.rows()


def before_the_first_commit(patch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Call `act` once, right before the catalog receives a commit."""
    commit = Transaction.commit_transaction
    acts = [act]

    def acted(self: Transaction) -> Table:
        if acts:
            acts.pop()()
        return commit(self)

    patch.setattr(Transaction, "commit_transaction", acted)


def crash() -> None:
    raise CrashError


def test_rows_are_committed_despite_foreign_appends(
    spark: SparkSession, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = Attempt(spark, warehouse.sink())
    attempt.publish(1, frame(spark, SCHEMA, (1, "a")))
    attempt.prepare(2, frame(spark, SCHEMA, (2, "b")))
    warehouse.append(100)

    before_the_first_commit(monkeypatch, lambda: warehouse.append(101))
    attempt.writer.commit(2)

    assert warehouse.rows() == [(1, "a"), (100, "theirs"), (101, "theirs"), (2, "b")]


def test_a_commit_completed_by_another_attempt_is_not_repeated(
    spark: SparkSession, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    zombie = Attempt(spark, warehouse.sink())
    prepared = zombie.prepare(1, frame(spark, SCHEMA, (1, "a")))

    before_the_first_commit(monkeypatch, lambda: Attempt(spark, warehouse.sink(), 1).writer.restore(prepared))
    zombie.writer.commit(1)

    assert warehouse.rows() == [(1, "a")]


def test_a_kill_between_renames_and_commit_loses_no_row(
    spark: SparkSession, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = Attempt(spark, warehouse.sink())
    prepared = attempt.prepare(1, frame(spark, SCHEMA, (1, "a")), frame(spark, SCHEMA, (2, "b")))

    before_the_first_commit(monkeypatch, crash)
    with pytest.raises(OperatorFailedError):
        attempt.writer.commit(1)
    seen_between = warehouse.rows()
    Attempt(spark, warehouse.sink(), 1).writer.restore(prepared)

    assert seen_between == []
    assert warehouse.rows() == [(1, "a"), (2, "b")]


# The Delta sink renames with the same code.
@pytest.mark.long
@pytest.mark.parametrize("survives", range(3))
def test_a_kill_before_any_rename_loses_no_row(spark: SparkSession, warehouse: Warehouse, survives: int) -> None:
    attempt = Attempt(spark, warehouse.sink(), filesystem=CrashingFileSystem(spark, survives))
    prepared = attempt.prepare(1, frame(spark, SCHEMA, (1, "a")), frame(spark, SCHEMA, (2, "b")))

    with pytest.raises(OperatorFailedError):
        attempt.writer.commit(1)
    Attempt(spark, warehouse.sink(), 1).writer.restore(prepared)

    assert warehouse.rows() == [(1, "a"), (2, "b")]


def test_a_checkpoint_is_one_snapshot_with_its_id(spark: SparkSession, warehouse: Warehouse) -> None:
    attempt = Attempt(spark, warehouse.sink())
    attempt.publish(1, frame(spark, SCHEMA, (1, "a")), frame(spark, SCHEMA, (2, "b")))
    attempt.publish(2, frame(spark, SCHEMA, (3, "c")))

    summaries: list[dict[str, str]] = []
    warehouse.act(
        lambda table: summaries.extend(
            each.summary.additional_properties for each in table.snapshots() if each.summary is not None
        )
    )

    assert [each["flykka.checkpoint-id"] for each in summaries] == ["1", "2"]
    assert [each["added-records"] for each in summaries] == ["2", "1"]


def test_the_commit_settings_of_other_writers_are_unchanged(spark: SparkSession, warehouse: Warehouse) -> None:
    Attempt(spark, warehouse.sink()).publish(1, frame(spark, SCHEMA, (1, "a")))

    properties: dict[str, str] = {}
    warehouse.act(lambda table: properties.update(table.properties))

    assert "commit.retry.num-retries" not in properties


def test_columns_are_added_if_configured(spark: SparkSession, warehouse: Warehouse) -> None:
    sink = warehouse.sink()
    Attempt(spark, sink).publish(1, frame(spark, SCHEMA, (1, "a")))
    at = dt.datetime(2024, 5, 1, 10, tzinfo=dt.UTC)
    wider = frame(engine_session(spark), "id long, name string, at timestamp", (2, "b", at))

    with pytest.raises(PrototypeError, match="rows have a column 'at'"):
        sink.check_rows(wider)
    sink.merge_schema().check_rows(wider)
    Attempt(spark, sink.merge_schema()).publish(2, wider)

    assert warehouse.rows() == [(1, "a", None), (2, "b", at)]


def test_unwritable_rows_are_refused(spark: SparkSession, warehouse: Warehouse) -> None:
    with pytest.raises(SinkError, match=r"there is no Iceberg table shop\.none in the catalog 'tests': create it"):
        warehouse.sink("shop.none").bound(spark)
    with pytest.raises(SinkError, match="the Iceberg catalog 'lost' cannot be loaded: "):
        IcebergSink.append(NAME, catalog="lost", type="nothing").bound(spark)
    with pytest.raises(PrototypeError, match="the column 'id' is of type int in the rows, and of type bigint in the"):
        warehouse.sink().check_rows(frame(spark, "id int"))
    columns = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType()))
    with closing(warehouse.catalog()) as catalog:
        catalog.create_table("shop.strict", columns)
    with pytest.raises(SinkError, match="its column 'id' is required, but files that Spark writes may contain nulls"):
        warehouse.sink("shop.strict").check_target(FileSystem(spark))

    def partition(table: Table) -> None:
        with table.update_spec() as update:
            update.add_identity("name")

    warehouse.act(partition)
    with pytest.raises(
        SinkError, match="it is partitioned by name, but flykka writes only to tables without partitions"
    ):
        warehouse.sink().check_target(FileSystem(spark))


def test_endless_commit_conflicts_are_reported(
    spark: SparkSession, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Transaction) -> Table:
        raise CommitFailedException("branch main has changed")

    attempt = Attempt(spark, warehouse.sink())
    monkeypatch.setattr(Transaction, "commit_transaction", refused)

    with pytest.raises(OperatorFailedError) as raised:
        attempt.publish(1, frame(spark, SCHEMA, (1, "a")))

    assert "times other writers committed first, the last time with branch main has changed" in str(
        raised.value.__cause__
    )


def test_an_error_names_the_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector, "find_spec", lambda module: None)

    with pytest.raises(MissingExtraError, match=r"needs pyiceberg, .* pip install 'flykka\[iceberg\]'"):
        IcebergSink.append(NAME)
