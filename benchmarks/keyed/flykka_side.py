"""The benchmark's workloads, as a user of flykka would write them, with exactly-once checkpoints every second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from benchmarks.keyed.works import ALARM, ALARM_AFTER_MS, GAP_SECONDS, ROW, WorkName
from flykka import (
    DataStream,
    EventTimeSessionWindows,
    FileSink,
    FileSource,
    FunctionRuntimeContext,
    KeyedContext,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
    TimerContext,
    ValueStateDescriptor,
    WatermarkStrategy,
)

OUTPUT = "k long, n long, what string"


class CountsAndAlarm(KeyedProcessFunction):
    """Counts the rows of each key, and raises an alarm a minute after the key's first row."""

    def open(self, runtime_context: FunctionRuntimeContext) -> None:
        self._n = runtime_context.get_state(ValueStateDescriptor("n", "bigint"))

    def process_element(self, row: dict[str, Any], ctx: KeyedContext) -> Iterator[dict[str, Any]]:
        n = self._n.value()
        if n is None:
            n = 0
            at_ms = ctx.timestamp()
            assert at_ms is not None
            ctx.timer_service().register_event_time_timer(at_ms + ALARM_AFTER_MS)
        self._n.update(n + 1)
        yield {"k": row["k"], "n": n + 1, "what": ROW}

    def on_timer(self, timestamp: int, ctx: TimerContext) -> Iterator[dict[str, Any]]:
        yield {"k": ctx.get_current_key(), "n": 0, "what": ALARM}


def count_rows(rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Do the work of `CountsAndAlarm` for a complete batch, in which rows of a key are adjacent."""
    k = rows["k"].to_numpy()
    starts = np.flatnonzero(np.append(True, k[1:] != k[:-1]))
    counts = np.diff(np.append(starts, len(k)))
    before = pc.fill_null(state["n"], 0).to_numpy()
    n = np.repeat(before - starts, counts) + np.arange(1, len(k) + 1)
    output = pa.table({"k": k, "n": n, "what": pa.repeat(ROW, len(k))})
    first = rows["at"].take(starts).cast(pa.int64())
    due = pc.if_else(pc.is_null(state["n"]), pc.add(first, 1000 * ALARM_AFTER_MS), state["due"].cast(pa.int64()))
    due = due.cast(pa.timestamp("us", "UTC"))
    return output, pa.table({"k": state["k"], "n": pa.array(before + counts), "due": due})


def raise_alarms(state: pa.Table) -> tuple[pa.Table, None]:
    rows = state.num_rows
    return pa.table({"k": state["k"], "n": np.zeros(rows, dtype=np.int64), "what": pa.repeat(ALARM, rows)}), None


def _aggregated(rows: DataStream) -> DataStream:
    return rows.key_by("k").aggregate(F.count("*").alias("n"), F.max("v").alias("m"))


def _by_table(rows: DataStream) -> DataStream:
    state = "n long, due timestamp"
    return rows.key_by("k").process_table(count_rows, state=state, output=OUTPUT, timer="due", on_timer=raise_alarms)


def _sessions(rows: DataStream) -> DataStream:
    sessions = rows.key_by("k").window(EventTimeSessionWindows.with_gap(f"{GAP_SECONDS}s"))
    return sessions.aggregate(F.count("*").alias("n")).select("k", "n", F.col("window_end").alias("ended"))


_DEFINED: dict[WorkName, tuple[str, Callable[[DataStream], DataStream]]] = {
    WorkName.RUNNING: ("k long, v long", _aggregated),
    WorkName.LARGE_STATE: ("k long, v long", _aggregated),
    WorkName.PROCESS_FUNCTION: (
        "k long, at timestamp",
        lambda rows: rows.key_by("k").process(CountsAndAlarm(), OUTPUT),
    ),
    WorkName.PROCESS_TABLE: ("k long, at timestamp", _by_table),
    WorkName.SESSIONS: ("k long, at timestamp", _sessions),
    WorkName.DEDUPLICATE: ("k long, at timestamp", lambda rows: rows.drop_duplicates(["k"], within="1h")),
}


class FlykkaSide:
    def __init__(self, parallelism: int) -> None:
        self._env = StreamExecutionEnvironment.get_execution_environment("local[*]")
        self._env.set_parallelism(parallelism).enable_checkpointing("1s", max_concurrent=2)

    def run(self, work: WorkName, source: Path, place: Path) -> None:
        schema, define = _DEFINED[work]
        self._env.set_checkpoint_dir(str(place / "checkpoints"))
        files = FileSource.parquet(str(source), schema=schema).files_per_batch(1)
        if "at timestamp" in schema:
            watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1s").with_timestamp_column("at")
            rows = self._env.from_source(files, watermarks, "rows")
        else:
            rows = self._env.from_source(files, name="rows")
        define(rows.set_parallelism(1)).sink_to(FileSink.parquet(str(place / "output")))
        self._env.execute(str(work))

    def close(self) -> None:
        self._env.close()
