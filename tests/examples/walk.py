"""Runs the commands of a docs page in order in a separate folder, and checks that they print the output on the page.

    python -m tests.examples.walk docs/finding_a_bug.md

writes the commands' current output into the page.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree, ignore_patterns
from tempfile import TemporaryDirectory

from tests.layout.sources import ROOT

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
_DIFFERS = re.compile(r"\bin \d[\d.,]* ?(ms|s)\b|\([\d,]+ per second\)|(?<=\bflykka/)[\w/]+\.py:\d+")
_PROGRAM = "import sys\nfrom flykka.cli.main import main\nsys.exit(main())\n"
_OF_ANY_SHELL = ("HOME", "LANG", "LC_ALL", "TMPDIR")
LONG_ENOUGH = 120


@dataclass(frozen=True, slots=True)
class Step:
    command: str
    printed: str

    def prints(self, now: str) -> bool:
        """Return whether the output is the page's, ignoring durations and line numbers of flykka's own code."""
        return _DIFFERS.sub("#", self.printed) == _DIFFERS.sub("#", now)


def steps(page: Path) -> list[Step]:
    return [step for block in _BLOCK.findall(page.read_text(encoding="utf-8")) for step in _steps(block)]


def _steps(block: str) -> list[Step]:
    commands: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            commands.append((line.removeprefix("$ "), []))
        elif line.startswith("> ") and not commands[-1][1]:
            commands[-1] = (f"{commands[-1][0]}\n{line.removeprefix('> ')}", [])
        else:
            commands[-1][1].append(f"{line}\n")
    return [Step(command, "".join(printed)) for command, printed in commands]


class Walk:
    """A folder with the files of an example, and a shell in it that knows `flykka` and `python`."""

    def __init__(self, folder: Path, example: Path) -> None:
        self.folder = folder / "walk"
        copytree(example, self.folder, ignore=ignore_patterns("__pycache__"))
        tools = folder / "bin"
        tools.mkdir()
        # As in an installed package, the program is in another folder, so that the working folder is not on the
        # import path.
        (tools / "command_line.py").write_text(_PROGRAM, encoding="utf-8")
        for name, words in {"flykka": f"{tools / 'command_line.py'}", "python": ""}.items():
            (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n', encoding="utf-8")
            (tools / name).chmod(0o755)
        path = os.pathsep.join([str(tools), os.environ["PATH"]])
        settings = {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", "COLUMNS": "120"}
        # Only a reader's environment is passed. With CI set, for example, pytest prints failures in full.
        kept = {name: os.environ[name] for name in _OF_ANY_SHELL if name in os.environ}
        self.environment = {**kept, **settings, "PATH": path}

    def run(self, command: str) -> str:
        ran = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONG_ENOUGH,
            check=False,
        )
        return ran.stdout


def rewrite(page: Path, example: Path) -> None:
    with TemporaryDirectory() as folder:
        walk = Walk(Path(folder), example)

        def run(block: re.Match[str]) -> str:
            shown = (
                f"$ {step.command.replace(chr(10), chr(10) + '> ')}\n{walk.run(step.command)}"
                for step in _steps(block[1])
            )
            return f"```console\n{''.join(shown)}```"

        page.write_text(_BLOCK.sub(run, page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    rewrite(Path(sys.argv[1]), ROOT / "examples" / "planted_bug")
