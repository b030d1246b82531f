"""Tests that the examples of the actor kernel succeed and print the text in their docstrings, each in its own
interpreter.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.layout.sources import ROOT

EXAMPLES = sorted((ROOT / "examples" / "actors").glob("*.py"))
LONG_ENOUGH = 30


def promised_output(example: Path) -> str:
    docstring = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8"))) or ""
    _, marker, output = docstring.partition("\nPrints:\n")
    assert marker, f"the docstring of {example.name} does not say what it prints, under a line 'Prints:'"
    return dedent(output).strip("\n") + "\n"


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_exactly_its_promised_output(example: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}

    run = subprocess.run(
        [sys.executable, example],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LONG_ENOUGH,
        check=False,
    )

    assert run.stderr == ""
    assert run.stdout == promised_output(example)
    assert run.returncode == 0


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_documents_how_to_start_it(example: Path) -> None:
    docstring = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8"))) or ""

    assert f"\n    python examples/actors/{example.name}\n" in docstring
