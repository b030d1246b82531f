"""`flykka run` as a process on a real terminal, with a job that runs until it is stopped."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios

from tests.layout.sources import ROOT

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

# The terminal must be the controlling terminal, otherwise Ctrl-C would be an ordinary character.
IN_ITS_TERMINAL = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
# They are ignored where the tests run in the background of a shell, or below `nohup`.
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_IGN if sys.argv[1] == "nohup" else signal.SIG_DFL)
os.execv(sys.argv[2], sys.argv[2:])
"""
SECONDS = 120
"""The number of seconds without output after which a test fails. The live screen changes four times a second, but Spark
starts first.
"""
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


class Terminal:
    """A terminal of 110 columns with one program running in it."""

    def __init__(self, *command: str, nohup: bool = False) -> None:
        self._ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 110, 0, 0))
        environment = os.environ | {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
        words = (sys.executable, "-c", IN_ITS_TERMINAL, "nohup" if nohup else "", sys.executable, *command)
        self.process = subprocess.Popen(
            words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
        )
        os.close(theirs)
        self.shown = ""

    def read_until(self, text: str | None) -> None:
        while text is None or text not in self.shown:
            ready, _, _ = select.select([self._ours], [], [], SECONDS)
            assert ready, f"nothing new was shown for {SECONDS} s: {self.shown}"
            try:
                read = os.read(self._ours, 65_536)
            except OSError:
                # On Linux this error means that the other end of the terminal is closed.
                read = b""
            if not read:
                assert text is None, f"{text!r} was never shown: {self.shown}"
                return
            self.shown += CONTROL.sub("", read.decode())

    def press_ctrl_c(self) -> None:
        os.write(self._ours, b"\x03")

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def hang_up(self) -> None:
        """Close the other end, as a dropped connection does."""
        os.close(self._ours)
        self._ours = -1

    def close(self) -> None:
        self.process.kill()
        self.process.wait(timeout=10)
        if self._ours >= 0:
            os.close(self._ours)
