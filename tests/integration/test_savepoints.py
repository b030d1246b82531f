"""Tests that the flights job resumes from moved savepoints at another parallelism: each flight counts once."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from examples import flights
from flykka import JobClient, StreamExecutionEnvironment
from flykka.errors import CheckpointError, JobCancelledError
from flykka.messages.control.job import CheckpointCompleted, MetricsReported
from flykka.messages.wire.message import Message
from tests.integration import arrivals

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

FILES = 9
"""The number of files that are used, out of forty files with all flights."""


@pytest.fixture(scope="module")
def flight_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return flights.write_files(tmp_path_factory.mktemp("flights"))[:FILES]


def start_flights(
    env: StreamExecutionEnvironment, folder: Path, parallelism: int, *, interval: str = "300ms"
) -> JobClient:
    env.enable_checkpointing(interval, tolerable_failures=100).set_checkpoint_dir(str(folder / "checkpoints"))
    env.set_default_savepoint_directory(str(folder / "savepoints"))
    flights.define_job(env, folder / "arrivals", folder / "output", parallelism)
    return env.execute_async("flights")


def deliver_flights(files: list[Path], folder: Path) -> None:
    for file in files:
        shutil.copy(file, folder / "arrivals")


def wait_for(client: JobClient, holds: Callable[[Message], bool]) -> None:
    reached = threading.Event()
    client.add_listener(lambda said: reached.set() if holds(said) else None)
    assert reached.wait(timeout=60)


def wait_read(client: JobClient, rows: int = 1) -> None:
    """Wait until the source, which runs in one subtask, has read this many rows."""
    wait_for(
        client,
        lambda said: (
            isinstance(said, MetricsReported) and said.task_name.startswith("Source") and said.metrics.rows_in >= rows
        ),
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def assert_exactly_once(spark: SparkSession, files: list[Path], output: Path) -> None:
    streamed = spark.read.parquet(str(output)).collect()
    assert flights.differences(streamed, flights.batch_result(spark, files).collect()) == []


# The job of test_upgrades also covers this case.
@pytest.mark.long
def test_a_job_resumes_from_moved_savepoints_at_another_parallelism(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    flight_files: list[Path],
    tmp_path: Path,
) -> None:
    (tmp_path / "arrivals").mkdir()
    moved: Path | None = None
    for number, parallelism in enumerate((1, 4, 2)):
        env = environment()
        deliver_flights(flight_files[number * 3 : number * 3 + 3], tmp_path)
        if moved is not None:
            env.from_savepoint(str(moved))
        client = start_flights(env, tmp_path, parallelism)
        wait_for(client, lambda said: isinstance(said, CheckpointCompleted))
        if number < 2:
            path = Path(client.stop_with_savepoint())
            moved = tmp_path / f"moved-{number}" / "elsewhere"
            moved.parent.mkdir()
            path.rename(moved)
            shutil.rmtree(tmp_path / "checkpoints")
        else:
            (tmp_path / "arrivals" / arrivals.END).touch()
            client.wait(timeout=120)

    assert_exactly_once(spark, flight_files, tmp_path / "output")


def test_a_savepoint_of_a_running_job_contains_unpublished_files(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    flight_files: list[Path],
    tmp_path: Path,
) -> None:
    (tmp_path / "arrivals").mkdir()
    client = start_flights(environment(), tmp_path, 1, interval="10min")
    wait_for(client, lambda said: isinstance(said, CheckpointCompleted))
    deliver_flights(flight_files[:2], tmp_path)
    wait_read(client)
    path = Path(client.trigger_savepoint())
    client.cancel()
    with pytest.raises(JobCancelledError):
        client.wait(timeout=60)
    before = contents(path)
    published = list((tmp_path / "output").glob("*.parquet"))

    deliver_flights(flight_files[2:4], tmp_path)
    (tmp_path / "arrivals" / arrivals.END).touch()
    start_flights(environment().from_savepoint(str(path)), tmp_path, 1).wait(timeout=120)

    assert published == []
    assert contents(path) == before
    assert_exactly_once(spark, flight_files[:4], tmp_path / "output")


def test_a_job_resumed_in_another_time_zone_warns(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "arrivals").mkdir()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    client = start_flights(environment(), tmp_path, 1)
    wait_for(client, lambda said: isinstance(said, CheckpointCompleted))
    path = client.stop_with_savepoint()
    (tmp_path / "arrivals" / arrivals.END).touch()

    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        start_flights(environment().from_savepoint(path), tmp_path, 1).wait(timeout=120)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    assert (
        f"flykka: job 'flights' continues with another setting of Spark's session than {path} was taken with:"
        " spark.sql.session.timeZone was UTC, is Asia/Tokyo;" in capfd.readouterr().err
    )


def test_an_incomplete_savepoint_is_refused_before_the_job_starts(
    environment: Callable[..., StreamExecutionEnvironment], flight_files: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "arrivals").mkdir()
    deliver_flights(flight_files[:2], tmp_path)
    client = start_flights(environment(), tmp_path, 1)
    wait_for(client, lambda said: isinstance(said, CheckpointCompleted))
    path = Path(client.stop_with_savepoint())
    state = next(each for each in path.iterdir() if each.is_dir())
    shutil.rmtree(state)

    with pytest.raises(CheckpointError, match=f"refers to state in file:{state}, which is missing"):
        start_flights(environment().from_savepoint(str(path)), tmp_path, 1)


def test_a_drained_job_publishes_its_open_windows(
    spark: SparkSession,
    environment: Callable[..., StreamExecutionEnvironment],
    flight_files: list[Path],
    tmp_path: Path,
) -> None:
    (tmp_path / "arrivals").mkdir()
    deliver_flights(flight_files[:2], tmp_path)
    client = start_flights(environment(), tmp_path, 2, interval="10min")
    wait_read(client, rows=sum(pq.read_metadata(file).num_rows for file in flight_files[:2]))

    client.stop_with_savepoint(drain=True)

    assert_exactly_once(spark, flight_files[:2], tmp_path / "output")
