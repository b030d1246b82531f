"""Tests the backlog benchmark as users start it, with few lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.backlog.__main__ import as_json, main
from benchmarks.backlog.engines import EngineName
from benchmarks.backlog.logs import write


def test_lines_are_distributed_over_files_deterministically(tmp_path: Path) -> None:
    for name in ("one", "again"):
        write(tmp_path / name, rows=10, files=3)

    files = sorted((tmp_path / "one").glob("*.json"))

    assert [len(path.read_text().splitlines()) for path in files] == [3, 3, 4]
    assert [path.read_text() for path in files] == [(tmp_path / "again" / path.name).read_text() for path in files]
    assert (tmp_path / "one" / "_SUCCESS").exists()


def test_the_ratio_is_computed_from_medians() -> None:
    runs = {
        EngineName.FLYKKA: [10.0, 90.0, 12.0],
        EngineName.STRUCTURED_STREAMING: [24.0, 23.0, 60.0],
        EngineName.SPARK_BATCH: [9.0],
    }

    assert as_json(runs) == {
        "flykka_over_structured_streaming": 2.0,
        "seconds": {"flykka": 12.0, "structured_streaming": 24.0, "spark_batch": 9.0},
    }


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_the_backlog_benchmark_compares_output_and_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--rows", "4000", "--files", "8", "--repeat", "1", "--files-per-trigger", "4", "--json"])

    printed, errors = capsys.readouterr()
    assert code == 0, errors
    report = json.loads(printed)
    assert report["seconds"].keys() == set(EngineName)
    assert report["flykka_over_structured_streaming"] > 0
    assert report["flykka_over_structured_streaming_in_parts"] > 0


def test_invalid_backlog_benchmark_options_are_refused_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--files", "0"])

    assert "0 is not a positive number" in capsys.readouterr().err
