"""Tests jobs from Delta table to Delta table: a restart or a killed TaskManager does not change their output."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from flykka import StreamExecutionEnvironment, WatermarkStrategy
from flykka.messages.attempt.commands import CommitCheckpoint
from flykka.messages.control.job import CheckpointCompleted
from flykka.messages.wire.message import Message
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.faults import kill_when
from flykka.spark_bridge.connectors.delta.sink import DeltaSink
from flykka.spark_bridge.connectors.delta.source import DeltaSource
from tests.spark_bridge.connectors.delta.attempts import rows_of_table

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.cluster(task_managers=2, slots_per_task_manager=2),
]

FILES, ROWS_PER_FILE = 12, 50


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A table in which each version adds a file of rows to a partition."""
    path = tmp_path / "orders"
    for number in range(FILES):
        keys = pa.array(range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE), pa.int64())
        rows = pa.table({"id": keys, "day": [f"day {number % 3}"] * ROWS_PER_FILE})
        write_deltalake(str(path), rows, mode="append", partition_by=["day"])
    return path


def expected_rows(*, above: int = -1) -> list[tuple[Any, ...]]:
    rows = ((key, f"day {key // ROWS_PER_FILE % 3}") for key in range(FILES * ROWS_PER_FILE) if key > above)
    return sorted(rows, key=repr)


def test_a_table_is_copied_despite_a_killed_task_manager(
    env: StreamExecutionEnvironment, orders: Path, tmp_path: Path
) -> None:
    recipients: list[str] = []

    def matches(recipient: ActorRef, message: Message) -> bool:
        is_moment = recipient.path.startswith("/user/task-manager-") and isinstance(message, CommitCheckpoint)
        if is_moment:
            recipients.append("/".join(recipient.path.split("/")[:3]))
        return is_moment

    kill = kill_when(env.cluster.system, lambda: env.cluster.system.find(recipients[-1]), matches)
    env.enable_checkpointing("100ms").set_checkpoint_dir(str(tmp_path / "checkpoints"))
    source = DeltaSource.of_path(orders).starting_version(0)
    sink = DeltaSink.append(tmp_path / "copy").partition_by("day")
    large = env.from_source(source, WatermarkStrategy.no_watermarks(), uid="orders").where("id > 99").uid("large")
    large.sink_to(sink).uid("out")

    env.execute("copy")

    assert kill.wait(timeout=1)
    assert rows_of_table(tmp_path / "copy") == expected_rows(above=99)
    assert DeltaTable(str(tmp_path / "copy")).metadata().partition_columns == ["day"]


def test_a_growing_table_is_copied_continuously(env: StreamExecutionEnvironment, orders: Path, tmp_path: Path) -> None:
    copy, arrived, rows = tmp_path / "copy", threading.Event(), FILES * ROWS_PER_FILE
    source = DeltaSource.of_path(orders).monitor_continuously("1s")
    followed = env.from_source(source, WatermarkStrategy.no_watermarks(), uid="orders")
    followed.sink_to(DeltaSink.upsert(copy, keys=["id"]).partition_by("day")).uid("out")
    env.enable_checkpointing("200ms").set_checkpoint_dir(str(tmp_path / "checkpoints"))
    expected = [rows]

    def look(message: Message) -> None:
        if isinstance(message, CheckpointCompleted) and len(rows_of_table(copy)) >= expected[0]:
            arrived.set()

    client = env.execute_async("follow")
    client.add_listener(look)
    assert arrived.wait(60)
    arrived.clear()
    expected[0] = rows + 1
    more = pa.table({"id": pa.array([0, rows], pa.int64()), "day": ["day 0", "day 0"]})
    write_deltalake(str(orders), more, mode="append")
    assert arrived.wait(60)
    client.cancel()

    assert rows_of_table(copy) == sorted([*expected_rows(), (rows, "day 0")], key=repr)
