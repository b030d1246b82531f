"""`scripts/prose.py`: which text is prose, and which prose is counted as odd."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.layout.sources import script


@pytest.fixture
def prose() -> Any:
    return script("prose")


def texts(prose: Any, code: str) -> list[tuple[str, int, str]]:
    return [(each.kind, each.line, each.text) for each in prose.prose_of_python("flykka/a.py", code)]


def test_docstrings_comments_messages_and_names_of_tests_are_prose(prose: Any) -> None:
    code = (
        '"""A module."""\n'
        "LIMIT = 3\n"
        '"""The limit."""\n'
        "# Two lines\n"
        "# of one comment.\n"
        "def test_a_b():\n"
        '    raise ValueError(f"there is no {LIMIT} here")  # noqa: B904\n'
    )

    assert sorted(texts(prose, code), key=lambda each: each[1]) == [
        ("docstring", 1, "A module."),
        ("docstring", 3, "The limit."),
        ("comment", 4, "Two lines of one comment."),
        ("test name", 6, "a b"),
        ("message", 7, "there is no {} here"),
    ]


def test_short_strings_are_not_messages(prose: Any) -> None:
    assert texts(prose, "KEY = 'two words'\nNAME = f'{KEY}-name'\n") == []


def test_code_in_pages_is_not_prose(prose: Any) -> None:
    page = "# Title\n\nOne\nparagraph.\n\n```python\ntell(who)\n```\n- an entry\n  with `told`\n- another\n"

    assert [(each.line, each.text) for each in prose.prose_of_markdown("a.md", page)] == [
        (1, "# Title"),
        (3, "One paragraph."),
        (9, "- an entry with `told`"),
        (11, "- another"),
    ]


def test_the_separator_line_of_a_table_is_not_prose(prose: Any) -> None:
    page = "| option | default |\n|:---|---:|\n| `a` | none |\n\n---\n"

    assert [(each.line, each.text) for each in prose.prose_of_markdown("a.md", page)] == [
        (1, "| option | default |"),
        (3, "| `a` | none |"),
        (5, "---"),
    ]


@pytest.mark.parametrize(
    ("text", "habits"),
    [
        ("The actor is told where to go on.", {"tell": 1, "where": 1, "go on": 1}),
        ("Nobody went on; it is over.", {"nobody": 1, "go on": 1, "is over": 1}),
        ("Call `tell` and [behind](behind.md).", {"behind": 1}),
        ("A teller has foretold it.", {}),
    ],
)
def test_words_in_code_and_parts_of_words_are_not_counted(prose: Any, text: str, habits: dict[str, int]) -> None:
    assert +prose.Prose("docstring", "a.py", 1, text).habits() == Counter(habits)
