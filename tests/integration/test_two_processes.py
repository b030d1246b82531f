"""Tests that the second of two processes with one job is refused, and that a replaced process publishes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from flykka import StreamExecutionEnvironment
from flykka.actors.ownership.folders import checkpoint_folder
from flykka.client.running_jobs import FOLDER_VARIABLE
from flykka.errors import JobExecutionError
from tests.integration import arrivals, sales
from tests.integration.test_continuing import wait_checkpoint

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]


# The tests of owners refuse another process, and test_continuing another environment of one process.
@pytest.mark.long
def test_a_second_process_on_the_same_folders_is_refused(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], sales_files: Path, tmp_path: Path
) -> None:
    arrived, output = tmp_path / "arrivals", tmp_path / "output"
    # No output is published yet, because published output would be another reason to refuse the second process.
    arrivals.deliver_first_files(sales_files, arrived, files=1)
    client = arrivals.start_hourly_arrivals(environment(), arrived, output)
    wait_checkpoint(client)
    # The output folder is the same, with a checkpoint folder beside the link.
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "output").symlink_to(output)
    second = start_program(tmp_path / "run", arrived, output, tmp_path / "elsewhere" / "output")

    printed, errors = second.communicate(timeout=120)
    arrivals.deliver_remaining_files(sales_files, arrived)
    client.wait(timeout=120)

    assertDataFrameEqual(spark.read.parquet(str(output)), sales.hourly_batch(spark, sales_files))
    assert second.returncode == 0, errors
    refusals = printed.splitlines()
    for text, folder in zip(refusals, ("checkpoints", "elsewhere/output"), strict=True):
        assert text.startswith("job 'sales'")
        assert f"process {os.getpid()} of user" in text
        assert str(tmp_path / folder) in text
    assert not (output / ".flykka-staging").exists()


PROGRAM = """
import sys
from pathlib import Path
from flykka import StreamExecutionEnvironment
from flykka.errors import DuplicateJobSubmissionError
from tests.integration import arrivals
arrived, *outputs = map(Path, sys.argv[1:])
with StreamExecutionEnvironment.get_execution_environment("local[2]") as env:
    for output in outputs:
        try:
            arrivals.start_hourly_arrivals(env, arrived, output)
        except DuplicateJobSubmissionError as refused:
            print(str(refused).replace(chr(10), " "))
        else:
            sys.exit("it was not refused")
"""
"""A program that starts the job with one output folder after another, and prints why each start was refused."""


def start_program(run: Path, *folders: Path) -> subprocess.Popen[str]:
    """Start the program in another process that shares only the folders with this one."""
    program = [sys.executable, "-c", PROGRAM, *map(str, folders)]
    variables = {FOLDER_VARIABLE: str(run), "XDG_RUNTIME_DIR": str(run), "TMPDIR": str(run)}
    run.mkdir(mode=0o700, exist_ok=True)
    environment = {**os.environ, **variables}
    return subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def test_a_job_whose_folder_was_taken_over_fails_and_stops_publishing(
    environment: Callable[..., StreamExecutionEnvironment],
    sales_files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"22 1 0:20 / {tmp_path} rw - nfs4 server:/export rw\n")
    monkeypatch.setattr("flykka.actors.ownership.mounts._MOUNTS", mounts)
    arrived, output = tmp_path / "arrivals", tmp_path / "output"
    arrivals.deliver_first_files(sales_files, arrived)
    client = arrivals.start_hourly_arrivals(environment(), arrived, output)
    wait_checkpoint(client)
    folder = checkpoint_folder(str(tmp_path / "checkpoints"), "sales", 1_000)

    Path(f"{folder.file}.2").write_bytes(folder.record(2).data())
    with pytest.raises(JobExecutionError, match=r"has lost .*/checkpoints to process .* \(owner 2\)") as failed:
        client.wait(timeout=60)
    published = set(output.glob("part-*"))
    arrivals.deliver_remaining_files(sales_files, arrived)

    assert failed.value.cause.type_name == "OwnershipLostError"
    assert client.details.restarts == ()
    assert set(output.glob("part-*")) == published
    assert Path(f"{folder.file}.2").read_bytes().startswith(b'{"number": 2')
