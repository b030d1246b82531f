"""A reader may leave before the end, or not know every character: the jobs go on."""

from __future__ import annotations

import subprocess
import sys
from io import BytesIO, TextIOWrapper

import pytest

from flykka.console.output import Output
from tests.house.sources import HOUSE

TALKATIVE = """
from flykka.console.output import Output
output = Output()
input()
for number in range(3):
    output.print(number)
    print(number, flush=True)
raise SystemExit(7)
"""


@pytest.mark.slow
def test_a_program_goes_on_when_nobody_reads_it_any_more() -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", TALKATIVE],
        cwd=HOUSE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    program.stdout.close()

    _, said = program.communicate("\n", timeout=60)

    assert (program.returncode, said) == (7, "")


def test_a_character_that_the_encoding_does_not_know_is_written_as_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    written = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(written, encoding="ascii"))

    Output().print("job in Zürich")
    sys.stdout.flush()

    assert written.getvalue() == rb"job in Z\xfcrich" + b"\n"
