"""The state of a job as DataFrames, and a job that goes on with state of another schema, or that was changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import flykka.state
from flykka import JobClient, StreamExecutionEnvironment
from flykka.errors import CheckpointNotFoundError
from flykka.spark_bridge.errors import SavedStateError
from tests.integration import state_program
from tests.integration.arrivals import END
from tests.integration.state_program import at, listed
from tests.integration.test_savepoints import wait_read

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

Environment = Callable[..., StreamExecutionEnvironment]


def savepoint_of_first_orders(env: StreamExecutionEnvironment, folder: Path) -> Path:
    """A savepoint of the first version, when it has read the first orders."""
    state_program.arrive(folder / "orders", "first", state_program.FIRST)
    client = state_program.start(env, folder)
    wait_read(client, rows=len(state_program.FIRST))
    return Path(client.stop_with_savepoint())


def finish(client: JobClient, folder: Path) -> None:
    """The other orders arrive, and none after them."""
    state_program.arrive(folder / "orders", "then", state_program.THEN)
    (folder / "orders" / END).touch()
    client.wait(timeout=120)


def test_a_savepoint_is_read_and_a_program_of_another_schema_goes_on_from_it(
    spark: SparkSession, environment: Environment, tmp_path: Path
) -> None:
    path = savepoint_of_first_orders(environment(), tmp_path)

    totals, recent, silence = (flykka.state.read(path, uid) for uid in ("totals", "recent", "silence"))
    assert totals.table().columns == ["user", "sum(amount)", "max(amount)", "rows"]
    assert listed(totals.table()) == [("a", 4, 3, 2), ("b", 2, 2, 1)]
    assert listed(totals.values("max(amount)")) == [("a", 3), ("b", 2)]
    assert listed(silence.keys()) == [("a",), ("b",)]
    assert listed(silence.table()) == [("a", 2, [1, 3]), ("b", 1, [2])]
    assert listed(silence.timers().selectExpr("user", "unix_seconds(time)", "domain")) == [
        ("a", at(300).timestamp(), "event-time"),
        ("a", at(370).timestamp(), "event-time"),
        ("b", at(330).timestamp(), "event-time"),
    ]
    assert recent.windows().columns == ["user", "window_start", "window_end", "sum(amount)", "rows"]
    assert listed(recent.windows().selectExpr("user", "unix_seconds(window_start)", "`sum(amount)`")) == [
        ("a", at(0).timestamp(), 4),
        ("a", at(60).timestamp(), 3),
        ("b", at(0).timestamp(), 2),
    ]
    with pytest.raises(SavedStateError, match="has no operator 'total'; it has 'orders', 'silence', "):
        flykka.state.read(path, "total")
    with pytest.raises(SavedStateError, match=r"'orders' \(orders\) keeps no keyed state in .*; 'silence', 'totals', "):
        flykka.state.read(path, "orders")
    with pytest.raises(SavedStateError, match="'totals' is no function with timers"):
        totals.timers()
    with pytest.raises(CheckpointNotFoundError, match="is no checkpoint or savepoint"):
        flykka.state.read(tmp_path / "nowhere", "totals")

    client = state_program.start(environment().from_savepoint(str(path)), tmp_path, version=2, parallelism=1)
    finish(client, tmp_path)

    output = tmp_path / "output-2"
    assert listed(spark.read.parquet(str(output / "totals"))) == [("a", 10, 10, 3), ("c", 20, 20, 1)]
    windows = spark.read.parquet(str(output / "recent"))
    assert listed(windows.selectExpr("user", "unix_seconds(window_start)", "total", "counted")) == [
        ("a", at(0).timestamp(), 4, None),
        ("a", at(60).timestamp(), 13, 1),
        ("a", at(120).timestamp(), 10, 1),
        ("b", at(0).timestamp(), 2, None),
        ("c", at(60).timestamp(), 20, 1),
        ("c", at(120).timestamp(), 20, 1),
    ]
    assert listed(spark.read.parquet(str(output / "silence")).distinct()) == [
        ("a", 3, 10.0),
        ("b", 1, -1.0),
        ("c", 1, 20.0),
    ]
