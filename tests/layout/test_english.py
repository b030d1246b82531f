"""Docstrings begin with a verb or with the name of the thing, and prose has no word that nobody says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.layout.sources import PRODUCT, ROOT, Source, sources

OPENING = re.compile(
    r"(anew|how|one|that|those|what|whatever|when|where|wherever|whether|which|who|whoever|whom|whose|why)\b", re.I
)
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


def test_no_docstring_begins_with_a_question_word() -> None:
    wrong = [
        f"{source}:{text.lineno} {str(text.value).splitlines()[0]}"
        for source in of_packages(*WITH_RULED_OPENINGS)
        for text in docstrings(source.tree)
        if OPENING.match(str(text.value).lstrip())
    ]

    assert wrong == []


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
