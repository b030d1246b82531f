"""Tests that either both sinks of one job publish a checkpoint or neither does, whichever is killed between commits."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from threading import Event, Lock

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from flykka import (
    FileSink,
    FileSource,
    ForeachBatchSink,
    JobClient,
    RestartStrategies,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flykka.errors import JobExecutionError
from flykka.messages.attempt.answers import ChainOpened, CheckpointCommitted, SnapshotWritten, StageResult
from flykka.messages.attempt.commands import CommitCheckpoint
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.faults import kill_when
from flykka.spark_bridge.program.sink import Sink
from tests.integration import sales

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

AT_ONCE = RestartStrategies.fixed_delay_restart(delay=0)
PATIENCE_SECONDS = 120
PUBLISHED = re.compile(r"part-.+-\d+-(?P<checkpoint>\d+)-\d+-[0-9a-f]{8}-[0-9a-f-]{27}\.")


def start_two_sinks(
    env: StreamExecutionEnvironment, files: Path, hourly: Sink, dear: Sink, checkpoints: Path
) -> JobClient:
    """Write sales per shop and hour to one sink, after an exchange, and expensive sales to another sink, chained to the
    source.
    """
    env.enable_checkpointing("100ms", tolerable_failures=100).set_checkpoint_dir(str(checkpoints))
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1h").with_timestamp_column("at")
    stream = env.from_source(FileSource.parquet(str(files)).files_per_batch(1), watermarks, "sales", uid="sales")
    (
        stream.key_by("shop")
        .window(TumblingEventTimeWindows.of("1h"))
        .aggregate(*sales.aggregates())
        .name("hourly")
        .sink_to(hourly)
        .uid("hourly output")
    )
    stream.where("amount > 900").sink_to(dear).uid("dear output")
    return env.execute_async("two sinks")


def assert_exactly_once(spark: SparkSession, files: Path, hourly: DataFrame, dear: DataFrame) -> None:
    assertDataFrameEqual(hourly, sales.hourly_batch(spark, files))
    assertDataFrameEqual(dear, spark.read.parquet(str(files)).where("amount > 900"))


def runs(recipient: ActorRef, operator: str) -> bool:
    """Return whether an actor works for the task that begins with this operator."""
    task = recipient.path.split("/")[3:4]
    return bool(task) and task[0].startswith(operator)


def visible(folder: Path) -> set[int]:
    """Return the checkpoints whose files a reader of the folder sees."""
    matches = (PUBLISHED.match(path.name) for path in folder.glob("[!._]*/*" if folder.name == "dear" else "*"))
    return {int(name["checkpoint"]) for name in matches if name is not None}


class KillBetweenCommits:
    """Kills the TaskManager of one sink when the other sink has published a checkpoint and this sink is about to.

    `first` and `second` are the first operators of the sinks' tasks, with the sinks' folders. The second sink's bridge
    is held until the first sink has published. In the meantime the class checks that no reader sees an incomplete
    checkpoint.
    """

    def __init__(
        self, env: StreamExecutionEnvironment, first: tuple[str, Path], second: tuple[str, Path], checkpoints: Path
    ) -> None:
        self.killed_at: int | None = None
        self.seen_too_early: list[tuple[str, int]] = []
        self.seen_when_killed: tuple[set[int], set[int]] = (set(), set())
        self._system = env.cluster.system
        self._first, self._second = first, second
        self._checkpoints = checkpoints
        self._committed: defaultdict[int, Event] = defaultdict(Event)
        self._completed = 0
        self._lock = Lock()
        self._system.add_delivery_hook(self._on_delivery)

    def _on_delivery(self, recipient: ActorRef, message: Message, _sender: Ref | None) -> None:
        match message:
            case CheckpointCommitted(checkpoint_id=number) if runs(recipient, self._first[0]):
                self._committed[number].set()
            case CommitCheckpoint(checkpoint_id=number) if runs(recipient, self._second[0]) and not self.killed_at:
                self._kill_between(recipient, number)
        if isinstance(message, ChainOpened | StageResult | SnapshotWritten | CheckpointCommitted):
            self._look()

    def _kill_between(self, recipient: ActorRef, number: int) -> None:
        staged = list((self._second[1] / ".flykka-staging").rglob("part-*"))
        if not staged or not self._committed[number].wait(PATIENCE_SECONDS) or number not in visible(self._first[1]):
            # The sinks would not differ visibly, so wait for the next checkpoint.
            return
        self.killed_at = number
        self.seen_when_killed = (visible(self._first[1]), visible(self._second[1]))
        victim = self._system.find("/".join(recipient.path.split("/")[:3]))
        assert victim is not None
        self._system.kill(victim)

    def _look(self) -> None:
        with self._lock:
            seen = [(name, number) for name, folder in (self._first, self._second) for number in visible(folder)]
            written = [int(path.parent.name[4:]) for path in self._checkpoints.glob("*/chk-*/_metadata")]
            self._completed = max([self._completed, *written])
            self.seen_too_early += [(name, number) for name, number in seen if number > self._completed]


# The other kill test covers the moment before the hourly sales are published.
@pytest.mark.parametrize("first_to_publish", ["hourly", pytest.param("dear", marks=pytest.mark.long)])
def test_a_kill_between_two_commits_lets_both_sinks_publish(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    sales_files: Path,
    tmp_path: Path,
    first_to_publish: str,
) -> None:
    env = environment().set_restart_strategy(AT_ONCE)
    hourly, dear, checkpoints = tmp_path / "hourly", tmp_path / "dear", tmp_path / "checkpoints"
    first, second = ("hourly", hourly), ("source-sales", dear)
    if first_to_publish == "dear":
        first, second = second, first
    kill = KillBetweenCommits(env, first, second, checkpoints)

    sinks = FileSink.parquet(hourly), FileSink.json(dear).partition_by("shop")
    start_two_sinks(env, sales_files, *sinks, checkpoints).wait(timeout=PATIENCE_SECONDS)

    assert kill.killed_at is not None
    assert kill.killed_at in kill.seen_when_killed[0] - kill.seen_when_killed[1]
    assert kill.killed_at in visible(second[1])
    assert kill.seen_too_early == []
    schema = spark.read.parquet(str(sales_files)).schema
    read = spark.read.schema(schema).json(str(dear)).select(*schema.names)
    assert_exactly_once(spark, sales_files, spark.read.parquet(str(hourly)), read)


# The connectors' tests show which rows functions receive, and when.
@pytest.mark.long
def test_a_kill_before_a_function_call_does_not_change_its_output(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    sales_files: Path,
    tmp_path: Path,
) -> None:
    env = environment().set_restart_strategy(AT_ONCE)
    table, dear, checkpoints = tmp_path / "table", tmp_path / "dear", tmp_path / "checkpoints"
    received: list[int] = []

    def replace(rows: DataFrame, checkpoint_id: int) -> None:
        received.append(checkpoint_id)
        rows.coalesce(1).write.mode("overwrite").parquet(f"{table}/checkpoint={checkpoint_id}")

    victims: list[str] = []

    def matches(recipient: ActorRef, message: Message) -> bool:
        is_moment = isinstance(message, CommitCheckpoint) and runs(recipient, "hourly") and bool(received)
        if is_moment:
            victims.append("/".join(recipient.path.split("/")[:3]))
        return is_moment

    kill = kill_when(env.cluster.system, lambda: env.cluster.system.find(victims[0]), matches)
    client = start_two_sinks(env, sales_files, ForeachBatchSink(replace), FileSink.parquet(dear), checkpoints)
    client.wait(timeout=PATIENCE_SECONDS)

    assert kill.done
    assert received == sorted(received)
    hourly = spark.read.parquet(str(table)).drop("checkpoint")
    assert_exactly_once(spark, sales_files, hourly, spark.read.parquet(str(dear)))
    assert not list(tmp_path.glob("checkpoints/*/staged/*"))


@pytest.mark.long
def test_a_successor_of_a_failed_job_publishes_pending_rows_and_cleans_staging(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    sales_files: Path,
    tmp_path: Path,
) -> None:
    table, dear, checkpoints = tmp_path / "table", tmp_path / "dear", tmp_path / "checkpoints"
    refuses = Event()
    refused: list[tuple[int, int]] = []
    received: list[tuple[int, int]] = []

    def replace(rows: DataFrame, checkpoint_id: int) -> None:
        if refuses.is_set():
            refused.append((checkpoint_id, rows.count()))
            raise ConnectionError("the table is locked")
        received.append((checkpoint_id, rows.count()))
        rows.coalesce(1).write.mode("overwrite").parquet(f"{table}/checkpoint={checkpoint_id}")

    refuses.set()
    failing = environment().set_restart_strategy(RestartStrategies.no_restart())
    with pytest.raises(JobExecutionError, match=r"'hourly output'.*the table is locked"):
        start_two_sinks(failing, sales_files, ForeachBatchSink(replace), FileSink.parquet(dear), checkpoints).wait(
            timeout=PATIENCE_SECONDS
        )
    kept = list((dear / ".flykka-staging").iterdir())
    refuses.clear()
    again = environment().from_checkpoint("latest")
    start_two_sinks(again, sales_files, ForeachBatchSink(replace), FileSink.parquet(dear), checkpoints).wait(
        timeout=PATIENCE_SECONDS
    )

    assert len(kept) == 1
    assert refused == received[:1]
    hourly = spark.read.parquet(str(table)).drop("checkpoint")
    assert_exactly_once(spark, sales_files, hourly, spark.read.parquet(str(dear)))
    assert not (dear / ".flykka-staging").exists()
    assert not list(checkpoints.glob("*/staged"))
