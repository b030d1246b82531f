"""Tests broadcast variables: complete when their reader starts, and equal after a kill and after a savepoint."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flykka import (
    DataStream,
    FileSink,
    FileSource,
    FunctionContext,
    FunctionRuntimeContext,
    JobClient,
    KeyedContext,
    KeyedProcessFunction,
    ProcessFunction,
    ProcessWindowFunction,
    RestartStrategies,
    RichFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from flykka.messages.attempt.answers import SnapshotWritten, StageResult
from tests.integration import arrivals
from tests.integration.test_continuing import wait_checkpoint
from tests.integration.test_kill import NEVER, Moment, kill_at

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

Environment = Callable[..., StreamExecutionEnvironment]


class Opened:
    """Adds to each row the rates that `open` and the call can read."""

    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        self.opened = sorted(row["rate"] for row in runtime_context.get_broadcast_variable("rates"))

    def seen(self, row: dict[str, Any], ctx: FunctionContext) -> Iterator[dict[str, Any]]:
        called = sorted(row["rate"] for row in ctx.get_broadcast_variable("rates"))
        yield {"id": row["id"], "rates": f"{self.opened} {called}"}


class Rated(Opened, ProcessFunction):
    def process_element(self, row: dict[str, Any], ctx: FunctionContext) -> Iterator[dict[str, Any]]:
        return self.seen(row, ctx)


class KeyedRated(Opened, KeyedProcessFunction):
    def process_element(self, row: dict[str, Any], ctx: KeyedContext) -> Iterator[dict[str, Any]]:
        return self.seen(row, ctx)


class WindowRated(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: list[Any]) -> Iterator[dict[str, Any]]:
        rates = sorted(row["rate"] for row in context.get_broadcast_variable("rates"))
        yield {"id": key, "rates": f"{rates} {elements[0]['rates']}"}


class Limited(RichFunction):
    """Adds the limits that a function in the driver can read."""

    def open(self, context: RuntimeContext) -> None:
        self.limits = str(sorted(row["limit"] for row in context.get_broadcast_variable("limits")))

    def __call__(self, rows: DataFrame) -> DataFrame:
        return rows.withColumn("limits", F.lit(self.limits))


def write_rates(spark: SparkSession, folder: Path, *rates: int) -> None:
    spark.createDataFrame([(rate,) for rate in rates], "rate int").write.mode("append").json(str(folder))


def rated(env: StreamExecutionEnvironment, sales: DataStream, folder: Path) -> DataStream:
    """Return sales whose two operators read two bounded streams as broadcast variables."""
    rates = FileSource.json(str(folder / "rates"), schema="rate int").files_per_batch(1)
    all_rates = env.from_source(rates, None, "rates", uid="rates").where("rate > 0")
    limits = env.from_dataframe(env.spark.range(2).select(F.col("id").alias("limit")), uid="limits")
    numbered = sales.select(F.unix_micros("at").alias("id"))
    with_rates = (
        numbered.process(Rated(), "id bigint, rates string").uid("rated").with_broadcast_set(all_rates, "rates")
    )
    return with_rates.transform(Limited()).uid("limited").with_broadcast_set(limits, "limits")


def start_rated_sales(env: StreamExecutionEnvironment, folder: Path, interval: str = "1s") -> JobClient:
    env.enable_checkpointing(interval, tolerable_failures=100).set_checkpoint_dir(str(folder / "checkpoints"))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(delay=0))
    source = FileSource.parquet(str(folder / "sales")).files_per_batch(1)
    source = source.monitor_continuously("50ms", until=arrivals.END)
    sales = env.from_source(source, WatermarkStrategy.no_watermarks(), "sales", uid="sales")
    rated(env, sales, folder).sink_to(FileSink.json(str(folder / "output"))).uid("output")
    return env.execute_async("rated")


def assert_all_saw(spark: SparkSession, folder: Path, rates: list[int]) -> None:
    ids = spark.read.parquet(str(folder / "sales")).select(F.unix_micros("at").alias("id"))
    rows = spark.read.json(str(folder / "output")).collect()
    assert sorted(row["id"] for row in rows) == sorted(row["id"] for row in ids.collect())
    assert {row["rates"] for row in rows} == {f"{rates} {rates}"}
    assert {row["limits"] for row in rows} == {"[0, 1]"}


MOMENTS = (
    Moment(
        name="while a variable is read",
        matches=lambda said: isinstance(said, StageResult),
        count=2,
        interval=NEVER,
    ),
    Moment(
        name="before the first checkpoint",
        matches=lambda said: isinstance(said, StageResult),
        count=12,
        interval=NEVER,
    ),
    Moment(name="after checkpoints", matches=lambda said: isinstance(said, SnapshotWritten), count=9),
)


# The test of the savepoint shows the restore in less time.
@pytest.mark.long
@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.name)
def test_every_subtask_has_the_same_variables_when_a_task_manager_dies(
    spark: SparkSession, environment: Environment, few_sales: Path, tmp_path: Path, moment: Moment
) -> None:
    write_rates(spark, tmp_path / "rates", 2, 1, -1)
    write_rates(spark, tmp_path / "rates", 3)
    arrivals.deliver_first_files(few_sales, tmp_path / "sales", files=4)
    env = environment().set_parallelism(2)
    kill = kill_at(env, moment)

    client = start_rated_sales(env, tmp_path, moment.interval)
    assert kill.wait(timeout=60)
    arrivals.deliver_remaining_files(few_sales, tmp_path / "sales")
    client.wait(timeout=120)

    assert_all_saw(spark, tmp_path, [1, 2, 3])


def test_a_rescaled_job_has_the_variables_of_its_savepoint(
    spark: SparkSession, environment: Environment, few_sales: Path, tmp_path: Path
) -> None:
    write_rates(spark, tmp_path / "rates", 2, 1)
    arrivals.deliver_first_files(few_sales, tmp_path / "sales", files=1)
    client = start_rated_sales(environment().set_parallelism(1), tmp_path)
    wait_checkpoint(client)
    savepoint = client.stop_with_savepoint(str(tmp_path / "savepoint"))
    shutil.rmtree(tmp_path / "checkpoints")
    write_rates(spark, tmp_path / "rates", 9)
    arrivals.deliver_remaining_files(few_sales, tmp_path / "sales", files=3)

    start_rated_sales(environment().set_parallelism(2).from_savepoint(savepoint), tmp_path).wait(timeout=120)

    assert_all_saw(spark, tmp_path, [1, 2])


def test_a_batch_stream_may_be_both_a_variable_and_an_input(
    spark: SparkSession, environment: Environment, tmp_path: Path
) -> None:
    env = environment().set_runtime_mode("BATCH").set_parallelism(2)
    rates = env.from_dataframe(spark.createDataFrame([(1, 5), (2, 6)], "id bigint, rate int"), uid="rates")
    keyed = rates.key_by("id").process(KeyedRated(), "id bigint, rates string").uid("rated")
    windows = keyed.with_broadcast_set(rates, "rates").key_by("id").count_window(1)
    rated = windows.process(WindowRated(), "id bigint, rates string").uid("windows").with_broadcast_set(rates, "rates")
    rated.sink_to(FileSink.json(str(tmp_path / "output"))).uid("output")

    env.execute("rated")

    rows = spark.read.json(str(tmp_path / "output")).collect()
    assert sorted((row["id"], row["rates"]) for row in rows) == [(number, "[5, 6] [5, 6] [5, 6]") for number in (1, 2)]
