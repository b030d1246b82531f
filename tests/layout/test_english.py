"""Prose is plain English: in docstrings, comments, messages to users, names of tests, pages and commit subjects."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from functools import cache
from typing import Any

import pytest

from tests.layout.sources import PRODUCT, ROOT, script

# This test reads every file of the project, so `make quick` leaves it to `make check`.
pytestmark = pytest.mark.slow

PROSE: Any = script("prose")

OPENING = re.compile(
    r"(anew|how|one|that|those|what|whatever|when|where|wherever|whether|which|who|whoever|whom|whose|why)\b", re.I
)
OPENING_OF_TESTS = re.compile(
    r"(anew|how|one (that|who|which)|those (that|who)|when|where|wherever|whether|which|who|whoever|whom|whose|why)\b",
    re.I,
)
"""Docstrings of tests may begin with `what`, and may contain `one` for one of several."""
BANNED = re.compile(r"\b(anew|whoever|whomever|henceforth|front door|of one's own|struck)\b", re.I)

LIMITS = {
    "tell": 40,
    "say": 60,
    "behind": 45,
    "nobody": 10,
    "go on": 15,
    "where": 165,
    "who": 30,
    "none": 702,
    "is over": 10,
    "of which": 40,
    "what is": 30,
}
"""Limits for how often each habit of `scripts/prose.py` occurs. Lower a limit when its count has fallen; never raise a
limit.
"""
SLACK = 20
"""A limit is lowered when its count has fallen by more than this."""

HABITS_OF_SUBJECTS = ("tell", "say", "behind", "nobody", "go on")
FOLDERS = "|".join((*PRODUCT, "tests", "benchmarks", "examples", "scripts", "docs"))
PATH = re.compile(rf"(?<![\w./-])(?:{FOLDERS})/[\w./-]*\w/?(?![\w*<{{])")
"""Paths in prose: from the root, or from `tests/` or `flykka/`; a module's path may lack `.py`."""

SUBJECT = re.compile(r"[A-Z][a-z]+\b.*[^.]")


@cache
def all_prose() -> list[Any]:
    return list(PROSE.read_prose())


@cache
def counts() -> dict[str, Counter[str]]:
    counted: dict[str, Counter[str]] = PROSE.counts(all_prose())
    return counted


def openings(opening: re.Pattern[str], *packages: str) -> list[str]:
    return [
        f"{each.path}:{each.line} {each.text.splitlines()[0]}"
        for each in all_prose()
        if each.kind == "docstring" and each.path.split("/")[0] in packages and opening.match(each.text.lstrip())
    ]


def test_no_docstring_begins_with_a_question_word() -> None:
    assert openings(OPENING, *PRODUCT, "benchmarks", "examples") == []


def test_no_docstring_of_tests_begins_with_a_question_word_except_what() -> None:
    assert openings(OPENING_OF_TESTS, "tests") == []


def test_prose_has_no_banned_word() -> None:
    wrong = [f"{each.path}:{each.line} {each.text.strip()}" for each in all_prose() if BANNED.search(each.text)]

    assert wrong == []


@pytest.mark.parametrize("habit", LIMITS)
def test_a_habit_of_odd_prose_does_not_spread(habit: str) -> None:
    count = sum(counts()[habit].values())

    assert count <= LIMITS[habit], f"python scripts/prose.py --list {habit!r} shows the places"
    assert count > LIMITS[habit] - SLACK, "fewer than the limit allows: lower it"


def test_each_habit_has_a_limit() -> None:
    assert set(LIMITS) == set(PROSE.HABITS)


def test_paths_in_prose_exist() -> None:
    missing = [
        f"{each.path}:{each.line} {path}"
        for each in all_prose()
        if each.path != "CHANGELOG.md"
        for path in PATH.findall(each.text)
        if not any(
            (ROOT / base / f"{path.rstrip('/')}{end}").exists()
            for base in ("", "tests", "flykka")
            for end in ("", ".py")
        )
    ]

    assert missing == []


def test_subjects_of_commits_are_plain_sentences() -> None:
    odd = [
        subject
        for subject in commit_subjects()
        if not SUBJECT.fullmatch(subject) or any(habits_of(subject)[habit] for habit in HABITS_OF_SUBJECTS)
    ]

    assert odd == []


def habits_of(text: str) -> Counter[str]:
    habits: Counter[str] = PROSE.Prose("page", "", 0, text).habits()
    return habits


def commit_subjects() -> list[str]:
    """Return the subjects of the commits since the merge base with the main branch, at least the last one."""
    main = git("rev-parse", "--verify", "--quiet", "origin/main")
    base = git("merge-base", "HEAD", main) if main else ""
    commits = git("log", "--no-merges", "--format=%s", f"{base}..HEAD") if base else ""
    return (commits or git("log", "-1", "--format=%s")).splitlines()


def git(*arguments: str) -> str:
    """Return the output of git; empty if git fails, as it does outside a repository."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=False, capture_output=True, text=True)
    return done.stdout.strip()


def test_all_folders_are_read() -> None:
    assert {each.path.split("/")[0] for each in all_prose()} >= {
        *PRODUCT,
        "benchmarks",
        "examples",
        "tests",
        "README.md",
    }
