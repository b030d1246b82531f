"""Tests a job that is rescaled from one to two, four and one subtask with windows open: each sale counts once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from flykka import StreamExecutionEnvironment
from flykka.actors.machines.state.in_flight import is_in_flight
from flykka.client.checkpoints import find_checkpoint
from flykka.errors import CheckpointError, JobCancelledError
from tests.integration import arrivals, sales, test_unaligned
from tests.integration.test_continuing import wait_checkpoint

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]


# test_upgrades shows for more operators that jobs continue at another parallelism.
@pytest.mark.long
def test_a_job_is_stopped_and_rescaled_repeatedly(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], sales_files: Path, tmp_path: Path
) -> None:
    folder, output = tmp_path / "arrivals", tmp_path / "output"
    arrivals.deliver_first_files(sales_files, folder, files=2)
    path = ""
    for parallelism, files in ((1, 3), (2, 4), (4, 5)):
        env = environment().set_parallelism(parallelism)
        client = arrivals.start_hourly_arrivals(env.from_checkpoint(path) if path else env, folder, output)
        wait_checkpoint(client)
        path = client.stop()
        for file in sorted(sales_files.glob("*.parquet"))[:files]:
            shutil.copy(file, folder)
    published = spark.read.parquet(str(output)).count()

    arrivals.deliver_remaining_files(sales_files, folder)
    arrivals.start_hourly_arrivals(environment().set_parallelism(1).from_checkpoint(path), folder, output).wait(
        timeout=120
    )

    assert 0 < published < sales.hourly_batch(spark, sales_files).count()
    assertDataFrameEqual(spark.read.parquet(str(output)), sales.hourly_batch(spark, sales_files))


def test_the_configured_number_of_key_groups_cannot_change(
    environment: Callable[..., StreamExecutionEnvironment], sales_files: Path, tmp_path: Path
) -> None:
    arrivals.deliver_first_files(sales_files, tmp_path / "arrivals", files=2)
    client = arrivals.start_hourly_arrivals(environment(), tmp_path / "arrivals", tmp_path / "output")
    wait_checkpoint(client)
    path = client.stop()

    other = environment().set_max_parallelism(64).from_checkpoint(path)
    with pytest.raises(CheckpointError, match=r"ran with the maximum parallelism 128, but the job sets it to 64"):
        arrivals.start_hourly_arrivals(other, tmp_path / "arrivals", tmp_path / "output")


@pytest.mark.long
def test_in_flight_rows_of_a_cancelled_job_are_restored_at_another_parallelism(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], sales_files: Path, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    env = environment().set_externalized_checkpoint_retention("RETAIN_ON_CANCELLATION")
    client = test_unaligned.start_slow_sales(env, sales_files, output, 2)
    wait_checkpoint(client)
    client.cancel()
    with pytest.raises(JobCancelledError) as cancelled:
        client.wait(timeout=60)

    path = cancelled.value.checkpoint_path
    assert path is not None
    entries = find_checkpoint(path, "").task_states
    held = [state for entry in entries if entry.state for state in entry.state.operators if is_in_flight(state)]
    test_unaligned.start_slow_sales(environment().from_checkpoint(path), sales_files, output, 3).wait(timeout=120)

    assert held
    assertDataFrameEqual(spark.read.parquet(str(output)), sales.hourly_batch(spark, sales_files))
