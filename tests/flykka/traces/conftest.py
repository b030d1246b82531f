"""Fixtures for tests that read traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flykka.traces.recording import Recording


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return Recording(tmp_path / "run.trace")
