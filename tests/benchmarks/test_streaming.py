"""Tests the streaming benchmark as users start it, with few bids."""

from __future__ import annotations

import json

import pytest

from benchmarks.streaming import main


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_the_streaming_benchmark_compares_all_engines_and_prints_json(
    capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("bids")))
    few = ["--rows", "40000", "--files", "4", "--rows-per-batch", "20000", "--repeat", "1"]

    code = main([*few, "--checkpoints-at-least", "1", "--json"])

    printed, errors = capsys.readouterr()
    assert code == 0, errors
    report = json.loads(printed)["20000"]
    assert report.keys() == {
        "spark_batch",
        "structured_streaming",
        "flykka",
        "flykka_over_structured_streaming",
        "flykka_over_spark_batch",
        "peak_memory_bytes",
        "checkpoints_completed",
    }
    assert all(report[name] > 0 for name in ("spark_batch", "structured_streaming", "flykka"))
    assert min(report["checkpoints_completed"]["flykka"]) >= 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--rows", "0"], "0 is not a positive number"),
        (["--rows-per-batch", "many"], "argument --rows-per-batch"),
        (["--only", "flink"], "argument --only"),
        (["--rows", "100", "--files", "1", "--rows-per-batch", "10"], "100 rows do not fit in a batch"),
    ],
)
def test_invalid_streaming_benchmark_options_are_refused_at_once(
    capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)

    assert complaint in capsys.readouterr().err
