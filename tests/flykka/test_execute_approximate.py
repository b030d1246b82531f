"""A job with approximate local recovery on Spark: a sink fails, the source continues, and some rows are lost."""

from __future__ import annotations

import logging
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession

from flykka import (
    FileSink,
    FileSource,
    RestartStrategies,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from flykka.errors import ProgramError
from flykka.messages.control.job import ExecutionStateChanged
from flykka.messages.tasks.task import ExecutionState
from flykka.messages.wire.message import Message
from tests.flykka.fails_once import FailsOnce
from tests.flykka.test_execute_operators import write_bids
from tests.integration.test_continuing import wait_checkpoint

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.cluster(task_managers=2, slots_per_task_manager=2),
    pytest.mark.checkpoints,
]


BIDS = "auction long, price long, at timestamp"


def pipeline(env: StreamExecutionEnvironment, folder: Path) -> None:
    """Build two tasks: a source, and a function that fails once with a sink."""
    env.disable_batch_coalescing().enable_approximate_local_recovery()
    source = FileSource.parquet(str(folder / "in"), schema=BIDS).files_per_batch(1).monitor_continuously("50ms")
    read = env.from_source(source, WatermarkStrategy.no_watermarks(), "bids").rebalance().transform(FailsOnce())
    read.sink_to(FileSink.parquet(str(folder / "out")))


def deliver_bids(folder: Path, first: int, files: int) -> None:
    write_bids(folder / f"from {first}", first=first, files=files)
    (folder / "in").mkdir(exist_ok=True)
    for file in sorted((folder / f"from {first}").glob("*.parquet")):
        file.rename(folder / "in" / f"{first}-{file.name}")


def test_a_source_continues_while_its_reader_restarts_and_rows_are_lost(
    spark: SparkSession, env: StreamExecutionEnvironment, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deliver_bids(tmp_path, first=0, files=4)
    pipeline(env, tmp_path)
    env.enable_checkpointing("100ms").set_checkpoint_dir(tmp_path / "checkpoints")
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(attempts=1, delay="10ms"))
    heard: list[Message] = []
    runs_again = Event()

    def listen(said: Message) -> None:
        heard.append(said)
        match said:
            case ExecutionStateChanged(attempt=attempt, state=ExecutionState.RUNNING) if attempt.endswith("_1"):
                runs_again.set()

    with caplog.at_level(logging.WARNING):
        client = env.execute_async("approximate")
        client.add_listener(listen)
        assert runs_again.wait(timeout=60)
        wait_checkpoint(client)
        deliver_bids(tmp_path, first=50_000, files=2)
        (tmp_path / "in" / "_SUCCESS").touch()
        client.wait(timeout=120)

    again = {
        each.task_name for each in heard if isinstance(each, ExecutionStateChanged) and each.attempt.endswith("_1")
    }
    read, written = spark.read.parquet(str(tmp_path / "in")), spark.read.parquet(str(tmp_path / "out"))
    late = spark.read.parquet(str(tmp_path / "in" / "50000-*"))
    assert len(again) == 1
    assert not any("Source" in name for name in again)
    assert written.count() < read.count()
    assert written.exceptAll(read).count() == 0
    assert late.exceptAll(written).count() == 0
    assert "each failure loses rows permanently" in caplog.text
    assert "LOSES ROWS (approximate local recovery): rows in flight to" in caplog.text


def test_the_plan_marks_an_edge_with_approximate_recovery(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    deliver_bids(tmp_path, first=0, files=1)
    pipeline(env, tmp_path)

    (edge,) = [edge for vertex in env.get_job_graph().vertices for edge in vertex.inputs]

    assert edge.result_partition_type == "PIPELINED_APPROXIMATE"


def test_unaligned_checkpoints_and_full_failover_exclude_approximate_recovery(
    env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    deliver_bids(tmp_path, first=0, files=1)
    env.enable_checkpointing("1s").enable_unaligned_checkpoints()
    pipeline(env, tmp_path)

    with pytest.raises(ProgramError, match="cannot have approximate local recovery: its checkpoints are unaligned"):
        env.get_job_graph()
    env.enable_unaligned_checkpoints(False).set_failover_strategy("full")
    with pytest.raises(ProgramError, match="its failover strategy is full, which restarts all tasks"):
        env.get_job_graph()
