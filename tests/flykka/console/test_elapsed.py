"""Work of several seconds is announced, counted on a terminal, and reported when it is done."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import pytest
from rich.console import Console as RichConsole

from flykka.console.live import elapsed


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def clock(*seconds: float) -> Callable[[], float]:
    """Return a clock that returns these values in turn, and then the last one forever."""
    shown = list(seconds)
    return lambda: shown.pop(0) if len(shown) > 1 else shown[0]


def test_plain_output_has_a_first_and_a_last_line() -> None:
    file = StringIO()

    with elapsed(RichConsole(file=file), "starting Spark", "Spark is up", clock(100.0, 104.23)):
        begun = file.getvalue()

    assert begun == "starting Spark\n"
    assert file.getvalue() == "starting Spark\nSpark is up after 4.2 s\n"


def test_a_terminal_counts_seconds_in_a_temporary_line() -> None:
    file = _Terminal()
    output = RichConsole(file=file, force_terminal=True, color_system=None, width=60)

    with elapsed(output, "starting Spark", "Spark is up", clock(100.0, 103.1)):
        counted = file.getvalue()

    assert "starting Spark  3 s" in counted
    *_, last = file.getvalue().split("\x1b[2K")
    assert last.endswith("Spark is up after 3.1 s\n")
    assert "starting Spark" not in last


def test_failed_work_is_not_reported_as_done() -> None:
    file = StringIO()

    with pytest.raises(ValueError, match="no Java"), elapsed(RichConsole(file=file), "starting Spark", "Spark is up"):
        raise ValueError("no Java")

    assert file.getvalue() == "starting Spark\n"
