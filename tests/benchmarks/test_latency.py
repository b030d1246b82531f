"""Tests the latency benchmark as users start it, with few files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.comparison import TIME, WrongResultError
from benchmarks.latency.__main__ import Contender, Latencies, Setting, as_json, main
from benchmarks.latency.files import BEGIN_MS, ROWS_PER_FILE, Feed
from benchmarks.latency.structured_streaming_side import committed
from benchmarks.latency.worker import Side
from benchmarks.latency.works import Committed, WorkName, committed_files

STATELESS = Setting(work=WorkName.STATELESS, files_per_s=4.0, sources=1)
OURS = Contender(side=Side.FLYKKA, interval="200ms")
THEIRS = Contender(side=Side.STRUCTURED_STREAMING)


def committed_output(place: Path, at: float, **columns: pa.Array) -> Committed:
    path = place / f"{at}.parquet"
    pq.write_table(pa.table(columns), path)
    return Committed(at=at, files=(path,))


def of_files(place: Path, at: float, *numbers: int, rows: int = ROWS_PER_FILE) -> Committed:
    return committed_output(place, at, file=pa.array([number for number in numbers for _ in range(rows)]))


def test_files_are_delivered_to_sources_in_turn_and_in_order(tmp_path: Path) -> None:
    feed = Feed(files=4, files_per_s=1000, sources=2)

    feed.prepare(tmp_path)
    feed.run(tmp_path)

    arrivals = feed.arrivals(tmp_path)
    assert sorted(path.name for path in (tmp_path / "source-1").iterdir()) == ["000001.parquet", "000003.parquet"]
    assert list(arrivals.values()) == sorted(arrivals.values())


def test_a_file_is_committed_with_its_last_row(tmp_path: Path) -> None:
    feed = Feed(files=3, files_per_s=4)
    half = ROWS_PER_FILE // 2
    written = [
        of_files(tmp_path, 1.0, 0),
        of_files(tmp_path, 2.0, 1, rows=half),
        of_files(tmp_path, 3.0, 1, rows=half),
        of_files(tmp_path, 4.0, 2, rows=half),
    ]

    assert committed_files(WorkName.STATELESS, feed, range(3), written) == {0: 1.0, 1: 3.0}


def test_duplicate_rows_invalidate_the_result(tmp_path: Path) -> None:
    written = [of_files(tmp_path, 1.0, 0), of_files(tmp_path, 2.0, 0)]

    with pytest.raises(WrongResultError, match="file 0 has 2000 rows in the output, and 1000 are true"):
        committed_files(WorkName.STATELESS, Feed(files=1, files_per_s=4), range(1), written)


def test_a_file_is_committed_with_its_window(tmp_path: Path) -> None:
    feed = Feed(files=8, files_per_s=4)
    starts = pa.array([1000 * BEGIN_MS] * 2).cast(TIME)
    written = [committed_output(tmp_path, 1.5, window_start=starts, n=pa.array([3 * ROWS_PER_FILE, ROWS_PER_FILE]))]

    assert committed_files(WorkName.WINDOWS, feed, [0, 3, 4], written) == {0: 1.5, 3: 1.5}


def test_the_log_of_structured_streaming_shows_committed_files(tmp_path: Path) -> None:
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    lines = [json.dumps({"path": f"file:///out/{name}", "action": "add"}) for name in ("a%20b", "c")]
    (log / "9.compact").write_text("\n".join(["v1", lines[0]]))
    (log / "10").write_text("\n".join(["v1", lines[0], lines[1]]))
    (log / ".10.crc").write_text("")

    files = [[str(path) for path in each.files] for each in committed(tmp_path)]

    assert files == [["/out/a b"], ["/out/c"]]


def test_the_ratios_are_computed_for_the_shortest_interval() -> None:
    measured = {
        STATELESS: {
            OURS: Latencies(seconds=(0.1, 0.2, 0.3)),
            Contender(side=Side.FLYKKA, interval="1s"): Latencies(seconds=(0.5, 0.6, 0.7)),
            THEIRS: Latencies(seconds=(0.4, 0.4, 0.4)),
        }
    }

    report = as_json(measured, {Side.FLYKKA: 90.0, Side.STRUCTURED_STREAMING: 60.0})

    assert report["stateless"] == {"p50_over_structured_streaming": 0.5, "p95_over_structured_streaming": 0.95}
    assert report["sustained_files_per_s_over_structured_streaming"] == 1.5
    assert report["seconds"]["stateless, 4 files/s, 1 source"]["flykka, 1s"]["p50"] == 0.6


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_the_latency_benchmark_checks_output_and_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--intervals", "200ms", "--rates", "4", "--sources", "1", "--seconds", "4", "--no-rise", "--json"])

    printed, errors = capsys.readouterr()
    assert code == 0, errors
    report = json.loads(printed)
    assert all(report[work]["p50_over_structured_streaming"] > 0 for work in WorkName)
