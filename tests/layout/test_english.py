"""Docstrings begin with a verb or with the name of the thing, and prose has no word that nobody says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.layout.sources import PRODUCT, ROOT, Source, sources

# It reads every file of the project, which `make quick` leaves to `make check`.
pytestmark = pytest.mark.slow

OPENING = re.compile(
    r"(anew|how|one|that|those|what|whatever|when|where|wherever|whether|which|who|whoever|whom|whose|why)\b", re.I
)
OPENING_OF_TESTS = re.compile(
    r"(anew|how|one (that|who|which)|those (that|who)|when|where|wherever|whether|which|who|whoever|whom|whose|why)\b",
    re.I,
)
"""Tests may say `what` they hold to, and speak of `one` of several."""
ODD = re.compile(r"\b(anew|whoever|whomever|henceforth|front door|of one's own|struck)\b", re.I)


WITH_RULED_OPENINGS = (*PRODUCT, "benchmarks", "examples")
THIS = "tests/layout/test_english.py"


def of_packages(*packages: str) -> list[Source]:
    return [source for source in sources() if source.package in packages]


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield each string that stands by itself: of modules, classes, functions, and of the fields above them."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str()) as text):
                yield text


def openings(opening: re.Pattern[str], *packages: str) -> list[str]:
    """The docstrings that begin so, with their places."""
    return [
        f"{source}:{text.lineno} {str(text.value).splitlines()[0]}"
        for source in of_packages(*packages)
        for text in docstrings(source.tree)
        if opening.match(str(text.value).lstrip())
    ]


def test_no_docstring_begins_with_a_question_word() -> None:
    assert openings(OPENING, *WITH_RULED_OPENINGS) == []


def test_no_docstring_of_the_tests_begins_with_a_question_word_but_what() -> None:
    assert openings(OPENING_OF_TESTS, "tests") == []


def test_no_word_is_used_that_nobody_says() -> None:
    wrong = [
        f"{source}:{number} {line.strip()}"
        for source in sources()
        if str(source) != THIS
        for number, line in enumerate(source.text.splitlines(), 1)
        if ODD.search(line.replace("_", " "))
    ]

    assert wrong == []


def test_no_page_of_the_docs_uses_a_word_that_nobody_says() -> None:
    wrong = [
        f"{page.name}:{number} {line.strip()}"
        for page in sorted((ROOT / "docs").glob("*.md"))
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if ODD.search(line)
    ]

    assert wrong == []


def test_all_packages_are_read() -> None:
    assert {source.package for source in sources()} >= {*WITH_RULED_OPENINGS, "tests"}
