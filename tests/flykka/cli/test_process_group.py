"""Signals to process groups, and a killed driver: the effects on the job, the JVM and its workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from tests.flykka.cli.terminal import APP
from tests.layout.sources import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow, pytest.mark.long]


@contextmanager
def running_app(arrivals: Path, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """`flykka run` as the leader of a process group, after its first checkpoint has completed."""
    path = folder / "app.py"
    path.write_text(APP)
    words = ("-m", "flykka", "run", str(path), str(arrivals), str(folder / "out"))
    process = subprocess.Popen(
        [sys.executable, *words, "--checkpoint-dir", str(folder / "checkpoints")],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    assert process.stdout is not None
    try:
        assert any("checkpoint 1 completed" in line for line in process.stdout)
        yield process
    finally:
        process.kill()
        process.communicate(timeout=10)


# Other tests cover related effects: test_interrupts, the effect of a signal on a job; test_session, that the JVM does
# not receive the signal; test_ctrl_c, that a stopped app leaves no process; tests/integration/test_continuing, that a
# killed driver leaves none.
def test_a_sigterm_to_the_process_group_stops_the_job_with_a_checkpoint(arrivals: Path, tmp_path: Path) -> None:
    with running_app(arrivals, tmp_path) as app:
        processes = psutil.Process(app.pid).children(recursive=True)
        names = {process.name() for process in processes}
        os.killpg(app.pid, signal.SIGTERM)
        said, _ = app.communicate(timeout=30)

    (kept,) = (tmp_path / "checkpoints").glob("*/chk-*")
    assert app.returncode == 0
    assert "job 'copy' STOPPED in" in said
    assert f"  kept         {kept}" in said.splitlines()
    assert pq.read_table(tmp_path / "out")["id"].to_pylist() == [*range(10)]
    assert "java" in names
    assert psutil.wait_procs(processes, timeout=10)[1] == []


def test_a_killed_driver_leaves_no_process(arrivals: Path, tmp_path: Path) -> None:
    with running_app(arrivals, tmp_path) as app:
        processes = psutil.Process(app.pid).children(recursive=True)
        names = {process.name() for process in processes}
        app.kill()
        _, alive = psutil.wait_procs(processes, timeout=20)

    assert "java" in names
    assert len(processes) > 1
    assert alive == []
