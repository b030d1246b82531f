"""The rows of the page about Flink's mechanisms."""

from __future__ import annotations

from tests.layout.sources import ROOT

HEADER = ["mechanism of Flink", "place", "rule or difference"]
LINES = (ROOT / "docs" / "flink.md").read_text(encoding="utf-8").splitlines()
TABLES = [[cell.strip() for cell in line.strip("|").split("|")] for line in LINES if line.startswith("|")]
ROWS = [row for row in TABLES if row != HEADER and set(row) != {"---"}]
"""The rows of the table: mechanism, locations and rule."""
