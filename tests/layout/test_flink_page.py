"""The page on Flink's mechanisms agrees with the source: the names in it exist, and every row is complete."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pkgutil import resolve_name

import pytest

from tests.conformance.case_files import known_cases
from tests.conformance.differences import DIFFERENCES
from tests.conformance.not_applicable import NOT_APPLICABLE
from tests.layout.flink_page import HEADER, LINES, ROWS, TABLES
from tests.layout.sources import ROOT

CLAIM = re.compile(r"as in (?:newer )?flink\b(?: \d\.\d)?(?P<shown> \((?:(?:, )?`[^`]+`)+\))?", re.IGNORECASE)


def is_there(name: str) -> bool:
    try:
        resolve_name(name)
    except (ImportError, AttributeError, ValueError):
        return False
    return True


def test_every_section_has_a_table_with_the_same_columns() -> None:
    sections = sum(line.startswith("## ") for line in LINES)

    assert TABLES.count(HEADER) == sections > 0


def test_every_row_has_three_nonempty_columns() -> None:
    assert [row for row in ROWS if len(row) != len(HEADER) or not all(row)] == []


def test_no_mechanism_is_named_twice() -> None:
    named = Counter(mechanism.lower() for mechanism, *_ in ROWS)

    assert [mechanism for mechanism, times in named.items() if times > 1] == []


@pytest.mark.slow
def test_every_named_location_can_be_imported() -> None:
    named = {name for _, place, *_ in ROWS for name in re.findall(r"`([^`]+)`", place)}

    assert sorted(name for name in named if not name.startswith("flykka.") or not is_there(name)) == []


def test_no_mechanism_is_pending() -> None:
    assert [line for line in LINES if "not yet" in line] == []


def test_a_location_is_a_list_of_names_or_marked_as_missing() -> None:
    names = re.compile(r"`[\w.]+`(, `[\w.]+`)*")

    assert [row for row in ROWS if not names.fullmatch(row[1]) and row[1] != "none"] == []


def test_mechanisms_marked_as_in_flink_name_a_case_or_test() -> None:
    claims = [(mechanism, claim["shown"]) for mechanism, _, rule in ROWS for claim in CLAIM.finditer(rule)]
    shown = cases_that_hold()

    assert len(claims) > 0
    assert [mechanism for mechanism, names in claims if names is None] == []
    wrong = [
        (mechanism, name)
        for mechanism, names in claims
        for name in re.findall(r"`([^`]+)`", names or "")
        if name not in shown and not is_test(name)
    ]
    assert wrong == []


def cases_that_hold() -> set[str]:
    return known_cases() - NOT_APPLICABLE.keys() - DIFFERENCES.keys()


def is_test(name: str) -> bool:
    """Return whether the name is `file::test` of a function that pytest collects."""
    path, _, test = name.partition("::")
    file = ROOT / "tests" / path
    if not file.is_file() or not test.startswith("test_"):
        return False
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return any(isinstance(node, functions) and node.name == test for node in tree.body)
