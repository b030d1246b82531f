"""Tests that a running count per key survives kills of TaskManagers, and continues at another parallelism."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from flykka import FileSink, FileSource, JobClient, RestartStrategies, StreamExecutionEnvironment, WatermarkStrategy
from flykka.messages.attempt.answers import SnapshotWritten
from flykka.messages.attempt.commands import CommitCheckpoint
from tests.integration import arrivals
from tests.integration.test_continuing import wait_checkpoint
from tests.integration.test_kill import Moment, kill_at

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow, pytest.mark.long]

MOMENTS = (
    Moment(name="between barrier and acknowledgement", matches=lambda said: isinstance(said, SnapshotWritten), count=2),
    Moment(name="between staging and publishing", matches=lambda said: isinstance(said, CommitCheckpoint), count=2),
)


def start_running_count(env: StreamExecutionEnvironment, sales: Path, output: Path) -> JobClient:
    """Count the sales of each shop as they arrive, with one file per batch and a checkpoint every 300 ms."""
    env.enable_checkpointing("300ms", tolerable_failures=100).set_checkpoint_dir(str(output.with_name("checkpoints")))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(delay=0))
    source = FileSource.parquet(str(sales)).files_per_batch(1).monitor_continuously("50ms", until=arrivals.END)
    counts = env.from_source(source, WatermarkStrategy.no_watermarks(), "sales", uid="sales").key_by("shop")
    counts.count("sales").uid("counts").sink_to(FileSink.parquet(str(output))).uid("output")
    return env.execute_async("counts")


def assert_counted(spark: SparkSession, sales: Path, output: Path) -> None:
    """Check that the last count of each shop is correct, and that no count was published twice."""
    rows = spark.read.parquet(str(output)).groupBy("shop")
    expected = spark.read.parquet(str(sales)).groupBy("shop").agg(F.count("*").alias("sales"))
    assertDataFrameEqual(rows.agg(F.max("sales").alias("sales")), expected)
    assert not rows.agg((F.count("*") - F.countDistinct("sales")).alias("again")).where("again > 0").collect()


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.name)
def test_a_kill_does_not_change_running_counts(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    few_sales: Path,
    tmp_path: Path,
    moment: Moment,
) -> None:
    arrivals.deliver_first_files(few_sales, tmp_path / "arrivals")
    env = environment().set_parallelism(2)
    kill = kill_at(env, moment)

    client = start_running_count(env, tmp_path / "arrivals", tmp_path / "output")
    assert kill.wait(timeout=60)
    arrivals.deliver_remaining_files(few_sales, tmp_path / "arrivals")
    client.wait(timeout=120)

    assert_counted(spark, few_sales, tmp_path / "output")


def test_counts_continue_at_changing_parallelisms(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], few_sales: Path, tmp_path: Path
) -> None:
    folder, output = tmp_path / "arrivals", tmp_path / "output"
    arrivals.deliver_first_files(few_sales, folder, files=2)
    path = ""
    for parallelism, files in ((1, 3), (3, 5)):
        env = environment().set_parallelism(parallelism)
        client = start_running_count(env.from_checkpoint(path) if path else env, folder, output)
        wait_checkpoint(client)
        path = client.stop()
        for file in sorted(few_sales.glob("*.parquet"))[:files]:
            shutil.copy(file, folder)

    arrivals.deliver_remaining_files(few_sales, folder)
    start_running_count(environment().set_parallelism(2).from_checkpoint(path), folder, output).wait(timeout=120)

    assert_counted(spark, few_sales, output)
