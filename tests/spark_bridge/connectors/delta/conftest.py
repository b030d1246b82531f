"""The folder of a table."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """The folder of a table that is not there yet."""
    return tmp_path / "table"
