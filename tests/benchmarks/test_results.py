"""Tests the printed medians, ratios and peaks."""

from __future__ import annotations

from benchmarks.contestant import Run
from benchmarks.engines import EngineName
from benchmarks.results import as_json, as_table
from benchmarks.rules import Rules

ROWS = 1_200
RUNS = {
    (EngineName.SPARK_BATCH, 100): [Run(seconds=1.0, checkpoints=None, peak_bytes=None)],
    (EngineName.STRUCTURED_STREAMING, 100): [Run(seconds=6.0, checkpoints=12, peak_bytes=3 << 20)],
    (EngineName.FLYKKA, 100): [
        Run(seconds=2.0, checkpoints=6, peak_bytes=1 << 20),
        Run(seconds=9.0, checkpoints=5, peak_bytes=2 << 20),
        Run(seconds=1.0, checkpoints=7, peak_bytes=1 << 20),
    ],
}


def test_the_json_has_medians_ratios_peaks_and_checkpoints_per_run() -> None:
    report = as_json(RUNS, ROWS)

    assert report == {
        "100": {
            "spark_batch": 1_200,
            "structured_streaming": 200,
            "flykka": 600,
            "flykka_over_structured_streaming": 3.0,
            "flykka_over_spark_batch": 0.5,
            "peak_memory_bytes": {"spark_batch": None, "structured_streaming": 3 << 20, "flykka": 2 << 20},
            "checkpoints_completed": {"structured_streaming": [12], "flykka": [6, 5, 7]},
        }
    }


def test_the_table_shows_the_same_figures() -> None:
    rules = Rules(
        rows=ROWS, files=2, sizes=(100,), engines=tuple(EngineName), repeat=3, checkpoints_at_least=5, heap="1g"
    )

    table = as_table(as_json(RUNS, ROWS), rules)

    assert table.startswith("1,200 bids in 2 files, medians of 3, ")
    assert [line for line in table.splitlines() if "100 |" in line] == [
        "| 100 | flykka, exactly once, a checkpoint per second | 600 |  | 2 MiB | 5 |",
        "| 100 | Structured Streaming, a checkpoint per batch | 200 | 3.00 | 3 MiB | 12 |",
        "| 100 | plain Spark batch | 1,200 | 0.50 |  |  |",
    ]
