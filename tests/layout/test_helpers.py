"""A helper of the tests has a descriptive name and is defined once."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from tests.layout.sources import sources

# This test reads every file of the project, so `make quick` leaves it to `make check`.
pytestmark = pytest.mark.slow

OFTEN = 4
DEFINED_MORE_OFTEN = {
    "main": 8,  # The entry points of programs.
    "run_case": 18,  # Each adapter of the conformance cases has one such function.
    "checkpoint_completed": 6,
    "timers": 5,
}
"""Names that are defined more often than allowed, with their number of definitions.

These numbers may only decrease.
"""


def is_fixture(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("fixture" in ast.unparse(decorator) for decorator in function.decorator_list)


def test_helpers_are_not_defined_repeatedly() -> None:
    defined = Counter(
        node.name
        for source in sources()
        if source.package == "tests"
        for node in source.tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_fixture(node)
    )

    often = {name: times for name, times in defined.items() if times > OFTEN and not name.startswith("test_")}
    assert often == DEFINED_MORE_OFTEN
