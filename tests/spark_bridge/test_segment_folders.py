"""Tests that segment files on an executor's disk are removed with their attempts and jobs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from signal import SIGKILL

import pytest
from pyspark import SparkFiles

from tests.spark_bridge.harness import Harness
from tests.spark_bridge.operators.test_keyed_rows import VERBS, keyed

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KILLED = """
import os, sys
from pyspark import SparkConf, SparkContext, SparkFiles
from flykka.spark_bridge.session.gateway import ensure_gateway

conf = SparkConf().setMaster("local[1]").setAppName("killed").set("spark.ui.enabled", "false")
conf.set("spark.local.dir", sys.argv[1])
ensure_gateway(conf)
SparkContext(conf=conf)
folder = os.path.join(SparkFiles.getRootDirectory(), "flykka-state", "attempt")
os.makedirs(folder)
with open(os.path.join(folder, "attempt-1"), "w") as segment:
    segment.write("rows")
print("written below", folder, flush=True)
os.kill(os.getpid(), 9)
"""


def segment_files(harness: Harness) -> list[Path]:
    paths = Path(SparkFiles.getRootDirectory(), "flykka-state").rglob("*")
    return sorted(path for path in paths if path.is_file() and str(harness.job_id) in str(path))


def test_an_ended_or_cancelled_attempt_leaves_no_segment(harness: Harness) -> None:
    attempts = keyed(harness, VERBS[0])
    subtasks = attempts.begin(2)
    attempts.read(subtasks, 2)
    assert segment_files(harness)

    for number, each in enumerate(subtasks):
        each.close(cancel=number == 0)

    assert segment_files(harness) == []


def test_an_ended_job_leaves_no_segment_of_running_attempts(harness: Harness) -> None:
    attempts = keyed(harness, VERBS[0])
    attempts.read(attempts.begin(), 0)
    assert segment_files(harness)

    harness.plane.release_job(harness.job_id)

    assert segment_files(harness) == []


def test_a_killed_driver_leaves_no_segment(tmp_path: Path) -> None:
    driver = [sys.executable, "-c", KILLED, str(tmp_path)]

    # The JVM shares this output, so the JVM has ended as well once all output is read.
    killed = subprocess.run(driver, capture_output=True, text=True, timeout=100, check=False)

    assert killed.returncode == -SIGKILL, killed.stderr
    assert f"written below {tmp_path}" in killed.stdout
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
