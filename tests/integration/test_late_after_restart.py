"""Tests that a late row is still late after a restart, in every type of operator."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from flykka import (
    EventTimeSessionWindows,
    FileSink,
    FileSource,
    JobClient,
    KeyedContext,
    KeyedProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flykka.messages.control.job import CheckpointCompleted
from flykka.messages.wire.message import Message

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

END = "_SUCCESS"


class JudgeRows(KeyedProcessFunction):
    def process_element(self, row: dict[str, Any], ctx: KeyedContext) -> Iterator[dict[str, Any]]:
        timestamp_ms = ctx.timestamp()
        assert timestamp_ms is not None
        yield {"at": row["at"], "is_late": timestamp_ms <= ctx.current_watermark()}


class Elements(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Iterator[dict[str, Any]]:
        for row in elements:
            yield {"at": row["at"]}


def start_late_rows(env: StreamExecutionEnvironment, folder: Path, *, every_operator: bool) -> JobClient:
    """Start the operators; sessions, `first` and `judged` keep their state in different ways."""
    env.enable_checkpointing("1s", tolerable_failures=100).set_checkpoint_dir(str(folder / "checkpoints"))
    source = FileSource.json(str(folder / "arrivals"), schema="k string, at timestamp").monitor_continuously(
        "50ms", until=END
    )
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1min").with_timestamp_column("at")
    rows = env.from_source(source, watermarks, "rows", uid="rows")
    sessions = rows.key_by("k").window(EventTimeSessionWindows.with_gap("5min")).aggregate(F.min("at").alias("at"))
    sessions.uid("sessions").sink_to(FileSink.json(str(folder / "sessions"))).uid("sink-sessions")
    first = rows.drop_duplicates(["k", "at"], within="10min").uid("first")
    first.sink_to(FileSink.json(str(folder / "first"))).uid("sink-first")
    judged = rows.key_by("k").process(JudgeRows(), "at timestamp, is_late boolean").uid("judged")
    judged.sink_to(FileSink.json(str(folder / "judged"))).uid("sink-judged")
    if not every_operator:
        return env.execute_async("late rows")
    windows = rows.key_by("k").window(TumblingEventTimeWindows.of("5min"))
    counted = windows.aggregate(F.min("at").alias("at")).uid("windows")
    counted.sink_to(FileSink.json(str(folder / "windows"))).uid("sink-windows")
    listed = windows.process(Elements(), "at timestamp").uid("listed")
    listed.sink_to(FileSink.json(str(folder / "listed"))).uid("sink-listed")
    pairs = rows.key_by("k").interval_join(rows.key_by("k")).between("0s", "1s").select("left.at").uid("pairs")
    pairs.sink_to(FileSink.json(str(folder / "pairs"))).uid("sink-pairs")
    return env.execute_async("late rows")


def deliver_rows(folder: Path, name: str, *rows: tuple[str, str]) -> None:
    text = "".join(json.dumps({"k": key, "at": f"2026-01-01T{at}:00Z"}) + "\n" for key, at in rows)
    hidden = folder / "arrivals" / f".{name}"
    hidden.write_text(text)
    hidden.rename(folder / "arrivals" / f"{name}.json")


def times(folder: Path) -> list[str]:
    """Return the hours and minutes of the published rows, and whether the operator considered the rows late."""
    rows = [json.loads(line) for file in folder.glob("*.json") for line in file.read_text().splitlines()]
    return sorted(f"{row['at'][11:16]}{' late' if row.get('is_late') else ''}" for row in rows)


@pytest.mark.parametrize(
    ("restarts", "every_operator"),
    [
        (True, False),
        pytest.param(True, True, marks=pytest.mark.long),
        pytest.param(False, True, marks=pytest.mark.long),
    ],
)
def test_a_late_row_is_late_with_and_without_a_restart(
    environment: Callable[..., StreamExecutionEnvironment], tmp_path: Path, restarts: bool, every_operator: bool
) -> None:
    (tmp_path / "arrivals").mkdir()
    fired = threading.Event()

    def listen(said: Message) -> None:
        if isinstance(said, CheckpointCompleted) and len(times(tmp_path / "sessions")) == 2:
            fired.set()

    client = start_late_rows(environment(), tmp_path, every_operator=every_operator)
    client.add_listener(listen)
    deliver_rows(tmp_path, "1", ("a", "10:00"), ("a", "10:10"))
    deliver_rows(tmp_path, "2", ("b", "12:30"))
    assert fired.wait(timeout=120)
    if restarts:
        client.stop()
        client = start_late_rows(environment(), tmp_path, every_operator=every_operator)
    deliver_rows(tmp_path, "3", ("a", "10:20"))
    (tmp_path / "arrivals" / END).touch()
    client.wait(timeout=120)

    for operator in ("sessions", "first", *(("windows", "listed", "pairs") if every_operator else ())):
        assert times(tmp_path / operator) == ["10:00", "10:10", "12:30"], operator
    assert times(tmp_path / "judged") == ["10:00", "10:10", "10:20 late", "12:30"]
