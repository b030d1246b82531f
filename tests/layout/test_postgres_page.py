"""The tables of supported PostgreSQL features: every row names an existing test, and the test uses the row's types."""

from __future__ import annotations

import ast
import re

import pytest

from tests.layout.sources import ROOT

TESTS = ROOT / "tests" / "spark_bridge" / "connectors" / "postgres"
PAGE = (ROOT / "docs" / "postgres.md").read_text(encoding="utf-8")
SUPPORTED = PAGE.partition("\n## What is supported\n")[2].partition("\n## ")[0]
TYPES_TEXT, _, SCENARIOS_TEXT = SUPPORTED.partition("### What happens to a table")


def lines_of(text: str) -> list[list[str]]:
    lines = (line for line in text.splitlines() if line.startswith("|") and "---" not in line)
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]


def rows_of_page(text: str) -> list[list[str]]:
    return [row for row in lines_of(text) if row[-1] != "test"]


TYPES, SCENARIOS = rows_of_page(TYPES_TEXT), rows_of_page(SCENARIOS_TEXT)


def functions_of(module: str) -> set[str]:
    tree = ast.parse((TESTS / f"{module}.py").read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def named_test(row: list[str]) -> tuple[str, str]:
    named = re.fullmatch(r"`(test_\w+)\.(test_\w+)`", row[-1])
    assert named is not None, f"names no test: {row}"
    return named[1], named[2]


def test_the_page_has_a_table_of_each_kind() -> None:
    headers = [row[0] for row in lines_of(SUPPORTED) if row[-1] == "test"]

    assert headers == ["type", "type", "scenario"]
    assert {len(row) for row in lines_of(SUPPORTED)} == {4}


@pytest.mark.parametrize("row", [*TYPES, *SCENARIOS], ids=lambda row: row[0])
def test_every_row_names_an_existing_test(row: list[str]) -> None:
    module, test = named_test(row)

    assert test in functions_of(module)


@pytest.mark.parametrize("row", TYPES, ids=lambda row: row[0])
def test_every_type_is_in_the_tests(row: list[str]) -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in TESTS.glob("test_*.py"))

    assert [kind for kind in re.findall(r"`([^`]+)`", row[0]) if kind not in text] == []


def test_no_scenario_is_named_twice() -> None:
    scenarios = [row[0] for row in SCENARIOS]

    assert len(scenarios) == len(set(scenarios))
