"""Tests the page on failures: its commands print the shown text, except for `...` and parts that differ from run to
run.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flykka.client.running_jobs import FOLDER_VARIABLE
from tests.examples.walk import Walk, steps
from tests.layout.sources import ROOT

PAGE = ROOT / "docs" / "failures.md"

DIFFERS = re.compile(
    r"\b[0-9a-f]{32}\b|part-[-\w]+|\bchk-\d+|\b(?:checkpoint|stage|restart|failure) \d+"
    r"|(?:/[\w.-]+)+(?=/(?:checkpoints|prices)\b)|\d[\d.,]*(?: min \d+)? ?(?:ms|s|B|KiB)\b|\d+ rows\b|\bnew\b.*"
)
"""Parts that differ from run to run: ids, the folder, durations and sizes, and the numbers of checkpoints and stages.
"""


def shows(page: str, printed: str) -> bool:
    """Return whether the page's lines are printed in order, with additional lines only at lines of dots."""
    patterns = [
        "(?:.*\n)*?" if line.strip() == "..." else f"{re.escape(mask_differences(line))}\n"
        for line in page.splitlines()
    ]
    return (
        re.fullmatch("".join(patterns), "".join(f"{line}\n" for line in mask_differences(printed).splitlines()))
        is not None
    )


def mask_differences(text: str) -> str:
    return re.sub(r" +", " ", DIFFERS.sub("#", text))


@pytest.mark.slow
@pytest.mark.long
def test_the_commands_of_the_failures_page_print_its_text(tmp_path: Path) -> None:
    walk = Walk(tmp_path, ROOT / "examples" / "failures")
    # Other processes on this machine may run jobs.
    walk.environment[FOLDER_VARIABLE] = str(tmp_path / "jobs")

    for step in steps(PAGE):
        printed = walk.run(step.command)

        assert shows(step.printed, printed), f"$ {step.command}\n{printed}\nthe page says:\n{step.printed}"


@pytest.mark.parametrize(
    ("page", "printed", "is_shown"),
    [
        ("a\n", "a\n", True),
        ("a\n", "b\n", False),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\nd\n", "a\nd\n", True),
        ("a\n...\n", "a\nb\nc\n", True),
        ("a\n...\n", "a\n", True),
        ("...\nd\n", "b\nc\n", False),
        ("for 41 s\n", "for 2.5 s\n", True),
        ("checkpoint 3 failed\n", "checkpoint 12 failed\n", True),
        ("a.b\n", "axb\n", False),
    ],
)
def test_dots_match_omitted_lines_and_durations_match_others(page: str, printed: str, is_shown: bool) -> None:
    assert shows(page, printed) is is_shown
