"""Apps and inputs of the `flykka run` processes of these tests."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flykka.cli.main import main
from tests.flykka.cli.shell import Shell


@pytest.fixture
def arrivals(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table({"id": list(range(10))}), folder / "numbers.parquet")
    return folder


@pytest.fixture
def flykka_trace(capfd: pytest.CaptureFixture[str]) -> Shell:
    def run(*words: str | Path) -> tuple[int, str, str]:
        try:
            code = main(["trace", *map(str, words)])
        except SystemExit as usage:
            code = usage.code if isinstance(usage.code, int) else 3
        out, err = capfd.readouterr()
        return code, out, err

    return run
