"""Tests the scaling benchmark: costs have the stated units, a plot shows the costs, and wrong output is refused."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest

from benchmarks.checkpoints.topologies import topology_named
from benchmarks.comparison import WrongResultError
from benchmarks.keyed.works import check
from benchmarks.latency.files import Feed
from benchmarks.scaling.__main__ import main
from benchmarks.scaling.curves import AXES, AxisName, Curve, as_json, as_table
from benchmarks.scaling.measuring import of_keys
from benchmarks.scaling.picture import picture

FLAT = Curve(axis=AxisName.FILES, seconds={100: 2.0, 200: 2.0, 400: 4.0})
RISING = Curve(axis=AxisName.TASKS, seconds={64: 0.0064, 128: 0.0128, 256: 0.0512})
SVG = "{http://www.w3.org/2000/svg}"


def test_a_cost_is_per_unit() -> None:
    assert FLAT.costs == {100: 20.0, 200: 10.0, 400: 10.0}
    assert Curve(axis=AxisName.ROWS, seconds={1_000_000: 3.0}).costs == {1_000_000: 0.5}
    assert Curve(axis=AxisName.KEYS, seconds={50_000: 0.6}).costs == {50_000: 2.0}
    assert Curve(axis=AxisName.PARALLELISM, seconds={2: 1.2}).costs == {2: 100.0}


def test_the_rise_of_a_curve_is_its_last_cost_over_its_least() -> None:
    assert [(curve.rise, curve.is_flat) for curve in (FLAT, RISING)] == [(1.0, True), (2.0, False)]


def test_a_falling_cost_counts_as_flat() -> None:
    curve = Curve(axis=AxisName.FILES, seconds={100: 2.0, 200: 2.1})

    assert (curve.rise, curve.is_flat) == (1.0, True)


def test_json_and_table_have_every_step() -> None:
    assert as_json([RISING]) == {
        "tasks": {
            "unit": "ms of a processor per task",
            "steps": [
                {"size": 64, "seconds": 0.0064, "cost": 0.1},
                {"size": 128, "seconds": 0.0128, "cost": 0.1},
                {"size": 256, "seconds": 0.0512, "cost": 0.2},
            ],
            "rise": 2.0,
            "flat": False,
        }
    }
    assert as_table([RISING]).splitlines()[-1] == (
        "| tasks of a checkpoint, 64 to 256 | ms of a processor per task | 0.1, 0.1, 0.2 | 2.00 | no |"
    )


def test_the_plot_has_one_line_per_curve_marked_as_flat_or_rising() -> None:
    drawn = ElementTree.fromstring(picture([FLAT, RISING, FLAT]))

    lines = drawn.findall(f".//{SVG}polyline")
    heights = [[float(point.split(",")[1]) for point in line.attrib["points"].split()] for line in lines]
    assert [line.attrib["class"] for line in lines] == ["flat", "rising", "flat"]
    assert heights[0][1] == heights[0][2] > heights[0][0]
    assert heights[1][0] == heights[1][1] > heights[1][2]


def test_each_batch_contains_every_key_once(tmp_path: Path) -> None:
    work = of_keys(50)
    work.write(tmp_path / "input", 2, work.rows_per_file, work.keys)

    files = sorted((tmp_path / "input").iterdir())

    assert [sorted(pq.read_table(path)["k"].to_pylist()) for path in files] == [list(range(50))] * 2


def test_output_with_a_missing_row_is_refused(tmp_path: Path) -> None:
    work = of_keys(50)
    work.write(tmp_path / "input", 1, work.rows_per_file, work.keys)
    rows = pq.read_table(tmp_path / "input" / "0000.parquet").rename_columns(["k", "m"])
    counted = rows.append_column("n", [[1] * 50])
    (tmp_path / "output").mkdir()
    pq.write_table(counted, tmp_path / "output" / "part.parquet")
    check("it", tmp_path / "output", tmp_path / "input", work)

    pq.write_table(counted.slice(1), tmp_path / "output" / "part.parquet")

    with pytest.raises(WrongResultError, match="49 rows, and 50 are true"):
        check("it", tmp_path / "output", tmp_path / "input", work)


def test_all_files_may_exist_from_the_start(tmp_path: Path) -> None:
    feed = Feed(files=3, files_per_s=1)
    feed.prepare(tmp_path)

    feed.put(tmp_path)

    assert list(feed.arrivals(tmp_path)) == [0, 1, 2]


def test_a_topology_is_measured_or_has_the_requested_tasks() -> None:
    assert topology_named("16").warm_up == 50
    assert [topology_named(str(AXES[AxisName.TASKS].start << step)).tasks for step in (0, 5)] == [64, 2048]


def test_invalid_scaling_benchmark_options_are_refused_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--only", "rivers"], ["--doublings", "0"]):
        with pytest.raises(SystemExit):
            main(arguments)

    assert "0 is not a positive number" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.slow
def test_the_scaling_benchmark_runs_as_users_start_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code = main(
        ["--only", "tasks", "--doublings", "1", "--repeat", "1", "--json", "--picture", str(tmp_path / "curves.svg")]
    )

    printed, errors = capsys.readouterr()
    assert code == 0, errors
    assert [step["size"] for step in json.loads(printed)["tasks"]["steps"]] == [64, 128]
    ElementTree.parse(tmp_path / "curves.svg")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_every_axis_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--only", "rows,keys,parallelism,files", "--doublings", "1", "--repeat", "1", "--json"])

    printed, errors = capsys.readouterr()
    assert code == 0, errors
    report = json.loads(printed)
    assert [len(each["steps"]) for each in report.values()] == [2] * 4
