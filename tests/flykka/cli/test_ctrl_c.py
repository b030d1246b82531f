"""A real terminal, a real Ctrl-C: every process of the terminal gets it, Spark's too."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.house.sources import HOUSE

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

APP = """\
import sys
from flykka import FileSink, FileSource, StreamExecutionEnvironment, WatermarkStrategy

def unchanged(frames):
    yield from frames

with StreamExecutionEnvironment.get_execution_environment("local[2]") as env:
    env.enable_checkpointing("100ms")
    source = FileSource.parquet(sys.argv[1], schema="id bigint").monitor_continuously("100ms", until="never")
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", uid="numbers")
    numbers.map_in_pandas(unchanged, "id bigint").sink_to(FileSink.parquet(sys.argv[2])).name("copy")
    env.execute("copy")
    print("the app goes on")
"""

# The terminal is to be the one that controls the process, or its Ctrl-C would be a character like any other.
IN_ITS_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
SECONDS = 120
"""A live screen shows something new four times a second, and Spark starts before it: so long a silence is a failure."""
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


class Terminal:
    """A terminal of 110 columns with one program in it."""

    def __init__(self, *command: str) -> None:
        self._ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 110, 0, 0))
        environment = os.environ | {"TERM": "xterm-256color", "PYTHONPATH": str(HOUSE)}
        words = (sys.executable, "-c", IN_ITS_TERMINAL, sys.executable, *command)
        self.process = subprocess.Popen(
            words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
        )
        os.close(theirs)
        self.shown = ""

    def read_until(self, text: str | None) -> None:
        """Read on until this was shown, or to the end."""
        while text is None or text not in self.shown:
            ready, _, _ = select.select([self._ours], [], [], SECONDS)
            assert ready, f"nothing new was shown for {SECONDS} s: {self.shown}"
            try:
                read = os.read(self._ours, 65_536)
            except OSError:
                # That is how Linux tells that nobody is at the other end any more.
                read = b""
            if not read:
                assert text is None, f"{text!r} was never shown: {self.shown}"
                return
            self.shown += CONTROL.sub("", read.decode())

    def press_ctrl_c(self) -> None:
        os.write(self._ours, b"\x03")

    def close(self) -> None:
        self.process.kill()
        self.process.wait(timeout=10)
        os.close(self._ours)


@pytest.fixture
def arrivals(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table({"id": list(range(10))}), folder / "numbers.parquet")
    return folder


def test_a_ctrl_c_stops_the_job_shows_how_to_continue_and_leaves_no_process(arrivals: Path, tmp_path: Path) -> None:
    path, checkpoints, output = tmp_path / "app.py", tmp_path / "checkpoints", tmp_path / "out"
    path.write_text(APP)
    terminal = Terminal(
        *("-m", "flykka", "run", str(path), str(arrivals), str(output), "--checkpoint-dir", str(checkpoints))
    )
    try:
        terminal.read_until("checkpoint 2 completed")
        processes = psutil.Process(terminal.process.pid).children(recursive=True)
        names = {process.name() for process in processes}
        terminal.press_ctrl_c()
        terminal.read_until(None)
        code = terminal.process.wait(timeout=30)
    finally:
        terminal.close()

    said = ["stopping: taking a last checkpoint", "job FINISHED", "job 'copy' FINISHED in", "the app goes on"]
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
