"""Jobs continue if the reader of the output closes it early, if a terminal disappears, or if a character cannot be
encoded.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper

import pytest

from flykka.console.output import lasting_output
from tests.layout.sources import ROOT

TALKATIVE = """
import logging, os, subprocess, sys
from flykka.console.output import lasting_output
input()
with lasting_output():
    for number in range(3):
        print(number, flush=True)
        print("a warning", file=sys.stderr)
        logging.warning("another one")
    subprocess.run(["echo", "from a child"], check="a child may fail" not in sys.argv)
raise SystemExit(7)
"""


def talkative(*options: str, output: int, error: int, argument: str = "") -> subprocess.Popen[str]:
    words = [sys.executable, *options, "-c", TALKATIVE, argument]
    return subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=output, stderr=error, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-u",)], ids=["buffered", "unbuffered"])
def test_a_program_continues_after_its_reader_has_left(options: tuple[str, ...]) -> None:
    program = talkative(*options, output=subprocess.PIPE, error=subprocess.PIPE)
    assert program.stdout is not None
    program.stdout.close()

    _, said = program.communicate("\n", timeout=60)

    assert (program.returncode, said.splitlines()) == (7, ["a warning", "WARNING:root:another one"] * 3)


@pytest.mark.slow
def test_a_program_continues_after_its_terminal_has_disappeared() -> None:
    ours, theirs = os.openpty()
    program = talkative(output=theirs, error=theirs)
    os.close(theirs)
    os.close(ours)

    program.communicate("\n", timeout=60)

    assert program.returncode == 7


HURRIED = """
import threading
from flykka.console.output import lasting_output
hurry = threading.Event()
hurry.set()
with lasting_output(hurry):
    for number in range(10_000):
        print("more than a terminal or a pipe holds")
raise SystemExit(7)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "opened",
    [pytest.param(os.openpty, id="terminal", marks=pytest.mark.long), pytest.param(os.pipe, id="pipe")],
)
def test_an_ending_program_waits_a_limited_time_for_its_reader(opened: Callable[[], tuple[int, int]]) -> None:
    ours, theirs = opened()
    try:
        ended = subprocess.run([sys.executable, "-c", HURRIED], cwd=ROOT, stdout=theirs, timeout=60, check=False)
    finally:
        os.close(ours)
        os.close(theirs)

    assert ended.returncode == 7


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_program_continues_when_the_disk_is_full() -> None:
    with open("/dev/full", "w") as full:
        program = talkative(output=full.fileno(), error=full.fileno(), argument="a child may fail")

        program.communicate("\n", timeout=60)

    assert program.returncode == 7


def test_an_unencodable_character_is_written_as_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    written = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(written, encoding="ascii"))

    with lasting_output():
        print("job in Zürich")

    assert written.getvalue() == rb"job in Z\xfcrich" + b"\n"
