"""Tests that an application produces the same output if successive drivers are killed or paused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.flykka.cluster.high_availability.processes import Driver
from tests.flykka.cluster.high_availability.zookeeper_server import ZooKeeperServer
from tests.integration.takeover_app import ROWS

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

DEADLINE = 600
"""The time limit in seconds for one driver. A busy machine needs minutes instead of ten seconds."""

KILLS = ("SnapshotWritten:1", "add", "MetadataWritten:2", "JobResultRecorded:1", "between", "JobEnded:1")
"""Moments of the kills: before the first checkpoint; when the metadata of a checkpoint exists but the checkpoint is not
complete; when it is complete but not published; when the result of the first job is recorded but not cleaned up;
between the jobs; after the second job.
"""


def run_takeover_app(folder: Path, how: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.integration.takeover_app", str(folder), str(folder / "store"), how]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False, env=os.environ)


@pytest.mark.long
def test_a_repeatedly_killed_application_loses_and_duplicates_no_row(spark: SparkSession, tmp_path: Path) -> None:
    for how in KILLS:
        killed = run_takeover_app(tmp_path, how)
        assert killed.returncode == -signal.SIGKILL, f"{how}: {killed.stdout}{killed.stderr}"

    ended = run_takeover_app(tmp_path)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == ["first: had finished before", "second: had finished before"]
    assert_each_row_once(spark, tmp_path)


@pytest.mark.long
def test_a_driver_paused_before_a_checkpoint_completes_does_not_change_the_output(
    spark: SparkSession, tmp_path: Path, server: ZooKeeperServer, capfd: pytest.CaptureFixture[str]
) -> None:
    store = f"zookeeper://{server.hosts}/flykka/takeover?storage_dir={tmp_path / 'storage'}"
    with takeover_driver(tmp_path, store, "pause:MetadataWritten:3") as sleeping:
        assert sleeping.wait_line() == "pause:MetadataWritten:3: ends here"
        with takeover_driver(tmp_path, store) as following:
            assert following.wait_line() == "first: has finished"

            sleeping.send(signal.SIGCONT)

            assert following.wait_line() == "second: has finished"
            assert following.wait_ended() == 0
        # This driver had waited for the result of its job. The result of the next job existed already.
        assert sleeping.wait_line() == "first: has finished"
        assert sleeping.wait_line() == "second: had finished before"
        assert sleeping.wait_ended() == 0
    assert "this driver no longer leads: its jobs are suspended until it leads again" in capfd.readouterr().err
    assert_each_row_once(spark, tmp_path)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    server = ZooKeeperServer(tmp_path / "server")
    server.start()
    yield server
    server.kill()


def takeover_driver(folder: Path, store: str, how: str = "") -> Driver:
    return Driver(str(folder), store, how, module="tests.integration.takeover_app", patience=DEADLINE)


def assert_each_row_once(spark: SparkSession, folder: Path) -> None:
    for name in ("first", "second"):
        numbers = [row.number for row in spark.read.parquet(str(folder / name)).collect()]
        assert sorted(numbers) == list(range(ROWS))
