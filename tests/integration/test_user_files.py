"""Tests users' files, archives, modules and packages in this process and on a cluster of two worker processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from pyspark.sql import SparkSession

from tests.integration import user_files_app
from tests.spark_bridge.user_files.wheels import make_wheel

DEADLINE = 300
"""The time limit in seconds. Two worker processes start slowly on a busy machine."""

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]


@pytest.fixture
def registered_files(tmp_path: Path) -> Path:
    (tmp_path / "cities.csv").write_text("Rome")
    (tmp_path / "moons.py").write_text("COUNT = 1\n")
    (tmp_path / "needs.txt").write_text("tides==1.0\n")
    make_wheel(tmp_path / "wheels", "tides", "1.0", "HIGH = 2\n")
    with ZipFile(tmp_path / "map.zip", "w") as archive:
        archive.writestr("below/map.txt", "a map")
    return tmp_path


def assert_seen(report: dict[str, Any], *, processes: int) -> None:
    assert Counter(row["kind"] for row in report["rows"]) == {"plain+rich+3": 40, "keyed+rich+3": 40}
    assert {row["saw"] for row in report["rows"]} == {"Rome|a map|1|2|7"}
    assert len({row["executor"] for row in report["rows"]}) == processes
    assert report["left"] == []


def test_functions_see_registered_files_that_are_removed_afterwards(
    spark: SparkSession, registered_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(registered_files)

    assert_seen(user_files_app.run_user_files_job(None), processes=1)


@pytest.mark.long
@pytest.mark.timeout(DEADLINE + 60)
def test_functions_on_two_worker_processes_see_registered_files(registered_files: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.integration.user_files_app", str(registered_files)],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
        env={**os.environ, "SPARK_WORKER_DIR": str(registered_files / "work")},
    )

    assert run.returncode == 0, run.stderr
    assert_seen(json.loads(run.stdout.splitlines()[-1]), processes=2)
