"""Tests that a stopped job, or a job whose process was killed, continues from its checkpoint: each sale counts once."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from flykka import FileSink, FileSource, JobClient, StreamExecutionEnvironment, WatermarkStrategy
from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.errors import (
    CheckpointError,
    CheckpointNotFoundError,
    DuplicateJobSubmissionError,
    JobCancelledError,
)
from flykka.messages.control.job import CheckpointCompleted, JobRestored
from flykka.messages.control.job_control import JobRun
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Message
from tests.actors.machines.graph.graphs import graph_of, vertex
from tests.integration import arrivals, sales

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]


def wait_checkpoint(client: JobClient) -> None:
    completed = threading.Event()
    client.add_listener(lambda message: completed.set() if isinstance(message, CheckpointCompleted) else None)
    assert completed.wait(timeout=60)


def assert_exactly_once(spark: SparkSession, sales_files: Path, output: Path) -> None:
    assertDataFrameEqual(spark.read.parquet(str(output)), sales.hourly_batch(spark, sales_files))


def continue_to_the_end(
    env: StreamExecutionEnvironment, few_files: Path, folder: Path, checkpoint: str = "auto"
) -> list[Message]:
    """Resume the program over all files that have arrived, and return its job messages."""
    return run_to_the_end(env.from_checkpoint(checkpoint), few_files, folder)


def run_to_the_end(env: StreamExecutionEnvironment, few_files: Path, folder: Path) -> list[Message]:
    messages: list[Message] = []
    arrivals.deliver_remaining_files(few_files, folder / "arrivals")
    client = arrivals.start_hourly_arrivals(env, folder / "arrivals", folder / "output")
    client.add_listener(messages.append)
    client.wait(timeout=120)
    return messages


def test_a_stopped_job_continues_with_its_open_windows(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], few_files: Path, tmp_path: Path
) -> None:
    arrivals.deliver_first_files(few_files, tmp_path / "arrivals")
    client = arrivals.start_hourly_arrivals(environment(), tmp_path / "arrivals", tmp_path / "output")
    wait_checkpoint(client)
    with pytest.raises(DuplicateJobSubmissionError, match="job 'sales' runs already: this process"):
        arrivals.start_hourly_arrivals(environment(), tmp_path / "arrivals", tmp_path / "output")

    path = client.stop()
    result = client.wait(timeout=0)
    published = spark.read.parquet(str(tmp_path / "output")).count()
    messages = continue_to_the_end(environment(), few_files, tmp_path)

    kept = int(path.rsplit("-", 1)[-1])
    assert result.checkpoint_path == path
    assert published < sales.hourly_batch(spark, few_files).count()
    assert [restored.checkpoint_id for restored in messages if isinstance(restored, JobRestored)] == [kept]
    assert Path(path, "_metadata").exists()
    assert_exactly_once(spark, few_files, tmp_path / "output")
    with pytest.raises(CheckpointNotFoundError, match="has continued from the newest one"):
        continue_to_the_end(environment(), few_files, tmp_path, "latest")
    with pytest.raises(DuplicateJobSubmissionError, match="has already reached the end of its input"):
        run_to_the_end(environment(), few_files, tmp_path)
    assert_exactly_once(spark, few_files, tmp_path / "output")


def test_a_finished_job_is_repeated_only_if_its_folder_is_overwritten(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], few_files: Path, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    (tmp_path / "arrivals").mkdir()
    run_to_the_end(environment(), few_files, tmp_path)
    (output / "notes").write_text("not a row")

    with pytest.raises(DuplicateJobSubmissionError, match=f"cannot start at the beginning of its input.*{output}"):
        run_to_the_end(environment().from_checkpoint(None), few_files, tmp_path)
    with pytest.raises(DuplicateJobSubmissionError, match="is not a folder of a sink"):
        run_to_the_end(environment().overwrite(tmp_path / "out"), few_files, tmp_path)
    before = {file.name for file in output.glob("part-*")}
    run_to_the_end(environment().overwrite(output), few_files, tmp_path)

    assert (output / "notes").read_text() == "not a row"
    assert before.isdisjoint(file.name for file in output.glob("part-*"))
    (output / "notes").unlink()
    assert_exactly_once(spark, few_files, output)


@pytest.mark.long
def test_files_staged_before_a_runs_first_checkpoint_are_removed_with_the_next(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], few_files: Path, tmp_path: Path
) -> None:
    output, dead = tmp_path / "output", JobId("dead")
    storage = CheckpointStorage(str(tmp_path / "checkpoints"))
    storage.write_job_graph(replace(graph_of(vertex("source")), job_id=dead))
    storage.record_run(JobRun(job_id=dead, job_name="sales"))
    staged = Path(FileSink.parquet(output).staging_folder(dead, "unused"), "output-0-of-1", "0-1")
    staged.mkdir(parents=True)
    (staged / "part-0.parquet").touch()
    (tmp_path / "arrivals").mkdir()

    run_to_the_end(environment(), few_files, tmp_path)

    assert not (output / ".flykka-staging").exists()
    assert_exactly_once(spark, few_files, output)


@pytest.mark.parametrize(
    "ends", [pytest.param(StreamExecutionEnvironment.close, marks=pytest.mark.long), StreamExecutionEnvironment.abandon]
)
def test_a_stopped_job_continues_from_a_high_availability_store(
    spark: SparkSession, few_files: Path, tmp_path: Path, ends: Callable[[StreamExecutionEnvironment], None]
) -> None:
    def environment() -> StreamExecutionEnvironment:
        return StreamExecutionEnvironment.get_execution_environment(high_availability=tmp_path / "store")

    arrivals.deliver_first_files(few_files, tmp_path / "arrivals")
    first = environment()
    client = arrivals.start_hourly_arrivals(first, tmp_path / "arrivals", tmp_path / "output")
    wait_checkpoint(client)
    kept = client.stop()
    ends(first)

    with environment() as again:
        messages = run_to_the_end(again, few_files, tmp_path)

    assert [message.checkpoint_id for message in messages if isinstance(message, JobRestored)] == [
        int(kept.rsplit("-", 1)[-1])
    ]
    assert_exactly_once(spark, few_files, tmp_path / "output")


def test_a_cancelled_job_continues_from_the_checkpoint_named_in_the_error(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], few_files: Path, tmp_path: Path
) -> None:
    arrivals.deliver_first_files(few_files, tmp_path / "arrivals")
    env = environment()
    client = arrivals.start_hourly_arrivals(env, tmp_path / "arrivals", tmp_path / "output")
    wait_checkpoint(client)
    client.cancel()
    with pytest.raises(JobCancelledError, match=r"retained checkpoint: .*/chk-\d+ \(continue with") as cancelled:
        client.wait(timeout=60)

    other = environment().from_checkpoint("latest")
    with pytest.raises(CheckpointError, match=r"cannot continue from .* does not have: 'hourly'"):
        _without_windows(other, tmp_path)

    path = cancelled.value.checkpoint_path
    assert path is not None
    continue_to_the_end(environment(), few_files, tmp_path, path)
    assert_exactly_once(spark, few_files, tmp_path / "output")


# A job of an abandoned environment also continues. The test of segment folders kills a driver, whose JVM ends with
# the driver.
@pytest.mark.long
def test_a_killed_process_leaves_no_child_and_a_usable_checkpoint(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], few_files: Path, tmp_path: Path
) -> None:
    arrivals.deliver_first_files(few_files, tmp_path / "arrivals")
    program = [sys.executable, "-m", "tests.integration.arrivals", str(tmp_path / "arrivals"), str(tmp_path / "output")]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        too_late = threading.Timer(120, process.kill)
        too_late.start()
        assert process.stdout is not None
        completed = [process.stdout.readline().strip() for _ in range(2)]
        children = psutil.Process(process.pid).children(recursive=True)
        names = {child.name() for child in children}
        process.send_signal(signal.SIGKILL)
        too_late.cancel()

    assert process.returncode == -signal.SIGKILL
    assert "java" in names
    assert psutil.wait_procs(children, timeout=20)[1] == []
    messages = continue_to_the_end(environment(), few_files, tmp_path)

    [restored] = [message.checkpoint_id for message in messages if isinstance(message, JobRestored)]
    assert restored is not None
    assert restored >= int(completed[-1].rsplit("-", 1)[-1])
    assert_exactly_once(spark, few_files, tmp_path / "output")


def _without_windows(env: StreamExecutionEnvironment, folder: Path) -> None:
    env.set_checkpoint_dir(str(folder / "checkpoints"))
    source = FileSource.parquet(str(folder / "arrivals"))
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "sales", uid="sales")
    stream.sink_to(FileSink.parquet(str(folder / "elsewhere"))).uid("output")
    env.execute("sales")
