"""All stateful operators in one job: a table of operations and queries, and their input."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from flykka import (
    CheckpointedFunction,
    DataStream,
    EventTimeSessionWindows,
    FileSink,
    FileSource,
    FunctionContext,
    FunctionInitializationContext,
    FunctionRuntimeContext,
    FunctionSnapshotContext,
    JobClient,
    KeyedBroadcastContext,
    KeyedBroadcastProcessFunction,
    KeyedContext,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedReadOnlyContext,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessWindowFunction,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TimerContext,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from tests.integration import arrivals

Row = dict[str, Any]
ROWS_PER_FILE = 12
EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
TUMBLING, SLIDING = TumblingEventTimeWindows.of("10s"), SlidingEventTimeWindows.of("10s", "4s")
SESSIONS = EventTimeSessionWindows.with_gap("15s")
LATE = OutputTag("late")
RULES = MapStateDescriptor("rules", "bigint", "bigint")


def write_operator_input(folder: Path, number: int) -> None:
    """Write a file of rows `k bigint, v bigint, at timestamp`: one row per second, and a 20 s pause after every tenth
    row.
    """
    places = range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
    rows = {
        "k": [place % 5 for place in places],
        "v": [place * 7 % 31 + 1 for place in places],
        "at": [EPOCH + timedelta(seconds=place + place // 10 * 20) for place in places],
    }
    hidden = folder / f".{number}.parquet"
    pq.write_table(
        pa.table(rows).cast(pa.schema({"k": "int64", "v": "int64", "at": pa.timestamp("us", "UTC")})), hidden
    )
    hidden.rename(folder / f"{number}.parquet")


class Silence(KeyedProcessFunction):
    """Counts the rows of a key, and emits the count at a timer after the last row."""

    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        self._rows = runtime_context.get_state(ValueStateDescriptor("rows", "bigint"))

    def process_element(self, row: Row, ctx: KeyedContext) -> None:
        self._rows.update((self._rows.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(round(EPOCH.timestamp() * 1000) + 86_400_000)

    def on_timer(self, timestamp: int, ctx: TimerContext) -> Iterator[Row]:
        yield {"k": ctx.get_current_key(), "n": self._rows.value()}


class Balance(KeyedCoProcessFunction):
    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        self._rows = runtime_context.get_state(ValueStateDescriptor("rows", "bigint"))

    def process_element1(self, row: Row, ctx: KeyedContext) -> Iterator[Row]:
        self._rows.update((self._rows.value() or 0) + 1)
        yield {"k": row["k"], "n": self._rows.value()}

    process_element2 = process_element1


class Rules(KeyedBroadcastProcessFunction):
    """Emits, for each broadcast rule, the number of earlier rows of the key."""

    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        self._rows = runtime_context.get_state(ValueStateDescriptor("rows", "bigint"))

    def process_element(self, row: Row, ctx: KeyedReadOnlyContext) -> Iterator[Row]:
        self._rows.update((self._rows.value() or 0) + 1)
        yield {"k": row["k"], "n": self._rows.value()}

    def process_broadcast_element(self, row: Row, ctx: KeyedBroadcastContext) -> None:
        ctx.get_broadcast_state(RULES).put(row["k"], row["v"])


class Numbers(ProcessFunction, CheckpointedFunction):
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self._state = context.get_operator_state_store().get_list_state(ListStateDescriptor("rows", "bigint"))
        self._rows = sum(self._state.get())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._state.update([self._rows])

    def process_element(self, row: Row, ctx: FunctionContext) -> Iterator[Row]:
        self._rows += 1
        yield {"n": self._rows}


class Number(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: list[Row]) -> Iterator[Row]:
        yield {"n": len(elements)}


class NumberOfAll(ProcessAllWindowFunction):
    def process(self, context: Any, elements: list[Row]) -> Iterator[Row]:
        yield {"n": len(elements)}


def sizes(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"n": [len(left)], "m": [len(right)]})


def parts() -> tuple[Column, ...]:
    """Return aggregates that are merged from parts."""
    return F.count("*").alias("n"), F.sum("v").alias("total")


def collected_values() -> Column:
    """Return an aggregate for which the windows store all rows."""
    return F.array_sort(F.collect_list("v")).alias("vs")


def greatest(rows: DataFrame) -> DataFrame:
    return rows.groupBy("window_start").agg(F.max("v").alias("v"))


def greatest_of_keys(rows: DataFrame) -> DataFrame:
    return rows.groupBy("window_start", "k").agg(F.max("v").alias("v"))


def added(one: Row, other: Row) -> Row:
    return {**other, "v": one["v"] + other["v"]}


Define = Callable[[DataStream], DataStream]
VERBS: dict[str, Define] = {
    "windows": lambda rows: rows.key_by("k").window(TUMBLING).aggregate(*parts()),
    "windows of rows": lambda rows: rows.key_by("k").window(TUMBLING).aggregate(collected_values()),
    "windows that overlap": lambda rows: rows.key_by("k").window(SLIDING).aggregate(*parts()),
    "windows that fire again": lambda rows: (
        rows.key_by("k").window(TUMBLING).allowed_lateness("1min").aggregate(*parts())
    ),
    "windows of rows as they come": lambda rows: (
        rows.key_by("k").window(TUMBLING).side_output_late_data(LATE).aggregate(*parts())
    ),
    "a function of windows": lambda rows: rows.key_by("k").window(TUMBLING).apply(greatest_of_keys),
    "windows without keys": lambda rows: rows.window_all(TUMBLING).aggregate(*parts()),
    "windows of rows without keys": lambda rows: rows.window_all(SLIDING).aggregate(collected_values()),
    "windows without keys that fire again": lambda rows: (
        rows.window_all(TUMBLING).allowed_lateness("1min").aggregate(*parts())
    ),
    "a function of windows without keys": lambda rows: rows.window_all(TUMBLING).apply(greatest),
    "sessions": lambda rows: rows.key_by("k").window(SESSIONS).aggregate(*parts()),
    "sessions without keys": lambda rows: rows.window_all(SESSIONS).aggregate(*parts()),
    "process windows": lambda rows: rows.key_by("k").window(SESSIONS).process(Number(), "n bigint"),
    "process windows without keys": lambda rows: rows.window_all(TUMBLING).process(NumberOfAll(), "n bigint"),
    "windows of so many rows": lambda rows: rows.count_window_all(7).process(NumberOfAll(), "n bigint"),
    "running totals": lambda rows: rows.key_by("k").aggregate(*parts()),
    "reduce": lambda rows: rows.key_by("k").reduce(added),
    "the row with the greatest value": lambda rows: rows.key_by("k").max_by("v").select("k", "v"),
    "timers": lambda rows: rows.key_by("k").process(Silence(), "k bigint, n bigint"),
    "operator state": lambda rows: rows.process(Numbers(), "n bigint").set_parallelism(1),
    "duplicates": lambda rows: rows.drop_duplicates("v").select("v"),
    "duplicates for a while": lambda rows: rows.drop_duplicates("v", within="1d").select("v"),
    "two inputs": lambda rows: rows.key_by("k").connect(rows.key_by("k")).process(Balance(), "k bigint, n bigint"),
    "a broadcast input": lambda rows: (
        rows.key_by("k").connect(rows.where("v = 1").broadcast(RULES)).process(Rules(), "k bigint, n bigint")
    ),
    "an interval join": lambda rows: (
        rows.key_by("k")
        .interval_join(rows.key_by("k"))
        .between("0s", "30s")
        .select("left.v", F.col("right.v").alias("w"))
    ),
    "a regular join": lambda rows: (
        rows.key_by("v").regular_join(rows.key_by("v")).select("left.at", F.col("right.at").alias("w"))
    ),
    "a join of windows": lambda rows: (
        rows.join(rows).where("k").equal_to("k").window(TUMBLING).select("left.v", F.col("right.v").alias("w"))
    ),
    "groups of windows": lambda rows: (
        rows.co_group(rows).where("k").equal_to("k").window(SLIDING).apply(sizes, "n bigint, m bigint")
    ),
    "a temporal join": lambda rows: (
        rows.key_by("k")
        .temporal_join(rows.where("v % 2 = 0").key_by("k"))
        .select("left.v", F.col("right.v").alias("w"))
    ),
}
OF_ALL = "row_number() OVER (ORDER BY v DESC, at) AS n"
NUMBERED = "row_number() OVER (PARTITION BY {} ORDER BY v DESC, at) AS n"
QUERIES = {
    "windows in SQL": "SELECT window.end AS e, k, count(*) AS n FROM row GROUP BY window(at, '10 seconds'), k",
    "windows without keys in SQL": "SELECT window.end AS e, count(*) AS n FROM row GROUP BY window(at, '10 seconds')",
    "first rows of windows": """
        SELECT w, n, v FROM (
            SELECT *, row_number() OVER (PARTITION BY w ORDER BY v DESC) AS n
            FROM (SELECT window AS w, v FROM row GROUP BY window(at, '10 seconds'), v)
        ) WHERE n <= 2""",
    "distinct rows": "SELECT DISTINCT v FROM row",
    "distinct values": "SELECT k, count(DISTINCT v) AS n FROM row GROUP BY k",
    "totals of all": "SELECT count(*) AS n, sum(v) AS total FROM row",
    "first rows": f"SELECT k, v, n FROM (SELECT *, {NUMBERED.format('k')} FROM row) WHERE n <= 2",
    "first rows of all": f"SELECT v, n FROM (SELECT *, {OF_ALL} FROM row) WHERE n <= 3",
    "totals of changing rows": "SELECT v % 4 AS c, count(*) AS n, sum(v) AS total FROM newest GROUP BY v % 4",
    "extremes of changing rows": "SELECT v % 4 AS c, max(v) AS most FROM newest GROUP BY v % 4",
    "first of changing rows": f"""
        SELECT c, v, n FROM (SELECT *, {NUMBERED.format("c")} FROM (SELECT *, v % 2 AS c FROM newest)) WHERE n <= 1""",
    "frames of changing rows": """
        SELECT k, c, sum(v) OVER (PARTITION BY c ORDER BY at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS total
        FROM (SELECT *, v % 2 AS c FROM newest)""",
    "a join of changing rows": "SELECT a.k, a.v, b.v AS w FROM newest AS a LEFT JOIN even AS b ON a.k = b.k",
}


def in_order(rows: DataFrame) -> DataFrame:
    """Return the rows of a batch with columns that show the order in which they were emitted."""
    numbered = rows.withColumn("batch__", F.lit(time.time_ns()))
    return numbered.withColumn("place__", F.monotonically_increasing_id())


def define(
    env: StreamExecutionEnvironment, folder: Path, output: Path, names: Collection[str]
) -> dict[str, DataStream]:
    """Return the streams of these operators, each written to a folder of its name."""
    source = FileSource.parquet(str(folder)).files_per_batch(1).monitor_continuously("50ms", until=arrivals.END)
    # Windows fire only at the end, so that all windows are open at every savepoint.
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1h").with_timestamp_column("at")
    # One subtask reads the files in order, because the last upsert of a key is the final one.
    rows = env.from_source(source, watermarks, "rows", uid="rows").set_parallelism(1)
    env.create_temporary_view("row", rows)
    env.create_temporary_view("newest", rows, primary_key="k")
    env.create_temporary_view("even", rows.where("v % 2 = 0"), primary_key="k")
    streams = {name: verb(rows).uid(name) for name, verb in VERBS.items() if name in names}
    for name in QUERIES.keys() & names:
        view = name.replace(" ", "_")
        env.execute_sql(f"CREATE TEMPORARY VIEW {view} AS {QUERIES[name]}")
        streams[name] = env.sql(f"SELECT * FROM {view}")
    for name, stream in streams.items():
        placed = stream.transform(in_order, per_batch=True)
        placed.sink_to(FileSink.parquet(str(output / name))).uid(f"output of {name}")
    return streams


def start_operators(
    env: StreamExecutionEnvironment, folder: Path, output: Path, names: Collection[str], interval: str
) -> tuple[JobClient, dict[str, DataStream]]:
    """Submit a job of some operators over a growing folder, and return the job and the streams by name."""
    env.set_checkpoint_dir(str(output.with_name("checkpoints"))).enable_checkpointing(interval, tolerable_failures=100)
    env.set_default_savepoint_directory(str(output.with_name("savepoints")))
    streams = define(env, folder, output, names)
    return env.execute_async("operators"), streams


def final_rows(stream: DataStream, folder: Path) -> list[str]:
    """Return the final rows: for upserts the newest row of each key, unless it is a deletion."""
    files = sorted(file for file in folder.rglob("*.parquet") if not file.name.startswith((".", "_")))
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    rows.sort(key=lambda row: (row.pop("batch__"), row.pop("place__")))
    log = stream.changelog
    if log.keys is not None:
        rows = list({repr([row[key] for key in log.keys]): row for row in rows}.values())
    return sorted(repr(row) for row in rows if log.row_kind is None or row.pop(log.row_kind) not in ("-D", "-U"))
