"""Tests interval joins of two streams: whatever faults occur, the rows equal those of a plain batch."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from flykka import (
    DataStream,
    FileSink,
    FileSource,
    JobClient,
    RestartStrategies,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from flykka.messages.attempt.answers import SnapshotWritten
from flykka.messages.attempt.commands import CommitCheckpoint
from flykka.messages.control.job import MetricsReported
from flykka.messages.wire.message import Message
from tests.integration import arrivals, test_unaligned
from tests.integration.test_continuing import wait_checkpoint
from tests.integration.test_kill import Moment, kill_at

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

FILES, ROWS, STEP_MS, DISORDER_MS = 3, 100, 400, 20_000
BEGIN_MS = 1_704_067_200_000
TIME = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A join: its bounds in seconds, and its join type."""

    lower: int
    upper: int
    kind: str = "inner"
    lower_inclusive: bool = True
    upper_inclusive: bool = True

    def __str__(self) -> str:
        left, right = "[" if self.lower_inclusive else "(", "]" if self.upper_inclusive else ")"
        return f"{self.kind} {left}{self.lower}, {self.upper}{right}"

    def of(self, left: DataStream, right: DataStream) -> DataStream:
        join = left.key_by("user").interval_join(right.key_by("user")).between(f"{self.lower}s", f"{self.upper}s")
        join = join if self.lower_inclusive else join.lower_bound_exclusive()
        join = join if self.upper_inclusive else join.upper_bound_exclusive()
        if self.kind != "inner":
            join = getattr(join, f"{self.kind}_outer")()
        return join.select("left.user", F.col("left.id").alias("one"), F.col("right.id").alias("other"))

    def batch(self, left: DataFrame, right: DataFrame) -> DataFrame:
        after = f"r.at {'>=' if self.lower_inclusive else '>'} l.at + INTERVAL {self.lower} SECONDS"
        before = f"r.at {'<=' if self.upper_inclusive else '<'} l.at + INTERVAL {self.upper} SECONDS"
        met = left.alias("l").join(right.alias("r"), F.expr(f"l.user = r.user AND {after} AND {before}"), self.kind)
        return met.selectExpr("l.user", "l.id AS one", "r.id AS other")


FULL = Join(lower=-20, upper=10, kind="full")


@pytest.fixture(scope="module")
def side_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seeded rows of both sides in whole seconds. Some are exactly as far apart as the bounds, and some have no key."""
    folder = tmp_path_factory.mktemp("sides")
    chance = np.random.default_rng(5)
    for side, users in (("left", (0, 30)), ("right", (15, 45))):
        (folder / side).mkdir()
        for number in range(FILES):
            places = np.arange(number * ROWS, (number + 1) * ROWS)
            times = (places * STEP_MS + chance.integers(0, DISORDER_MS, ROWS)) // 1000 * 1000
            user = chance.integers(*users, ROWS)
            rows = {
                "id": places,
                "user": pa.array(user, mask=user == users[0] + 15),
                "at": pa.array((BEGIN_MS + times) * 1000).cast(TIME),
            }
            pq.write_table(pa.table(rows), folder / side / f"{number}.parquet")
    return folder


def start_interval_join(
    env: StreamExecutionEnvironment,
    folder: Path,
    output: Path,
    join: Join,
    prepared: Callable[[DataStream], DataStream] = lambda rows: rows,
    *,
    monitor: bool = False,
) -> JobClient:
    """Submit the join of two folders: one file per batch, a checkpoint every 500 ms, immediate restarts."""
    env.enable_checkpointing("500ms", tolerable_failures=100).set_checkpoint_dir(str(output.with_name("checkpoints")))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(delay=0))
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness("30s").with_timestamp_column("at")
    sides = []
    for side in ("left", "right"):
        source = FileSource.parquet(str(folder / side)).files_per_batch(1)
        source = source.monitor_continuously("50ms", until=arrivals.END) if monitor else source
        sides.append(prepared(env.from_source(source, watermarks, side, uid=side)))
    join.of(*sides).uid("join").sink_to(FileSink.parquet(str(output))).uid("output")
    return env.execute_async("join")


def assert_true(spark: SparkSession, files: Path, output: Path, join: Join) -> None:
    left, right = (spark.read.parquet(str(files / side)) for side in ("left", "right"))
    assertDataFrameEqual(spark.read.parquet(str(output)), join.batch(left, right))


@pytest.mark.parametrize(
    ("parallelism", "join"),
    [
        (1, replace(FULL, lower_inclusive=False)),
        pytest.param(1, replace(FULL, kind="left", lower_inclusive=False), marks=pytest.mark.long),
        pytest.param(1, replace(FULL, kind="inner", upper_inclusive=False), marks=pytest.mark.long),
        pytest.param(1, Join(lower=5, upper=15, kind="full"), marks=pytest.mark.long),
        pytest.param(2, Join(lower=-15, upper=-5, kind="right"), marks=pytest.mark.long),
        pytest.param(2, Join(lower=0, upper=0, kind="full"), marks=pytest.mark.long),
        pytest.param(2, FULL, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_interval_join_rows_equal_those_of_a_batch(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    side_files: Path,
    tmp_path: Path,
    parallelism: int,
    join: Join,
) -> None:
    start_interval_join(environment().set_parallelism(parallelism), side_files, tmp_path / "output", join).wait(
        timeout=120
    )

    assert_true(spark, side_files, tmp_path / "output", join)


# The tests of connected streams kill a job with two inputs. The simulation kills jobs with a join.
@pytest.mark.long
@pytest.mark.parametrize(
    "moment",
    [
        Moment(name="before acknowledgement", matches=lambda said: isinstance(said, SnapshotWritten), count=3),
        Moment(name="before publishing", matches=lambda said: isinstance(said, CommitCheckpoint), count=3),
    ],
    ids=lambda moment: moment.name,
)
def test_a_kill_does_not_change_interval_join_rows(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    side_files: Path,
    tmp_path: Path,
    moment: Moment,
) -> None:
    env = environment().set_parallelism(2)
    kill = kill_at(env, moment)

    start_interval_join(env, side_files, tmp_path / "output", FULL).wait(timeout=120)

    assert kill.done
    assert_true(spark, side_files, tmp_path / "output", FULL)


@pytest.mark.long
@pytest.mark.parametrize("parallelism", [3, 1])
def test_an_interval_join_resumes_from_a_savepoint_at_another_parallelism(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    side_files: Path,
    tmp_path: Path,
    parallelism: int,
) -> None:
    arriving, output = tmp_path / "arriving", tmp_path / "output"
    for side in ("left", "right"):
        (arriving / side).mkdir(parents=True)
        for number in range(2):
            shutil.copy(side_files / side / f"{number}.parquet", arriving / side)
    client = start_interval_join(environment().set_parallelism(2), arriving, output, FULL, monitor=True)
    wait_checkpoint(client)
    path = client.stop()
    for side in ("left", "right"):
        for number in range(2, FILES):
            shutil.copy(side_files / side / f"{number}.parquet", arriving / side)
        (arriving / side / arrivals.END).touch()

    env = environment().set_parallelism(parallelism).from_checkpoint(path)
    start_interval_join(env, arriving, output, FULL, monitor=True).wait(timeout=120)

    assert_true(spark, side_files, output, FULL)


@pytest.mark.long
def test_rows_overtaken_by_an_unaligned_barrier_match_after_a_kill(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], side_files: Path, tmp_path: Path
) -> None:
    env = environment().set_parallelism(2).enable_unaligned_checkpoints()
    kill = kill_at(env, Moment(name="", matches=lambda said: isinstance(said, CommitCheckpoint), count=4))

    def slowed(rows: DataStream) -> DataStream:
        return rows.rebalance().transform(test_unaligned.slowly)

    start_interval_join(env, side_files, tmp_path / "output", FULL, slowed).wait(timeout=120)

    assert kill.done
    assert_true(spark, side_files, tmp_path / "output", FULL)


# Idle subtasks of a source, before a window, cover this too.
@pytest.mark.long
def test_an_idle_input_does_not_hold_back_rows(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], side_files: Path, tmp_path: Path
) -> None:
    """The right side sends no rows. Unmatched rows of the left side are emitted while the job runs."""
    env = environment().set_checkpoint_dir(str(tmp_path / "checkpoints")).enable_checkpointing("500ms")
    shutil.copytree(side_files / "left", tmp_path / "left")
    (tmp_path / "right").mkdir()
    watermarks = (
        WatermarkStrategy.for_bounded_out_of_orderness("30s").with_timestamp_column("at").with_idleness("200ms")
    )
    columns = "id bigint, user bigint, at timestamp"
    left, right = (
        env.from_source(
            FileSource.parquet(str(tmp_path / side), schema=columns).monitor_continuously("50ms", until=arrivals.END),
            watermarks,
            side,
        )
        for side in ("left", "right")
    )
    FULL.of(left, right).sink_to(FileSink.parquet(str(tmp_path / "output")))
    passed = threading.Event()

    def listen(said: Message) -> None:
        if isinstance(said, MetricsReported) and "Sink" in said.task_name and said.metrics.watermark_ms is not None:
            passed.set()

    client = env.execute_async("idle")
    client.add_listener(listen)

    assert passed.wait(timeout=60)
    client.stop()

    rows = spark.read.parquet(str(tmp_path / "output"))
    assert rows.count() > 0
    assert rows.where("other IS NOT NULL").count() == 0
