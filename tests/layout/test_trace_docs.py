"""The pages about traces and simulation agree with the product: recorded effects, drawn faults and monitored laws."""

from __future__ import annotations

import re

from flykka import FaultKind
from flykka.monitors.monitors import all_monitors
from tests.layout.sources import ROOT


def codes_of_tables(page: str) -> set[str]:
    """Return the first cells of the rows of a page's tables, if they begin with code."""
    return set(re.findall(r"^\| `([^`]+)`", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.M))


def test_every_kind_of_fault_is_documented() -> None:
    assert {str(kind) for kind in FaultKind} - codes_of_tables("simulation.md") == set()


def test_every_monitor_is_documented() -> None:
    assert {monitor.name for monitor in all_monitors()} - codes_of_tables("simulation.md") == set()  # type: ignore[attr-defined]
