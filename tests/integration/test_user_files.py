"""Files, archives, modules and packages of the user's, on a cluster of two worker processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.spark_bridge.user_files.wheels import make_wheel

DEADLINE = 300
"""Seconds: two worker processes start on a machine that may do much else."""

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(DEADLINE + 60)]


def test_functions_on_two_worker_processes_see_what_was_registered_and_nothing_is_left_of_it(tmp_path: Path) -> None:
    (tmp_path / "cities.csv").write_text("Rome")
    (tmp_path / "moons.py").write_text("COUNT = 1\n")
    (tmp_path / "needs.txt").write_text("tides==1.0\n")
    make_wheel(tmp_path / "wheels", "tides", "1.0", "HIGH = 2\n")
    with ZipFile(tmp_path / "map.zip", "w") as archive:
        archive.writestr("below/map.txt", "a map")

    run = subprocess.run(
        [sys.executable, "-m", "tests.integration.user_files_app", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
        env={**os.environ, "SPARK_WORKER_DIR": str(tmp_path / "work")},
    )

    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout.splitlines()[-1])
    assert Counter(row["kind"] for row in told["rows"]) == {"plain+rich+3": 40, "keyed+rich+3": 40}
    assert {row["saw"] for row in told["rows"]} == {"Rome|a map|1|2|7"}
    assert len({row["executor"] for row in told["rows"]}) == 2
    assert told["left"] == []
