"""Tests windows that call functions: whatever faults occur, the output equals that of one plain Spark batch."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from flykka import (
    AggregateFunction,
    DataStream,
    EventTimeSessionWindows,
    FileSink,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
)
from flykka.spark_bridge.functions.windowing.window_function import ProcessWindowContext
from tests.integration import arrivals, stateful
from tests.integration.stateful import StatefulExample
from tests.integration.test_continuing import wait_checkpoint
from tests.integration.test_kill import kill_at
from tests.integration.test_stateful_examples import MOMENTS, assert_true, start_example

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]


class Visit(ProcessWindowFunction):
    def process(self, key: Any, context: ProcessWindowContext, elements: list[Any]) -> Iterator[dict[str, Any]]:
        times = [each["at"] for each in elements]
        yield {"sensor": key, "events": len(elements), "began": min(times), "ended": max(times)}


class Total(AggregateFunction[dict[str, Any], int, dict[str, Any]]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: dict[str, Any], accumulator: int) -> int:
        return accumulator + int(value["amount"])

    def get_result(self, accumulator: int) -> dict[str, Any]:
        return {"total": accumulator}


class InWindow(ProcessWindowFunction):
    def process(self, key: Any, context: ProcessWindowContext, elements: list[Any]) -> Iterator[dict[str, Any]]:
        yield {"user": key, "until_ms": context.window().end, **elements[0]}


def _visits(_: ModuleType, events: DataStream, output: Path) -> None:
    sessions = events.key_by("sensor").window(EventTimeSessionWindows.with_gap("30min"))
    visits = sessions.process(Visit(), "sensor bigint, events int, began timestamp, ended timestamp").uid("visits")
    visits.sink_to(FileSink.parquet(str(output))).uid("output")


def _expected_visits(_: ModuleType, events: DataFrame) -> DataFrame:
    sessions = events.groupBy("sensor", F.session_window("at", "30 minutes").alias("w"))
    visits = sessions.agg(
        F.count("*").cast("int").alias("events"), F.min("at").alias("began"), F.max("at").alias("ended")
    )
    return visits.drop("w")


def _totals(_: ModuleType, events: DataStream, output: Path) -> None:
    hours = events.key_by("user").window(SlidingEventTimeWindows.of("1h", "20min"))
    columns = "user bigint, until_ms bigint, total bigint"
    totals = hours.aggregate(Total(), InWindow(), accumulator_type="bigint", output=columns)
    totals.uid("totals").sink_to(FileSink.parquet(str(output))).uid("output")


def _expected_totals(_: ModuleType, events: DataFrame) -> DataFrame:
    hours = events.groupBy("user", F.window("at", "1 hour", "20 minutes").alias("w")).agg(
        F.sum("amount").alias("total")
    )
    return hours.select("user", F.unix_millis("w.end").alias("until_ms"), "total")


class Sums(ProcessAllWindowFunction):
    def __init__(self, kind: str) -> None:
        self._kind = kind

    def process(self, context: ProcessWindowContext, elements: list[Any]) -> Iterator[dict[str, Any]]:
        ended, total = max(each["at"] for each in elements), sum(each["amount"] for each in elements)
        yield {"kind": self._kind, "events": len(elements), "total": total, "ended": ended}


SUMS = "kind string, events bigint, total bigint, ended timestamp"


def _sums() -> list[Column]:
    return [F.count("*").alias("events"), F.sum("amount").alias("total"), F.max("at").alias("ended")]


def _of_all(_: ModuleType, events: DataStream, output: Path) -> None:
    events.set_parallelism(1)  # The order of rows decides which rows are counted together.
    gap = EventTimeSessionWindows.with_gap("15s")
    counted = events.count_window_all(70).process(Sums("count"), SUMS).uid("counts")
    sessions = events.window_all(gap).process(Sums("session"), SUMS).uid("sessions")
    in_columns = events.window_all(gap).aggregate(*_sums()).uid("sessions in columns")
    of_columns = in_columns.select(F.lit("columns").alias("kind"), "events", "total", "ended")
    counted.union(sessions, of_columns).sink_to(FileSink.parquet(str(output))).uid("output")


def _expected_of_all(_: ModuleType, events: DataFrame) -> DataFrame:
    in_order = Window.orderBy("_metadata.file_name", "_metadata.row_index")
    number = F.floor((F.row_number().over(in_order) - 1) / 70)
    counted = events.withColumn("number", number).groupBy("number").agg(*_sums()).where("events = 70").drop("number")
    sessions = events.groupBy(F.session_window("at", "15 seconds").alias("w")).agg(*_sums()).drop("w")
    kinds = {"count": counted, "session": sessions, "columns": sessions}
    count, session, columns = (rows.select(F.lit(kind).alias("kind"), "*") for kind, rows in kinds.items())
    return count.union(session).union(columns)


# These cases do not use the example's module.
WINDOWS = (
    StatefulExample(name="sessions", define=_visits, expected=_expected_visits),
    StatefulExample(name="running_totals", define=_totals, expected=_expected_totals),
    StatefulExample(name="top_products", define=_of_all, expected=_expected_of_all),
)


@pytest.fixture(scope="session")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stateful.write_events(tmp_path_factory.mktemp("input") / "events")


@pytest.mark.long
@pytest.mark.parametrize("windows", WINDOWS, ids=str)
def test_a_kill_does_not_change_function_windows(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    events: Path,
    tmp_path: Path,
    windows: StatefulExample,
) -> None:
    arrivals.deliver_first_files(events, tmp_path / "arrivals", files=3)
    env = environment().set_parallelism(2)
    kill = kill_at(env, MOMENTS[0])

    client = start_example(env, windows, tmp_path / "arrivals", tmp_path / "output")
    assert kill.wait(timeout=60)
    arrivals.deliver_remaining_files(events, tmp_path / "arrivals")
    client.wait(timeout=120)

    assert_true(spark, windows, events, tmp_path / "output")


@pytest.mark.long
@pytest.mark.parametrize("windows", WINDOWS, ids=str)
def test_open_windows_of_four_subtasks_continue_on_two(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    events: Path,
    tmp_path: Path,
    windows: StatefulExample,
) -> None:
    folder, output = tmp_path / "arrivals", tmp_path / "output"
    arrivals.deliver_first_files(events, folder, files=3)
    client = start_example(environment().set_parallelism(4), windows, folder, output)
    wait_checkpoint(client)
    savepoint = client.stop_with_savepoint(str(tmp_path / "savepoint"))
    shutil.rmtree(tmp_path / "checkpoints")

    client = start_example(environment().set_parallelism(2).from_checkpoint(savepoint), windows, folder, output)
    arrivals.deliver_remaining_files(events, folder)
    client.wait(timeout=120)

    assert_true(spark, windows, events, output)
