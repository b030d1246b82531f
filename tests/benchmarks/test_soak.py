"""Tests the benchmark of long runs: figures are computed for their time spans, and wrong output is refused."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.comparison import TIME, WrongResultError
from benchmarks.latency.files import BEGIN_MS, ROWS_PER_FILE, Feed
from benchmarks.processes import open_files, threads
from benchmarks.soak.__main__ import main
from benchmarks.soak.figures import Comparison, Recorded, Schedule, as_json, as_table
from benchmarks.soak.input import Arriving
from benchmarks.soak.output import Output

FEED = Feed(files=8, files_per_s=4)
"""A feed of two windows of four files."""


def write_windows(folder: Path, name: str, *windows: tuple[int, int]) -> None:
    """Write an output file with one row per window: its start in seconds after `BEGIN_MS`, and its row count."""
    starts = pa.array([1000 * (BEGIN_MS + 1000 * second) for second, _ in windows]).cast(TIME)
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"window_start": starts, "n": [rows for _, rows in windows]}), folder / f"{name}.parquet")


def recorded_figures(schedule: Schedule, **figures: list[tuple[float, float]]) -> Recorded:
    recorder = Recorded(schedule)
    for name, points in figures.items():
        for second, figure in points:
            recorder.note(second, {name: figure})
    return recorder


def test_the_fourth_minute_is_compared_with_the_last() -> None:
    schedule = Schedule.of(1800)

    assert (schedule.sample_s, schedule.settled_s, schedule.last_s) == (10, 180, 1740)


def test_a_short_run_is_compared_with_its_own_earlier_part() -> None:
    schedule = Schedule.of(60)

    assert (schedule.span_s, schedule.settled_s, schedule.last_s) == (15, 30, 45)


def test_figures_are_medians_of_their_spans_and_stable_within_five_percent() -> None:
    schedule = Schedule.of(1800)
    run = recorded_figures(
        schedule,
        driver_threads=[(10, 99), (180, 20), (190, 22), (230, 20), (240, 90), (1740, 21), (1750, 21), (1790, 90)],
        jvm_threads=[(180, 100), (1740, 106)],
        stored_blocks=[(180, 0), (1740, 1)],
        latency_ms=[(180, 100)],
    )

    compared = run.compared()

    assert compared == {
        "driver_threads": Comparison(early=20, late=21),
        "jvm_threads": Comparison(early=100, late=106),
        "stored_blocks": Comparison(early=0, late=1),
    }
    assert [each.holds for each in compared.values()] == [True, False, False]
    assert [each.ratio for each in compared.values()] == [1.05, 1.06, None]


def test_json_and_table_show_whether_each_figure_is_stable() -> None:
    run = recorded_figures(
        Schedule.of(240), jvm_resident_bytes=[(1, 7 << 20), (120, 100 << 20), (180, 110 << 20)], batch_ms=[(121, 50.0)]
    )

    report = as_json(run, 9600)

    assert report["figures"] == {
        "jvm_resident_bytes": {"early": 100 << 20, "late": 110 << 20, "ratio": 1.1, "holds": False}
    }
    assert report["by_span"]["jvm_resident_bytes"] == [7 << 20, None, 100 << 20, 110 << 20]
    assert as_table(report).splitlines()[-1] == "| JVM, resident memory | 100 MiB | 110 MiB | 1.10 | no |"


def test_output_is_counted_as_it_arrives_and_deleted(tmp_path: Path) -> None:
    output = Output(tmp_path, FEED)

    write_windows(tmp_path, "a", (0, 3 * ROWS_PER_FILE), (1, ROWS_PER_FILE))
    output.read()
    assert (output.committed_at(0), list(tmp_path.iterdir())) == (None, [])

    write_windows(tmp_path, "b", (0, ROWS_PER_FILE), (1, 3 * ROWS_PER_FILE))
    now = time.time()
    output.read()

    output.check_whole()
    assert output.committed_at(0) == pytest.approx(now, abs=5)


def test_duplicate_rows_are_refused_even_if_the_first_were_deleted(tmp_path: Path) -> None:
    output = Output(tmp_path, FEED)
    write_windows(tmp_path, "a", (0, 4 * ROWS_PER_FILE))
    output.read()

    write_windows(tmp_path, "b", (0, ROWS_PER_FILE))

    with pytest.raises(WrongResultError, match="has 5000 rows in the output, and 4000 are true"):
        output.read()


def test_rows_from_no_input_file_are_refused(tmp_path: Path) -> None:
    write_windows(tmp_path, "a", (2, ROWS_PER_FILE))

    with pytest.raises(WrongResultError, match="is in the output, and has no rows"):
        Output(tmp_path, FEED).read()


def test_missing_rows_are_refused(tmp_path: Path) -> None:
    write_windows(tmp_path, "a", (0, 4 * ROWS_PER_FILE))
    output = Output(tmp_path, FEED)
    output.read()

    with pytest.raises(WrongResultError, match="is not complete in the output, nor are 0 others"):
        output.check_whole()


@pytest.mark.slow
def test_all_files_arrive_on_time(tmp_path: Path) -> None:
    feed = Feed(files=450, files_per_s=900)

    with Arriving(feed, tmp_path) as arriving:
        while arriving.wait_until(0.1):
            pass

    assert list(arriving.arrivals) == list(range(450))
    # Two of the three portions are due within the first half second.
    assert arriving.arrivals[449] - arriving.begun >= 0.4
    assert pq.read_metadata(feed.file(tmp_path, 449)).num_rows == ROWS_PER_FILE


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs Linux's /proc")
def test_open_files_of_a_process_are_counted(tmp_path: Path) -> None:
    before = open_files(os.getpid())
    with (tmp_path / "file").open("w"):
        assert open_files(os.getpid()) == before + 1

    assert threads(os.getpid()) >= 1


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_the_benchmark_counts_every_file_once_and_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--minutes", "0.3", "--files-per-s", "8", "--json"])

    printed, errors = capsys.readouterr()
    assert code == 0, errors
    report = json.loads(printed)
    assert report["files"] == 144
    assert report["figures"]["live_heap_bytes"]["early"] > 1 << 20
    assert {"latency_ms", "jvm_threads", "checkpoint_files"} <= report["figures"].keys()
