"""The end of a script, observed by code that runs after the script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

SCRIPT = """
import atexit, sys, threading
from flykka.api.end_of_script import EndOfScript

def begin():
    end = EndOfScript()
    atexit.register(lambda: print(end.was_reached()))

def main(code):
    begin()
    return code

"""

ENDS = {
    "main(0)": True,
    "thread = threading.Thread(target=begin); thread.start(); thread.join()": True,
    "begin()\ntry:\n    sys.exit(1)\nexcept SystemExit:\n    pass": True,
    "begin()\n1 / 0": False,
    "begin()\nraise KeyboardInterrupt": False,
    "sys.exit(main(1))": False,
    "raise SystemExit(main(0))": False,
}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["as a file", "as a module"])
def test_a_script_has_ended_normally_unless_an_error_or_exit_ended_it(way: str, tmp_path: Path) -> None:
    for number, end in enumerate(ENDS):
        (tmp_path / f"script_{number}.py").write_text(SCRIPT + end)
    scripts = (
        [f"script_{number}.py"] if way == "as a file" else ["-m", f"script_{number}"] for number in range(len(ENDS))
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}

    runs = [
        subprocess.run(
            [sys.executable, *script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        for script in scripts
    ]

    said = dict(zip(ENDS, (run.stdout.strip() for run in runs), strict=True))
    assert said == {end: str(reached) for end, reached in ENDS.items()}
