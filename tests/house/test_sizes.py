"""Files and functions stay small enough to be read at one sitting."""

from __future__ import annotations

import ast

import pytest

from tests.house.sources import Source, sources

LONGEST_FILE = 400
LONGEST_FUNCTION = 70


@pytest.mark.parametrize("source", sources(), ids=str)
def test_no_file_is_longer_than_400_lines_and_no_function_than_70(source: Source) -> None:
    functions = [node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]

    too_long = {
        f"{source}:{function.lineno} {function.name}": length
        for function in functions
        if (length := (function.end_lineno or function.lineno) - function.lineno + 1) > LONGEST_FUNCTION
    }

    assert len(source.text.splitlines()) <= LONGEST_FILE
    assert too_long == {}
