"""Tests stateful functions: whatever faults occur, the output equals that of one plain Spark batch."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from flykka import FileSource, JobClient, RestartStrategies, StreamExecutionEnvironment, WatermarkStrategy
from flykka.messages.attempt.answers import SnapshotWritten
from flykka.messages.attempt.commands import CommitCheckpoint
from tests.integration import arrivals, stateful
from tests.integration.stateful import EXAMPLES, StatefulExample, batch_output
from tests.integration.test_continuing import wait_checkpoint
from tests.integration.test_kill import Moment, kill_at

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

MOMENTS = (
    Moment(name="between barrier and acknowledgement", matches=lambda said: isinstance(said, SnapshotWritten), count=3),
    Moment(name="between staging and publishing", matches=lambda said: isinstance(said, CommitCheckpoint), count=3),
)


@pytest.fixture(scope="session")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stateful.write_events(tmp_path_factory.mktemp("input") / "events")


def start_example(env: StreamExecutionEnvironment, example: StatefulExample, events: Path, output: Path) -> JobClient:
    """Submit the job over a growing folder: one file per batch, a checkpoint every 300 ms, immediate restarts."""
    env.enable_checkpointing("300ms", tolerable_failures=100).set_checkpoint_dir(str(output.with_name("checkpoints")))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(delay=0))
    source = FileSource.parquet(str(events)).files_per_batch(1).monitor_continuously("50ms", until=arrivals.END)
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1min").with_timestamp_column("at")
    example.define(example.module, env.from_source(source, watermarks, "events", uid="events"), output)
    return env.execute_async(example.name)


def assert_true(spark: SparkSession, example: StatefulExample, events: Path, output: Path) -> None:
    assertDataFrameEqual(example.newest(spark.read.parquet(str(output))), batch_output(spark, example, events))


# The other examples have chained windows. These examples have timers and broadcast state, which other tests also kill
# or restore.
LONG = (
    "silent_sensors",
    "rules_by_broadcast",
    "sessions",
    "running_totals",
    "deduplicated",
    "order_states",
    "priced_orders",
)


@pytest.mark.parametrize(
    "example",
    [pytest.param(each, marks=pytest.mark.long if each.name in LONG else ()) for each in EXAMPLES],
    ids=str,
)
@pytest.mark.parametrize(
    ("parallelism", "moment"),
    [
        (1, None),
        pytest.param(4, MOMENTS[0], marks=pytest.mark.long),
        pytest.param(1, MOMENTS[1], marks=pytest.mark.long),
        pytest.param(4, None, marks=pytest.mark.long),
    ],
    ids=lambda each: str(getattr(each, "name", each)),
)
def test_example_output_equals_a_batch_at_any_parallelism_and_with_a_kill(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    events: Path,
    tmp_path: Path,
    example: StatefulExample,
    parallelism: int,
    moment: Moment | None,
) -> None:
    arrivals.deliver_first_files(events, tmp_path / "arrivals", files=3)
    env = environment().set_parallelism(parallelism)
    kill = None if moment is None else kill_at(env, moment)

    client = start_example(env, example, tmp_path / "arrivals", tmp_path / "output")
    assert kill is None or kill.wait(timeout=60)
    arrivals.deliver_remaining_files(events, tmp_path / "arrivals")
    client.wait(timeout=120)

    assert_true(spark, example, events, tmp_path / "output")


@pytest.mark.long
@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_a_savepoint_of_four_subtasks_continues_on_two(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    events: Path,
    tmp_path: Path,
    example: StatefulExample,
) -> None:
    folder, output = tmp_path / "arrivals", tmp_path / "output"
    arrivals.deliver_first_files(events, folder, files=3)
    client = start_example(environment().set_parallelism(4), example, folder, output)
    wait_checkpoint(client)
    savepoint = client.stop_with_savepoint(str(tmp_path / "savepoint"))
    shutil.rmtree(tmp_path / "checkpoints")

    client = start_example(environment().set_parallelism(2).from_checkpoint(savepoint), example, folder, output)
    arrivals.deliver_remaining_files(events, folder)
    client.wait(timeout=120)

    assert_true(spark, example, events, output)
