"""Orders by user: running totals, recent totals, and a row for each user without an order for 5 minutes.

The program has two versions: the second version stores partly different state, and some values in wider types.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet as pq
from pyspark.sql import functions as F

from flykka import (
    FileSink,
    FileSource,
    JobClient,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from flykka.spark_bridge.functions.contexts import KeyedContext, TimerContext
from flykka.spark_bridge.functions.process_function import KeyedProcessFunction, Row
from flykka.spark_bridge.functions.runtime_context import FunctionRuntimeContext
from flykka.spark_bridge.functions.state_descriptors import ListStateDescriptor, ValueStateDescriptor
from tests.integration.arrivals import END

SILENCE_MS = 5 * 60_000
EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
Order = tuple[str, int, int]
"""User, amount, seconds."""

FIRST: list[Order] = [("a", 1, 0), ("b", 2, 30), ("a", 3, 70)]
THEN: list[Order] = [("a", 10, 130), ("c", 20, 150)]
SCHEMA = pa.schema([("user", pa.string()), ("amount", pa.int32()), ("at", pa.timestamp("us", tz="UTC"))])


def order_time(seconds: int) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def write_orders(folder: Path, name: str, orders: Sequence[Order]) -> None:
    folder.mkdir(exist_ok=True)
    columns = [
        [order[0] for order in orders],
        [order[1] for order in orders],
        [order_time(order[2]) for order in orders],
    ]
    pq.write_table(pa.table(columns, schema=SCHEMA), folder / f"{name}.parquet")


class Silence(KeyedProcessFunction):
    """Counts orders and stores their amounts; emits a row when a user has sent no order for a while."""

    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        self.orders = runtime_context.get_state(ValueStateDescriptor("orders", "int"))
        self.amounts = runtime_context.get_list_state(ListStateDescriptor("amounts", "int"))

    def process_element(self, row: Row, ctx: KeyedContext) -> None:
        self.orders.update((self.orders.value() or 0) + 1)
        self.amounts.add(row["amount"])
        watch(ctx)

    def on_timer(self, timestamp: int, ctx: TimerContext) -> Iterator[Row]:
        yield {"user": ctx.get_current_key(), "orders": self.orders.value(), "most": None}


class LaterSilence(KeyedProcessFunction):
    """Counts orders in a wider type, and stores only the greatest amount."""

    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        self.orders = runtime_context.get_state(ValueStateDescriptor("orders", "bigint"))
        self.most = runtime_context.get_state(ValueStateDescriptor("most", "double", default=-1.0))

    def process_element(self, row: Row, ctx: KeyedContext) -> None:
        self.orders.update((self.orders.value() or 0) + 1)
        most = self.most.value()
        assert most is not None
        self.most.update(max(most, float(row["amount"])))
        watch(ctx)

    def on_timer(self, timestamp: int, ctx: TimerContext) -> Iterator[Row]:
        yield {"user": ctx.get_current_key(), "orders": self.orders.value(), "most": self.most.value()}


def watch(ctx: KeyedContext) -> None:
    """Set a timer after a user's last order; the timers of earlier orders remain and fire as well."""
    timestamp = ctx.timestamp()
    assert timestamp is not None
    ctx.timer_service().register_event_time_timer(timestamp + SILENCE_MS)


def define(env: StreamExecutionEnvironment, folder: Path, version: int = 1) -> None:
    """Define the program; outputs go to a folder of the version."""
    output = folder / f"output-{version}"
    source = FileSource.parquet(str(folder / "orders")).files_per_batch(1).monitor_continuously("50ms", until=END)
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness("0s").with_timestamp_column("at")
    orders = env.from_source(source, watermarks, "orders", uid="orders").set_parallelism(1)
    if version == 2:
        orders = orders.select("user", F.col("amount").cast("bigint").alias("amount"), "at").uid("wider")
    users = orders.key_by("user")
    most, total, n = F.max("amount").alias("most"), F.sum("amount").alias("total"), F.count("*").alias("n")
    columns = (n, total, most) if version == 1 else (F.min("amount").alias("least"), most, n)
    users.aggregate(*columns).uid("totals").sink_to(FileSink.parquet(str(output / "totals"))).uid("totals output")
    recent = users.window(SlidingEventTimeWindows.of("2min", "1min"))
    windowed = (total,) if version == 1 else (F.count("amount").alias("counted"), total)
    recent.aggregate(*windowed).uid("recent").sink_to(FileSink.parquet(str(output / "recent"))).uid("recent output")
    silent = users.process(Silence() if version == 1 else LaterSilence(), "user string, orders bigint, most double")
    silent.uid("silence").sink_to(FileSink.parquet(str(output / "silence"))).uid("silence output")


def written_down(
    env: StreamExecutionEnvironment, folder: Path, version: int = 1, parallelism: int = 2
) -> StreamExecutionEnvironment:
    """Return the environment with the program, and a checkpoint every second."""
    env.enable_checkpointing("1s", tolerable_failures=100).set_checkpoint_dir(str(folder / "checkpoints"))
    env.set_default_savepoint_directory(str(folder / "savepoints")).set_parallelism(parallelism)
    define(env, folder, version)
    return env


def start_orders(env: StreamExecutionEnvironment, folder: Path, version: int = 1, parallelism: int = 2) -> JobClient:
    return written_down(env, folder, version, parallelism).execute_async("orders")


def sorted_rows(rows: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows.collect()), key=repr)
