"""Tests the page about finding a planted bug: its commands print its text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.walk import Walk, steps
from tests.layout.sources import ROOT

PAGE = ROOT / "docs" / "finding_a_bug.md"
WALK_AGAIN = "if that is as it should be: python -m tests.examples.walk docs/finding_a_bug.md"


@pytest.mark.slow
@pytest.mark.long
def test_the_commands_of_the_bug_page_print_its_text(tmp_path: Path) -> None:
    walk = Walk(tmp_path, ROOT / "examples" / "planted_bug")

    for step in steps(PAGE):
        printed = walk.run(step.command)

        assert step.prints(printed), f"$ {step.command}\n{printed}\n{WALK_AGAIN}"
