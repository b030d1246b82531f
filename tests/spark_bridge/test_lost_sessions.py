"""Tests that a job whose session is stopped or whose JVM ends continues, or fails with a reason, and never hangs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.layout.sources import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ALL = "[0, 1, 2, 3]"
STARTED_AGAIN = "the Spark session was stopped while the job ran: another one was started in its place"


def run_lost_sessions(whose: str, folder: Path) -> tuple[list[str], str]:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.spark_bridge.lost_sessions", whose, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=420,
        check=False,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return [line.removeprefix("> ") for line in ran.stdout.splitlines() if line.startswith("> ")], ran.stderr


def test_a_lost_flykka_session_is_restarted_but_a_dead_jvm_fails_jobs(
    tmp_path: Path,
) -> None:
    outcomes, beside = run_lost_sessions("ours", tmp_path)

    stopped, killed = outcomes
    assert stopped == f"stopped by the program FINISHED {ALL} UTC"
    assert killed.startswith("killed SparkLostError the JVM of Spark has ended, with all data of this program in it")
    assert ": it was killed (SIGKILL), " in killed
    assert "Traceback" not in beside
    assert beside.count(STARTED_AGAIN) == 1
    assert "cannot free" not in beside


@pytest.mark.long
def test_a_session_stopped_from_outside_is_restarted(tmp_path: Path) -> None:
    outcomes, beside = run_lost_sessions("outside", tmp_path)

    assert outcomes == [f"stopped from outside FINISHED {ALL} UTC"]
    assert beside.count(STARTED_AGAIN) == 1
    assert "Traceback" not in beside
    assert "cannot free" not in beside


@pytest.mark.long
def test_a_row_too_large_for_the_jvm_is_explained_in_one_line(tmp_path: Path) -> None:
    (outcomes,), beside = run_lost_sessions("large", tmp_path)

    assert outcomes.startswith("large SparkLostError the JVM of Spark has ended,")
    assert ": it has run out of memory (see its last line on stderr). A row, or a batch of rows, takes" in outcomes
    assert "ERROR SparkUncaughtExceptionHandler: Uncaught exception in thread" in beside
    assert "Traceback" not in beside
    assert "\tat " not in beside


@pytest.mark.long
def test_a_programs_own_session_is_not_restarted_and_the_error_explains_why(tmp_path: Path) -> None:
    (outcomes,), _ = run_lost_sessions("theirs", tmp_path)

    assert outcomes.startswith(
        "stopped SessionStoppedError the Spark session was stopped while the job ran; it is the program's own session,"
        " so flykka does not start another one: leave it running until the job has ended"
    )
