"""Tests the Nexmark benchmark: the comparison of outputs, the figures, and a run with few events."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.engines import EngineName
from benchmarks.nexmark.__main__ import Measured, as_json, main
from benchmarks.nexmark.spark_batch_side import differences

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLYKKA, STRUCTURED_STREAMING, SPARK_BATCH = EngineName.FLYKKA, EngineName.STRUCTURED_STREAMING, EngineName.SPARK_BATCH

EVENTS = 600_000
"""One minute of events."""

Q12 = "bidder long, bid_count long, starttime timestamp, endtime timestamp"


def write_parquet(spark: SparkSession, folder: Path, schema: str, *rows: tuple[object, ...]) -> Path:
    spark.createDataFrame(list(rows), schema).write.parquet(str(folder))
    return folder


def window_of_bids(bidder: int, second: int, bids: int = 1) -> tuple[object, ...]:
    start = datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)
    return bidder, bids, start, start + timedelta(seconds=10)


@pytest.mark.spark
@pytest.mark.slow
def test_row_order_and_batch_folders_are_not_differences(spark: SparkSession, tmp_path: Path) -> None:
    expected = write_parquet(
        spark, tmp_path / "expected", Q12, window_of_bids(1, 0), window_of_bids(1, 0), window_of_bids(2, 30)
    )
    write_parquet(spark, tmp_path / "found" / "batch-0", Q12, window_of_bids(2, 30))
    write_parquet(spark, tmp_path / "found" / "batch-1", Q12, window_of_bids(1, 0), window_of_bids(1, 0))

    assert differences(spark, "q12", tmp_path / "found", expected, EVENTS, closed=False) is None


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "what"),
    [
        ([window_of_bids(1, 0)], "wrote 1 rows and the batch 2"),
        ([window_of_bids(1, 0)] * 2, "wrote 2 rows and the batch 2, and not the same"),
        pytest.param(
            [window_of_bids(1, 0), window_of_bids(2, 30), window_of_bids(2, 30)],
            "wrote 3 rows and the batch 2",
            marks=pytest.mark.long,
        ),
    ],
)
def test_missing_wrong_and_surplus_rows_are_differences(
    spark: SparkSession, tmp_path: Path, rows: list[tuple[object, ...]], what: str
) -> None:
    expected = write_parquet(spark, tmp_path / "expected", Q12, window_of_bids(1, 0), window_of_bids(2, 30))
    output = write_parquet(spark, tmp_path / "found", Q12, *rows)

    assert differences(spark, "q12", output, expected, EVENTS, closed=False) == what


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("last", "is_left_out"), [(31, True), pytest.param(30, False, marks=pytest.mark.long)])
def test_windows_of_the_last_twenty_seconds_are_ignored_if_they_stay_open(
    spark: SparkSession, tmp_path: Path, last: int, is_left_out: bool
) -> None:
    expected = write_parquet(spark, tmp_path / "expected", Q12, window_of_bids(1, 0), window_of_bids(1, last))
    output = write_parquet(spark, tmp_path / "found", Q12, window_of_bids(1, 0))

    assert (differences(spark, "q12", output, expected, EVENTS, closed=True) is None) is is_left_out
    assert differences(spark, "q12", output, expected, EVENTS, closed=False) is not None


@pytest.mark.spark
@pytest.mark.slow
def test_only_the_newest_of_repeatedly_emitted_rows_is_compared(spark: SparkSession, tmp_path: Path) -> None:
    q17 = "auction long, day string, total_bids long"
    expected = write_parquet(spark, tmp_path / "expected", q17, (1, "a", 3), (2, "a", 1))
    output = write_parquet(spark, tmp_path / "found", q17, (1, "a", 2), (2, "a", 1), (1, "a", 3))

    assert differences(spark, "q17", output, expected, EVENTS, closed=False) is None


def test_figures_are_medians_or_null_for_unsupported_queries() -> None:
    measured = {
        "q0": Measured(seconds={FLYKKA: [1, 3, 2], STRUCTURED_STREAMING: [8], SPARK_BATCH: [1]}),
        "q1": Measured(seconds={FLYKKA: [2], STRUCTURED_STREAMING: [2], SPARK_BATCH: [1]}),
        "q6": Measured(seconds={SPARK_BATCH: [4]}, not_run={FLYKKA: "no", STRUCTURED_STREAMING: "never"}),
    }

    assert as_json(measured, 400) == {
        "q0": {"flykka": 200, "structured_streaming": 50, "spark_batch": 400},
        "q1": {"flykka": 200, "structured_streaming": 200, "spark_batch": 400},
        "q6": {"flykka": None, "structured_streaming": None, "spark_batch": 100},
        "geometric_mean_over_structured_streaming": 2.0,
        "queries_equal_to_batch": 2,
        "not_run": {"flykka": {"q6": "no"}, "structured_streaming": {"q6": "never"}},
    }


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_nexmark_benchmark_compares_all_engines_and_prints_json(
    capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("nexmark")))
    few = ["--events", "400000", "--files", "8", "--rows-per-batch", "100000", "--repeat", "1", "--heap", "1g"]

    code = main([*few, "--only", "q2,q6,q12", "--json"])

    printed, errors = capsys.readouterr()
    assert code == 0, errors
    report = json.loads(printed)
    assert all(report[query][name] > 0 for query in ("q2", "q12") for name in EngineName)
    assert report["q6"]["structured_streaming"] is None
    assert "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING" in report["not_run"]["structured_streaming"]["q6"]
    assert report["queries_equal_to_batch"] >= 2
    assert report["geometric_mean_over_structured_streaming"] > 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--only", "q0,q23"], "there is no query q23, but q0 to q22"),
        (["--events", "1000"], "400,000 events are the fewest"),
        (["--files", "1"], "give it more --files"),
    ],
)
def test_invalid_nexmark_benchmark_options_are_refused_at_once(
    capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)

    assert complaint in capsys.readouterr().err
