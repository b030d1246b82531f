"""A reader may leave before the end."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
