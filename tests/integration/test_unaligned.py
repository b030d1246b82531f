"""Tests unaligned checkpoints of a job with a slow operator: in-flight rows count once after a kill."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from flykka import (
    FileSink,
    FileSource,
    JobClient,
    RestartStrategies,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flykka.messages.attempt.answers import ChainOpened, ChannelStateWritten
from flykka.messages.attempt.commands import CommitCheckpoint
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.faults import kill_when
from tests.integration import sales

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]


def slowly(rows: DataFrame) -> DataFrame:
    """Delay each batch, so that the following batches queue."""
    time.sleep(0.4)
    return rows


def start_slow_sales(env: StreamExecutionEnvironment, files: Path, output: Path, parallelism: int) -> JobClient:
    """Start the program of the kill tests, with the slow function before its windows."""
    env.set_parallelism(parallelism).enable_unaligned_checkpoints()
    env.enable_checkpointing("100ms", tolerable_failures=100).set_checkpoint_dir(str(output.with_name("checkpoints")))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(attempts=3, delay=0))
    source = FileSource.parquet(str(files)).files_per_batch(1)
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1h").with_timestamp_column("at")
    rows = env.from_source(source, watermarks, "sales", uid="sales").rebalance().transform(slowly).uid("slow")
    hourly = rows.key_by("shop").window(TumblingEventTimeWindows.of("1h")).aggregate(*sales.aggregates()).uid("hourly")
    hourly.sink_to(FileSink.parquet(str(output))).uid("output")
    return env.execute_async("slow sales")


@dataclass
class Watched:
    """Records checkpoints with in-flight batches, the first task that commits such a checkpoint, and restored in-flight
    batches.
    """

    holding: set[int] = field(default_factory=set)
    recipients: list[str] = field(default_factory=list)
    recovered_rows: int = 0

    def hear(self, _recipient: ActorRef, message: Message, _sender: Ref | None) -> None:
        match message:
            case ChannelStateWritten(checkpoint_id=checkpoint_id, folders=folders) if folders:
                self.holding.add(checkpoint_id)
            case ChainOpened(recovered=recovered):
                self.recovered_rows += sum(batch.rows for batch in recovered if batch is not None)

    def is_commit(self, recipient: ActorRef, message: Message) -> bool:
        """Return whether an actor is about to commit a checkpoint with in-flight batches."""
        if isinstance(message, CommitCheckpoint) and message.checkpoint_id in self.holding:
            self.recipients.append("/".join(recipient.path.split("/")[:3]))
            return True
        return False


@pytest.mark.parametrize("parallelism", [2, pytest.param(4, marks=pytest.mark.long)])
def test_in_flight_rows_count_once_when_a_task_manager_is_killed(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    sales_files: Path,
    tmp_path: Path,
    parallelism: int,
) -> None:
    env = environment()
    watched, system = Watched(), env.cluster.system
    system.add_delivery_hook(watched.hear)
    kill = kill_when(system, lambda: system.find(watched.recipients[-1]), watched.is_commit)

    start_slow_sales(env, sales_files, tmp_path / "output", parallelism).wait(timeout=120)

    assert kill.done
    assert watched.recovered_rows > 0
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "output")), sales.hourly_batch(spark, sales_files))
    assert list((tmp_path / "checkpoints").glob("*/in-flight/*")) == []
