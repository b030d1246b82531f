"""What the processes of `flykka run` read in these tests."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture
def arrivals(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table({"id": list(range(10))}), folder / "numbers.parquet")
    return folder
