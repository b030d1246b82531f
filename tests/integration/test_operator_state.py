"""Tests operator state: exactly once after kills of TaskManagers, and redistributed at another parallelism."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flykka import (
    CheckpointedFunction,
    DataStream,
    FileSink,
    FileSource,
    FunctionContext,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    JobClient,
    KeyedContext,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessFunction,
    RestartStrategies,
    RichFunction,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from flykka.messages.attempt.answers import SnapshotWritten
from tests.integration import arrivals
from tests.integration.test_continuing import wait_checkpoint
from tests.integration.test_kill import Moment, kill_at

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

KILL = Moment(
    name="between barrier and acknowledgement", matches=lambda said: isinstance(said, SnapshotWritten), count=3
)


class Pairs(CheckpointedFunction):
    """Holds every row until the next row of its subtask arrives. `held` is split among subtasks, one row each."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self._state = store.get_list_state(ListStateDescriptor("held", "struct<shop: bigint, id: bigint>"))
        self._union = store.get_union_list_state(ListStateDescriptor("ids", "bigint"))
        self._names = store.get_broadcast_state(MapStateDescriptor("names", "string", "bigint"))
        self._held: list[dict[str, Any]] = self._state.get()

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._state.update(self._held)
        self._union.update([each["id"] for each in self._held])

    def released(self, row: dict[str, Any]) -> list[dict[str, Any]]:
        self._names.put("rule", 1)
        released, self._held = self._held, [{"shop": row["shop"], "id": row["id"]}]
        return released


class PairsOfRows(ProcessFunction, Pairs):
    def process_element(self, row: dict[str, Any], ctx: FunctionContext) -> Iterator[dict[str, Any]]:
        yield from self.released(row)


class PairsOfKeyedRows(KeyedProcessFunction, Pairs):
    """Like `Pairs`, but for keyed rows; all keys share the subtask's state."""

    def process_element(self, row: dict[str, Any], ctx: KeyedContext) -> Iterator[dict[str, Any]]:
        yield from self.released(row)


class RowsBefore(RichFunction, CheckpointedFunction):
    """Adds to each batch the number of rows that the subtasks processed before it."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self._state = context.get_operator_state_store().get_list_state(ListStateDescriptor("rows", "bigint"))
        self._rows = sum(self._state.get())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        assert context.get_checkpoint_id() is not None
        self._state.update([self._rows])

    def __call__(self, rows: DataFrame) -> DataFrame:
        before, self._rows = self._rows, self._rows + rows.count()
        return rows.select("shop", "id", F.lit(before).alias("before"))


def pairs_of_keyed_rows(sales: DataStream) -> DataStream:
    return sales.key_by("shop").process(PairsOfKeyedRows(), "shop bigint, id bigint").uid("pairs")


def unkeyed(sales: DataStream) -> DataStream:
    return sales.process(PairsOfRows(), "shop bigint, id bigint").uid("pairs")


def rich(sales: DataStream) -> DataStream:
    return sales.transform(RowsBefore(), per_batch=True).uid("pairs")


Define = Callable[[DataStream], DataStream]


def start_pairs(env: StreamExecutionEnvironment, define: Define, sales: Path, output: Path) -> JobClient:
    """Start with one file per batch and a checkpoint every second."""
    env.enable_checkpointing("1s", tolerable_failures=100).set_checkpoint_dir(str(output.with_name("checkpoints")))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(delay=0))
    source = FileSource.parquet(str(sales)).files_per_batch(1).monitor_continuously("50ms", until=arrivals.END)
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "sales", uid="sales")
    numbered = rows.select("shop", F.unix_micros("at").alias("id"))
    define(numbered).sink_to(FileSink.parquet(str(output))).uid("output")
    return env.execute_async("pairs")


def assert_released(spark: SparkSession, sales: Path, output: Path, *, held: int) -> None:
    """Check that every row was emitted once, except for at most `held` rows that subtasks still hold."""
    ids = spark.read.parquet(str(sales)).select(F.unix_micros("at").alias("id"))
    expected = Counter(row["id"] for row in ids.collect())
    released = Counter(row["id"] for row in spark.read.parquet(str(output)).collect())
    assert not released - expected, "rows were released twice"
    assert 1 <= (expected - released).total() <= held


# Savepoints contain the same state as checkpoints.
@pytest.mark.long
@pytest.mark.parametrize("define", [pairs_of_keyed_rows, unkeyed])
def test_a_kill_neither_loses_nor_duplicates_operator_state(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    few_sales: Path,
    tmp_path: Path,
    define: Define,
) -> None:
    arrivals.deliver_first_files(few_sales, tmp_path / "arrivals")
    env = environment().set_parallelism(2)
    kill = kill_at(env, KILL)

    client = start_pairs(env, define, tmp_path / "arrivals", tmp_path / "output")
    assert kill.wait(timeout=60)
    arrivals.deliver_remaining_files(few_sales, tmp_path / "arrivals")
    client.wait(timeout=120)

    assert_released(spark, few_sales, tmp_path / "output", held=2)


@pytest.mark.parametrize("define", [unkeyed, pytest.param(pairs_of_keyed_rows, marks=pytest.mark.long)])
def test_operator_state_of_four_subtasks_is_redistributed_to_two(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    few_sales: Path,
    tmp_path: Path,
    define: Define,
) -> None:
    folder, output = tmp_path / "arrivals", tmp_path / "output"
    arrivals.deliver_first_files(few_sales, folder)
    client = start_pairs(environment().set_parallelism(4), define, folder, output)
    wait_checkpoint(client)
    savepoint = client.stop_with_savepoint(str(tmp_path / "savepoint"))
    shutil.rmtree(tmp_path / "checkpoints")
    arrivals.deliver_remaining_files(few_sales, folder, files=4)

    start_pairs(environment().set_parallelism(2).from_savepoint(savepoint), define, folder, output).wait(timeout=120)

    assert_released(spark, folder, output, held=2)


def test_a_rich_function_resumes_from_its_savepoint(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], few_sales: Path, tmp_path: Path
) -> None:
    folder, output = tmp_path / "arrivals", tmp_path / "output"
    arrivals.deliver_first_files(few_sales, folder, files=2)
    client = start_pairs(environment().set_parallelism(1), rich, folder, output)
    wait_checkpoint(client)
    savepoint = client.stop_with_savepoint(str(tmp_path / "savepoint"))
    arrivals.deliver_remaining_files(few_sales, folder, files=4)

    start_pairs(environment().set_parallelism(1).from_savepoint(savepoint), rich, folder, output).wait(timeout=120)

    batches = spark.read.parquet(str(output)).groupBy("before").count().orderBy("before").collect()
    assert [row["before"] for row in batches] == [
        sum(row["count"] for row in batches[:place]) for place in range(len(batches))
    ]
