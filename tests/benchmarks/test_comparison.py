"""Tests the comparison of outputs: every difference is reported."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.comparison import WrongResultError, check, check_closed_windows, result

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def write_output(folder: Path, *rows: tuple[int, int, int], unit: str = "us") -> Path:
    """Write an output folder with one file per row of (second, auction, bids)."""
    folder.mkdir()
    for number, (second, auction, bids) in enumerate(rows):
        start = NOON + timedelta(seconds=second)
        table = pa.table(
            {
                "window_start": pa.array([start], pa.timestamp(unit, tz="UTC")),
                "window_end": pa.array([start + timedelta(seconds=1)], pa.timestamp(unit, tz="UTC")),
                "auction": [auction],
                "bids": [bids],
                "highest_price": [7],
            }
        )
        pq.write_table(table, folder / f"part-{number}.parquet", use_deprecated_int96_timestamps=unit == "ns")
    return folder


def test_file_order_and_timestamp_format_are_ignored(tmp_path: Path) -> None:
    ours = result(write_output(tmp_path / "ours", (0, 1, 5), (1, 1, 6)))
    theirs = result(write_output(tmp_path / "theirs", (1, 1, 6), (0, 1, 5), unit="ns"))

    check("ours", ours, theirs)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param([(0, 1, 5)], id="a row is missing"),
        pytest.param([(0, 1, 5), (1, 1, 6), (1, 1, 6)], id="a duplicate row"),
        pytest.param([(0, 1, 5), (1, 1, 7)], id="a different number"),
        pytest.param([], id="empty output"),
    ],
)
def test_every_difference_is_refused(tmp_path: Path, found: list[tuple[int, int, int]]) -> None:
    batch = result(write_output(tmp_path / "batch", (0, 1, 5), (1, 1, 6)))

    ours = result(write_output(tmp_path / "ours", *found))

    with pytest.raises(WrongResultError, match=r"ours wrote \d rows and the batch 2; they part at row"):
        check("ours", ours, batch)


def test_an_engine_that_leaves_windows_open_lacks_only_the_last_two(tmp_path: Path) -> None:
    batch = result(write_output(tmp_path / "batch", *((second, 1, 5) for second in range(5))))
    three, two = (result(write_output(tmp_path / str(n), *((second, 1, 5) for second in range(n)))) for n in (3, 2))

    check_closed_windows("three", three, batch)

    with pytest.raises(WrongResultError):
        check_closed_windows("two", two, batch)
