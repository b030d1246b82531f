"""Tests functions of two streams: exactly once after kills of TaskManagers, and at another parallelism."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from flykka import (
    BroadcastContext,
    BroadcastProcessFunction,
    DataStream,
    FileSink,
    FileSource,
    FunctionRuntimeContext,
    JobClient,
    KeyedContext,
    KeyedCoProcessFunction,
    MapStateDescriptor,
    OutputTag,
    ReadOnlyContext,
    RestartStrategies,
    StreamExecutionEnvironment,
    TimerContext,
    WatermarkStrategy,
)
from flykka.messages.attempt.answers import SnapshotWritten
from flykka.messages.control.job import CheckpointCompleted
from flykka.runtime.testing.faults import kill_when
from tests.integration import arrivals
from tests.integration.test_kill import Moment, kill_at
from tests.integration.test_unaligned import Watched, slowly

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

KILL = Moment(
    name="between barrier and acknowledgement", matches=lambda said: isinstance(said, SnapshotWritten), count=4
)
HOUR_MS = 60 * 60 * 1000
UNPAID = OutputTag("unpaid", "shop bigint, at timestamp")
HOURLY = "shop bigint, hour timestamp, sales bigint, returns bigint"


class Balance(KeyedCoProcessFunction):
    """Counts the rows of both inputs per hour, and emits the counts at the end of the hour; unpaid sales go to the side
    output.

    If its timers did not wait for the slower input, an hour would be emitted twice, in parts.
    """

    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        descriptors = (MapStateDescriptor(name, "bigint", "bigint") for name in ("sales", "returns"))
        self._sales, self._returns = map(runtime_context.get_map_state, descriptors)

    def process_element1(self, row: dict[str, Any], ctx: KeyedContext) -> None:
        self._count(self._sales, ctx)
        if row["amount"] is None:
            ctx.output(UNPAID, {"shop": row["shop"], "at": row["at"]})

    def process_element2(self, row: dict[str, Any], ctx: KeyedContext) -> None:
        self._count(self._returns, ctx)

    def on_timer(self, timestamp: int, ctx: TimerContext) -> Iterator[dict[str, Any]]:
        hour = timestamp + 1 - HOUR_MS
        counts = {"sales": self._sales.get(hour) or 0, "returns": self._returns.get(hour) or 0}
        self._sales.remove(hour)
        self._returns.remove(hour)
        yield {"shop": ctx.get_current_key(), "hour": datetime.fromtimestamp(hour / 1000, UTC), **counts}

    def _count(self, counts: Any, ctx: KeyedContext) -> None:
        at_ms = ctx.timestamp()
        assert at_ms is not None
        hour = at_ms - at_ms % HOUR_MS
        counts.put(hour, (counts.get(hour) or 0) + 1)
        ctx.timer_service().register_event_time_timer(hour + HOUR_MS - 1)


def stream_of_folder(env: StreamExecutionEnvironment, folder: Path, name: str, delay: str) -> DataStream:
    source = FileSource.parquet(str(folder)).files_per_batch(1).monitor_continuously("50ms", until=arrivals.END)
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness(delay).with_timestamp_column("at")
    # A second subtask without a file would hold back all watermarks.
    return env.from_source(source, watermarks, name, uid=name).set_parallelism(1)


def start_connected_streams(
    env: StreamExecutionEnvironment, sales: Path, returns: Path, output: Path, *, slow: bool = False
) -> JobClient:
    """Start two sources with different watermarks and a checkpoint every second, or more often if rows are in flight
    for long.
    """
    interval, checkpoints = "300ms" if slow else "1s", str(output.with_name("checkpoints"))
    env.enable_checkpointing(interval, tolerable_failures=100).set_checkpoint_dir(checkpoints)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(delay=0))
    first, second = stream_of_folder(env, sales, "sales", "1s"), stream_of_folder(env, returns, "returns", "3h")
    if slow:
        first = first.rebalance().transform(slowly).uid("slow")
    # One column has the same name but another type, and event time is in a column of another name.
    brought = second.where("amount > 700").with_column("amount", F.col("amount").cast("string"))
    brought = brought.with_column_renamed("at", "returned_at").with_column_renamed("shop", "of_shop")
    balance = first.connect(brought).key_by("shop", "of_shop").process(Balance(), HOURLY).uid("balance")
    balance.sink_to(FileSink.parquet(str(output))).uid("output")
    balance.get_side_output(UNPAID).sink_to(FileSink.parquet(f"{output}-unpaid")).uid("unpaid")
    return env.execute_async("balance")


def assert_exact(spark: SparkSession, sales: Path, output: Path) -> None:
    rows = spark.read.parquet(str(sales))
    hours = rows.withColumn("hour", F.date_trunc("hour", "at")).groupBy("shop", "hour")
    returns = F.count_if(F.coalesce(F.col("amount") > 700, F.lit(False))).alias("returns")
    assertDataFrameEqual(spark.read.parquet(str(output)), hours.agg(F.count("*").alias("sales"), returns))
    unpaid = rows.where("amount IS NULL").select("shop", "at")
    assertDataFrameEqual(spark.read.parquet(f"{output}-unpaid"), unpaid)


@pytest.mark.parametrize(
    ("parallelism", "moment"), [pytest.param(2, KILL, marks=pytest.mark.long), (1, None)], ids=["2-kill", "1"]
)
def test_two_inputs_are_counted_once_at_any_parallelism_and_with_a_kill(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    few_sales: Path,
    tmp_path: Path,
    parallelism: int,
    moment: Moment | None,
) -> None:
    folders = tmp_path / "sales", tmp_path / "returns"
    for folder in folders:
        arrivals.deliver_first_files(few_sales, folder)
    env = environment().set_parallelism(parallelism)
    kill = None if moment is None else kill_at(env, moment)

    client = start_connected_streams(env, *folders, tmp_path / "output")
    assert kill is None or kill.wait(timeout=60)
    for folder in folders:
        arrivals.deliver_remaining_files(few_sales, folder)
    client.wait(timeout=120)

    assert_exact(spark, few_sales, tmp_path / "output")


@pytest.mark.long
@pytest.mark.parametrize("parallelism", [3, 1])
def test_a_savepoint_is_rescaled_and_timers_wait_for_both_inputs(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    sales_files: Path,
    tmp_path: Path,
    parallelism: int,
) -> None:
    folders, output = (tmp_path / "sales", tmp_path / "returns"), tmp_path / "output"
    arrivals.deliver_first_files(sales_files, folders[0], files=5)
    arrivals.deliver_first_files(sales_files, folders[1], files=3)
    client = start_connected_streams(environment().set_parallelism(2), *folders, output)
    wait_rows(spark, client, output, 1)
    savepoint = client.stop_with_savepoint(str(tmp_path / "savepoint"))

    slower = spark.read.parquet(*(str(file) for file in sorted(folders[1].glob("*.parquet"))))
    ((latest,),) = slower.agg(F.max("at")).collect()
    ((last_hour,),) = spark.read.parquet(str(output)).agg(F.max("hour")).collect()
    assert last_hour + timedelta(hours=1) <= latest - timedelta(hours=3), "sales alone would have let timers fire"

    client = start_connected_streams(
        environment().set_parallelism(parallelism).from_savepoint(savepoint), *folders, output
    )
    for folder in folders:
        arrivals.deliver_remaining_files(sales_files, folder)
    client.wait(timeout=120)

    assert_exact(spark, sales_files, output)


@pytest.mark.long
def test_in_flight_rows_of_both_inputs_count_once_after_an_unaligned_checkpoint(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    sales_files: Path,
    tmp_path: Path,
) -> None:
    env = environment().set_parallelism(2).enable_unaligned_checkpoints()
    folders = tmp_path / "sales", tmp_path / "returns"
    watched, system = Watched(), env.cluster.system
    system.add_delivery_hook(watched.hear)
    kill = kill_when(system, lambda: system.find(watched.recipients[-1]), watched.is_commit)
    for folder in folders:
        arrivals.deliver_first_files(sales_files, folder, files=0)
        arrivals.deliver_remaining_files(sales_files, folder)

    start_connected_streams(env, *folders, tmp_path / "output", slow=True).wait(timeout=120)

    assert kill.done
    assert watched.recovered_rows > 0
    assert_exact(spark, sales_files, tmp_path / "output")


RULES = MapStateDescriptor("rules", "bigint", "bigint")


class ByRules(BroadcastProcessFunction):
    """Emits each rule, and each sale with the number of rules at its arrival."""

    def process_element(self, row: dict[str, Any], ctx: ReadOnlyContext) -> Iterator[dict[str, Any]]:
        yield {"shop": row["shop"], "rules": len(ctx.get_broadcast_state(RULES).keys())}

    def process_broadcast_element(self, row: dict[str, Any], ctx: BroadcastContext) -> Iterator[dict[str, Any]]:
        ctx.get_broadcast_state(RULES).put(row["rule"], 1)
        yield {"shop": None, "rules": row["rule"]}


def start_rules(env: StreamExecutionEnvironment, sales: Path, rules: Path, output: Path) -> JobClient:
    env.enable_checkpointing("1s", tolerable_failures=100).set_checkpoint_dir(str(output.with_name("checkpoints")))
    source = FileSource.parquet(str(rules), schema="rule bigint").monitor_continuously("50ms", until=arrivals.END)
    known = env.from_source(source, WatermarkStrategy.no_watermarks(), "rules", uid="rules")
    columns = "shop bigint, amount bigint, at timestamp"
    source = FileSource.parquet(str(sales), schema=columns).monitor_continuously("50ms", until=arrivals.END)
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "sales", uid="sales")
    matches = rows.connect(known.broadcast(RULES)).process(ByRules(), "shop bigint, rules bigint").uid("found")
    matches.sink_to(FileSink.parquet(str(output))).uid("output")
    return env.execute_async("rules")


@pytest.mark.parametrize("parallelism", [3, pytest.param(1, marks=pytest.mark.long)])
def test_broadcast_state_reaches_all_subtasks_after_a_savepoint(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    sales_files: Path,
    tmp_path: Path,
    parallelism: int,
) -> None:
    sales, rules, output = tmp_path / "sales", tmp_path / "rules", tmp_path / "output"
    arrivals.deliver_first_files(sales_files, sales, files=0)
    spark.range(5).withColumnRenamed("id", "rule").coalesce(1).write.parquet(str(rules))
    (rules / arrivals.END).unlink()
    client = start_rules(environment().set_parallelism(2), sales, rules, output)
    wait_rows(spark, client, output, 2 * 5)
    savepoint = client.stop_with_savepoint(str(tmp_path / "savepoint"))
    arrivals.deliver_remaining_files(sales_files, sales, files=3)
    (rules / arrivals.END).touch()

    start_rules(environment().set_parallelism(parallelism).from_savepoint(savepoint), sales, rules, output).wait(
        timeout=120
    )

    rows = spark.read.parquet(str(output))
    assert sorted(row["rules"] for row in rows.where("shop IS NULL").collect()) == sorted(2 * list(range(5)))
    assert {row["rules"] for row in rows.where("shop IS NOT NULL").select("rules").distinct().collect()} == {5}
    assert rows.where("shop IS NOT NULL").count() == spark.read.parquet(str(sales)).count()


def wait_rows(spark: SparkSession, client: JobClient, output: Path, rows: int) -> None:
    completed = threading.Event()
    client.add_listener(lambda said: completed.set() if isinstance(said, CheckpointCompleted) else None)
    while not any(output.glob("*.parquet")) or spark.read.parquet(str(output)).count() < rows:
        assert completed.wait(timeout=120)
        completed.clear()
