"""A real terminal, a real Ctrl-C: it reaches every process of the terminal except Spark's."""

from __future__ import annotations

from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from tests.flykka.cli.terminal import APP, Terminal

# test_interrupts covers the effect of Ctrl-C on a job, and test_sql its effect on the prompt.
pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow, pytest.mark.long]


def test_ctrl_c_stops_the_job_and_leaves_no_process(arrivals: Path, tmp_path: Path) -> None:
    path, checkpoints, output = tmp_path / "app.py", tmp_path / "checkpoints", tmp_path / "out"
    path.write_text(APP)
    terminal = Terminal(
        *("-m", "flykka", "run", str(path), str(arrivals), str(output), "--checkpoint-dir", str(checkpoints))
    )
    try:
        terminal.read_until("checkpoint 1 completed")
        processes = psutil.Process(terminal.process.pid).children(recursive=True)
        names = {process.name() for process in processes}
        terminal.press_ctrl_c()
        terminal.read_until(None)
        code = terminal.process.wait(timeout=30)
    finally:
        terminal.close()

    said = ["stopping: taking a last checkpoint", "job STOPPED", "job 'copy' STOPPED in", "the app goes on"]
    places = [terminal.shown.find(text) for text in said]
    (kept,) = checkpoints.glob("*/chk-*")
    assert code == 0
    assert -1 not in places
    assert places == sorted(places)
    assert f"kept         {kept}" in terminal.shown
    assert f"continue     flykka run {path}" in terminal.shown
    assert "--from-checkpoint" not in terminal.shown
    assert "1 RUNNING" in terminal.shown
    assert pq.read_table(output)["id"].to_pylist() == [*range(10)]
    assert "java" in names
    assert psutil.wait_procs(processes, timeout=10)[1] == []
