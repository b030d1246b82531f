"""Files and functions stay small enough to be read at one sitting."""

from __future__ import annotations

import pytest

from tests.layout.sources import sources

# It reads every file of the project, which `make quick` leaves to `make check`.
pytestmark = pytest.mark.slow

LONGEST_FILE = 400
LONGEST_FUNCTION = 70


def test_no_file_is_longer_than_400_lines() -> None:
    lengths = {str(source): len(source.text.splitlines()) for source in sources()}

    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_no_function_is_longer_than_70_lines() -> None:
    too_long = [
        f"{source}:{line} {name}: {lines} lines"
        for source in sources()
        for line, name, lines in source.functions
        if lines > LONGEST_FUNCTION
    ]

    assert too_long == []
