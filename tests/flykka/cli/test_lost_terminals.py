"""A terminal that goes away while a job runs: what cannot be printed any more does not matter to the job."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from tests.flykka.cli.terminal import APP, Terminal

# What the signal does to a job, test_interrupts has too; an app on a terminal that is stopped, test_ctrl_c.
pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow, pytest.mark.long]


@pytest.mark.parametrize(
    "nohup",
    [
        pytest.param(False, id="SIGHUP"),
        # It is stopped as test_process_group has it, by a SIGTERM.
        pytest.param(True, id="SIGHUP ignored, then SIGTERM"),
    ],
)
def test_a_job_stops_with_a_checkpoint_though_nobody_sees_it(arrivals: Path, tmp_path: Path, nohup: bool) -> None:
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
