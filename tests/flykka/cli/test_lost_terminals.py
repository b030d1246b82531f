"""A terminal that disappears while a job runs: the lost output does not affect the job."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from tests.flykka.cli.terminal import APP, Terminal

# test_interrupts covers the effect of the signal on a job, and test_ctrl_c an app that is stopped on a terminal.
pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow, pytest.mark.long]


@pytest.mark.parametrize(
    "nohup",
    [
        pytest.param(False, id="SIGHUP"),
        # The app is stopped by SIGTERM, as in test_process_group.
        pytest.param(True, id="SIGHUP ignored, then SIGTERM"),
    ],
)
def test_a_job_stops_with_a_checkpoint_after_its_terminal_is_lost(arrivals: Path, tmp_path: Path, nohup: bool) -> None:
    path, checkpoints, output = tmp_path / "app.py", tmp_path / "checkpoints", tmp_path / "out"
    path.write_text(APP)
    words = ("-m", "flykka", "run", str(path), str(arrivals), str(output), "--checkpoint-dir", str(checkpoints))
    terminal = Terminal(*words, nohup=nohup)
    try:
        terminal.read_until("checkpoint 1 completed")
        processes = psutil.Process(terminal.process.pid).children(recursive=True)
        terminal.hang_up()
        if nohup:
            terminal.process.send_signal(signal.SIGTERM)
        code = terminal.process.wait(timeout=120)
    finally:
        terminal.close()

    assert code == 0
    assert len([*checkpoints.glob("*/chk-*")]) == 1
    assert pq.read_table(output)["id"].to_pylist() == [*range(10)]
    assert psutil.wait_procs(processes, timeout=10)[1] == []
