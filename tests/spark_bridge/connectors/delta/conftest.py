"""Fixture for the folder of a table."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A folder without a table."""
    return tmp_path / "table"
