"""Tests the state of a job as DataFrames, and a job that continues with another state schema or with changed state."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import flykka.state
from flykka import JobClient, StreamExecutionEnvironment
from flykka.cli.main import main
from flykka.errors import CheckpointNotFoundError
from flykka.messages.control.job import CheckpointCompleted
from flykka.spark_bridge.errors import SavedStateError
from tests.integration import state_program
from tests.integration.arrivals import END
from tests.integration.state_program import order_time, sorted_rows
from tests.integration.test_savepoints import wait_for, wait_read

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

Environment = Callable[..., StreamExecutionEnvironment]


def savepoint_of_first_orders(env: StreamExecutionEnvironment, folder: Path) -> Path:
    state_program.write_orders(folder / "orders", "first", state_program.FIRST)
    client = state_program.start_orders(env, folder, parallelism=1)
    wait_read(client, rows=len(state_program.FIRST))
    return Path(client.stop_with_savepoint())


def finish_orders(client: JobClient, folder: Path) -> None:
    state_program.write_orders(folder / "orders", "then", state_program.THEN)
    (folder / "orders" / END).touch()
    client.wait(timeout=120)


def test_a_savepoint_is_readable_and_a_program_of_another_schema_resumes(
    spark: SparkSession, environment: Environment, tmp_path: Path
) -> None:
    path = savepoint_of_first_orders(environment(), tmp_path)

    totals, recent, silence = (flykka.state.read(path, uid) for uid in ("totals", "recent", "silence"))
    assert totals.table().columns == ["user", "sum(amount)", "max(amount)", "rows"]
    assert sorted_rows(totals.table()) == [("a", 4, 3, 2), ("b", 2, 2, 1)]
    assert sorted_rows(totals.values("max(amount)")) == [("a", 3), ("b", 2)]
    assert sorted_rows(silence.keys()) == [("a",), ("b",)]
    assert sorted_rows(silence.table()) == [("a", 2, [1, 3]), ("b", 1, [2])]
    assert sorted_rows(silence.timers().selectExpr("user", "unix_seconds(time)", "domain")) == [
        ("a", order_time(300).timestamp(), "event-time"),
        ("a", order_time(370).timestamp(), "event-time"),
        ("b", order_time(330).timestamp(), "event-time"),
    ]
    assert recent.windows().columns == ["user", "window_start", "window_end", "sum(amount)", "rows"]
    assert sorted_rows(recent.windows().selectExpr("user", "unix_seconds(window_start)", "`sum(amount)`")) == [
        ("a", order_time(0).timestamp(), 4),
        ("a", order_time(60).timestamp(), 3),
        ("b", order_time(0).timestamp(), 2),
    ]
    with pytest.raises(SavedStateError, match="has no operator 'total'; it has 'orders', 'silence', "):
        flykka.state.read(path, "total")
    with pytest.raises(
        SavedStateError,
        match=r"'orders' \(orders\) keeps no keyed state in .*; operators with keyed state: 'silence', ",
    ):
        flykka.state.read(path, "orders")
    with pytest.raises(SavedStateError, match="'totals' is not a function with timers"):
        totals.timers()
    with pytest.raises(CheckpointNotFoundError, match="is not a checkpoint or savepoint"):
        flykka.state.read(tmp_path / "nowhere", "totals")

    client = state_program.start_orders(environment().from_savepoint(str(path)), tmp_path, version=2, parallelism=1)
    finish_orders(client, tmp_path)

    output = tmp_path / "output-2"
    assert sorted_rows(spark.read.parquet(str(output / "totals"))) == [("a", 10, 10, 3), ("c", 20, 20, 1)]
    windows = spark.read.parquet(str(output / "recent"))
    assert sorted_rows(windows.selectExpr("user", "unix_seconds(window_start)", "total", "counted")) == [
        ("a", order_time(0).timestamp(), 4, None),
        ("a", order_time(60).timestamp(), 13, 1),
        ("a", order_time(120).timestamp(), 10, 1),
        ("b", order_time(0).timestamp(), 2, None),
        ("c", order_time(60).timestamp(), 20, 1),
        ("c", order_time(120).timestamp(), 20, 1),
    ]
    assert sorted_rows(spark.read.parquet(str(output / "silence")).distinct()) == [
        ("a", 3, 10.0),
        ("b", 1, -1.0),
        ("c", 1, 20.0),
    ]


# The next test shows in less time that written state can be read and restored.
@pytest.mark.long
def test_a_job_resumes_from_a_savepoint_with_modified_state(
    spark: SparkSession, environment: Environment, tmp_path: Path
) -> None:
    path = savepoint_of_first_orders(environment(), tmp_path)
    totals, recent, silence = (flykka.state.read(path, uid) for uid in ("totals", "recent", "silence"))
    env = state_program.written_down(environment(), tmp_path, parallelism=1)

    added = spark.createDataFrame([("c", 7, [9])], silence.table().schema)
    timer = spark.createDataFrame([("c", order_time(1000), "event-time")], silence.timers().schema)
    changed = flykka.state.write(
        tmp_path / "changed",
        env,
        {
            "totals": totals.table().withColumn("sum(amount)", F.col("sum(amount)") + 100),
            "recent": recent.panes().withColumn("sum(amount)", F.col("sum(amount)") * 10),
            "silence": silence.table().withColumn("orders", F.col("orders") + F.lit(10)).unionByName(added),
        },
        timers={"silence": silence.timers().unionByName(timer)},
        existing=path,
    )
    shutil.rmtree(path)
    again = flykka.state.write(tmp_path / "again", env, {"silence": added}, existing=changed)
    assert sorted_rows(flykka.state.read(again, "silence").timers()) == sorted_rows(
        flykka.state.read(changed, "silence").timers()
    )
    assert sorted_rows(flykka.state.read(again, "totals").values("rows")) == [("a", 2), ("b", 1)]
    assert flykka.state.verify(again).damages == ()
    finish_orders(env.from_savepoint(changed).execute_async("orders"), tmp_path)

    output = tmp_path / "output-1"
    both = spark.read.parquet(str(output / "totals")).where("n > 2 or user = 'c'")
    assert sorted_rows(both) == [("a", 3, 114, 10), ("c", 1, 20, 20)]
    assert sorted_rows(spark.read.parquet(str(output / "silence")).select("user", "orders").distinct()) == [
        ("a", 13),
        ("b", 11),
        ("c", 8),
    ]
    windows = spark.read.parquet(str(output / "recent")).where(F.col("window_start") >= order_time(0))
    assert sorted_rows(windows.selectExpr("user", "unix_seconds(window_start)", "total")) == [
        ("a", order_time(0).timestamp(), 40),
        ("a", order_time(60).timestamp(), 40),
        ("a", order_time(120).timestamp(), 10),
        ("b", order_time(0).timestamp(), 20),
        ("c", order_time(60).timestamp(), 20),
        ("c", order_time(120).timestamp(), 20),
    ]


def test_a_job_starts_with_bootstrapped_state(spark: SparkSession, environment: Environment, tmp_path: Path) -> None:
    state_program.write_orders(tmp_path / "orders", "then", state_program.THEN)
    env = state_program.written_down(environment(), tmp_path, parallelism=1)
    rows = spark.createDataFrame(
        [("a", 1000, 500, 2), ("z", 1, 1, 1)], "user string, `sum(amount)` int, `max(amount)` int, rows int"
    )
    first, silence = (spark.createDataFrame([("b", orders)], "user string, orders int") for orders in (4, 40))
    timer = spark.createDataFrame([("b", order_time(1000), "event-time")], "user string, time timestamp, domain string")

    written = flykka.state.write(
        tmp_path / "bootstrap", env, {"totals": rows, "silence": first}, timers={"silence": timer}
    )
    changed = flykka.state.write(tmp_path / "changed", env, {"silence": silence}, existing=written)
    finish_orders(env.from_savepoint(changed).execute_async("orders"), tmp_path)

    assert sorted_rows(flykka.state.read(changed, "totals").table()) == [("a", 1000, 500, 2), ("z", 1, 1, 1)]
    assert sorted_rows(flykka.state.read(changed, "silence").table()) == [("b", 40, None)]
    assert sorted_rows(flykka.state.read(changed, "silence").timers()) == sorted_rows(timer)
    totals, alarms = (spark.read.parquet(str(tmp_path / "output-1" / name)) for name in ("totals", "silence"))
    assert sorted_rows(totals) == [("a", 3, 1010, 500), ("c", 1, 20, 20)]
    assert ("b", 40) in sorted_rows(alarms.select("user", "orders"))


@pytest.fixture(scope="module")
def program(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StreamExecutionEnvironment]:
    """An environment with the first version, which is not executed."""
    folder = tmp_path_factory.mktemp("program")
    state_program.write_orders(folder / "orders", "first", state_program.FIRST)
    with StreamExecutionEnvironment.get_execution_environment() as env:
        state_program.define(env, folder)
        yield env


@pytest.mark.parametrize(
    ("uid", "columns", "rows", "says"),
    [
        ("total", "user string", [], "the program has no operator 'total'; it has 'orders'"),
        (
            "orders",
            "user string",
            [],
            r"'orders' \(orders\) keeps no keyed state; operators that do: 'silence', 'totals', 'recent'",
        ),
        ("silence", "user string, order int", [], "'silence' has no state 'order'; it has: user, orders, amounts"),
        ("silence", "orders int", [], "the rows for 'silence' miss the key 'user': they have orders"),
        (
            "silence",
            "user string, orders string",
            [],
            "'orders' of 'silence' is of the type int, and the rows have string",
        ),
        ("silence", "user string, orders int", [("a", 1), ("a", 2)], "have the key user='a' 2 times"),
        ("recent", "user string, window_start timestamp", [], "the windows of 'recent' overlap"),
        (
            "recent",
            "user string, pane_start timestamp",
            [("a", order_time(1))],
            "has a pane that begins at 2024-01-01 00:00:01",
        ),
    ],
)
def test_rows_that_match_no_state_are_refused_without_leftover_files(
    spark: SparkSession,
    program: StreamExecutionEnvironment,
    tmp_path: Path,
    uid: str,
    columns: str,
    rows: list[tuple[object, ...]],
    says: str,
) -> None:
    with pytest.raises(SavedStateError, match=says):
        flykka.state.write(tmp_path / "refused", program, {uid: spark.createDataFrame(rows, columns)})

    assert not (tmp_path / "refused").exists()


def test_a_running_job_serves_state_from_its_last_checkpoint(
    environment: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state_program.write_orders(tmp_path / "orders", "first", state_program.FIRST)
    client = state_program.start_orders(environment(), tmp_path, parallelism=1)
    wait_read(client, rows=len(state_program.FIRST))
    # The checkpoint in progress may have started before the rows were read.
    begun = max((each.checkpoint_id for each in client.details.checkpoints), default=0)
    wait_for(client, lambda said: isinstance(said, CheckpointCompleted) and said.checkpoint_id > begun + 1)

    sums = client.query_state("totals", "sum(amount)", ["a", "b", "nobody"])
    amounts = client.query_state("silence", "amounts", ["a"])
    with pytest.raises(SavedStateError, match="'totals' has no state 'sum'; it has: sum\\(amount\\), max"):
        client.query_state("totals", "sum", ["a"])
    path = client.stop()
    code = main(["savepoint", "inspect", path, "--rows", "1", "--json"])

    assert sums == {"a": 4, "b": 2}
    assert amounts == {"a": [1, 3]}
    assert code == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {uid: len(some) for uid, some in rows.items()} == {"silence": 1, "totals": 1, "recent": 1}
    assert list(rows["recent"][0]) == ["user", "window_start", "window_end", "sum(amount)", "rows"]
