"""Diverts output of other processes on our stderr, Spark's JVM and Python workers, away from the live view."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_STDERR = 2


@contextmanager
def diverted_stderr(say: Callable[[str], object]) -> Iterator[None]:
    """Hand every line that this process or a child writes on stderr to `say`, until the end of the `with`.

    A child that outlives it goes on writing into the pipe, which is not read then: it gets an error, and no signal.
    """
    sys.stderr.flush()
    original = os.dup(_STDERR)
    reading, writing = os.pipe()
    os.dup2(writing, _STDERR)
    os.close(writing)
    woken, wake = os.pipe()
    pump = threading.Thread(target=_pump, args=(reading, woken, say), name="stderr-lines", daemon=True)
    pump.start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(original, _STDERR)
        os.close(wake)
        pump.join()
        for descriptor in (original, reading, woken):
            os.close(descriptor)


def _pump(reading: int, woken: int, say: Callable[[str], object]) -> None:
    rest = b""
    ended = False
    while not ended:
        ready, _, _ = select.select([reading, woken], [], [])
        # What was written before the end is still said.
        ended = reading not in ready
        read = b"" if ended else os.read(reading, 65_536)
        ended = ended or not read
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            say(line.decode(errors="replace"))
    if rest:
        say(rest.decode(errors="replace"))
