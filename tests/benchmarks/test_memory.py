"""Tests the memory figures of a process and its children."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.memory import PeakMemory, process_tree, resident_bytes

pytestmark = pytest.mark.skipif(not Path("/proc").exists(), reason="needs Linux's /proc")

TAKES_50_MIB = "import sys; block = bytearray(50 << 20); print(flush=True); sys.stdin.read()"


@pytest.mark.slow
def test_the_memory_of_child_processes_is_included() -> None:
    before = resident_bytes(process_tree(os.getpid()))
    with subprocess.Popen([sys.executable, "-c", TAKES_50_MIB], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()

        during = resident_bytes(process_tree(os.getpid()))

        child.stdin.close()
    assert during - before > 50 << 20


def test_the_peak_is_at_least_the_current_memory() -> None:
    with PeakMemory(os.getpid()) as memory:
        pass

    assert memory.bytes is not None
    assert memory.bytes > 1 << 20
