"""Tests the checkpoint benchmark: every topology completes its checkpoints, and the figures match their names."""

from __future__ import annotations

import json

import pytest

from benchmarks.checkpoints.__main__ import main
from benchmarks.checkpoints.data_plane import Arrivals
from benchmarks.checkpoints.measuring import Measured, Times, measure
from benchmarks.checkpoints.results import as_json, as_table, percentile
from benchmarks.checkpoints.topologies import TOPOLOGIES, Topology, job_graph
from benchmarks.checkpoints.worker import from_json, to_json
from flykka.actors.machines.job_graph.validation import check_job_graph
from flykka.messages.graph.job_graph import ShipStrategy

MEASURED = Measured(
    submit_s=0.1234,
    checkpoints=[Times(wall_ms=float(number), cpu_ms=2.0 * number) for number in (3, 1, 2)],
    gc_ms=6.0,
)


def topology(wiring: ShipStrategy = ShipStrategy.FORWARD) -> Topology:
    return Topology(name="few", parallelism=3, wiring=wiring, checkpoints=2, warm_up=1, target_ms=3.0, flink_ms=4.0)


@pytest.mark.slow
@pytest.mark.parametrize("wiring", [pytest.param(ShipStrategy.FORWARD, marks=pytest.mark.long), ShipStrategy.HASH])
def test_every_counted_checkpoint_is_timed(wiring: ShipStrategy) -> None:
    measured = measure(topology(wiring), lambda _: None)

    assert measured.submit_s > 0
    assert len(measured.checkpoints) == 2
    assert all(times.wall_ms > 0 for times in measured.checkpoints)


@pytest.mark.parametrize("each", TOPOLOGIES, ids=lambda each: each.name)
def test_topologies_are_valid_jobs_with_the_stated_number_of_tasks(each: Topology) -> None:
    graph = job_graph(each, "/checkpoints")

    check_job_graph(graph)
    assert sum(vertex.parallelism for vertex in graph.vertices) == each.tasks
    assert each.tasks == (256 if each.name == "128x128" else int(each.name))


def test_channel_counts_match_the_wiring() -> None:
    assert {each.name: each.channels for each in TOPOLOGIES} == {
        "16": 8,
        "256": 128,
        "10000": 5_000,
        "128x128": 16_384,
    }


def test_the_json_has_the_fields_that_programs_read() -> None:
    assert as_json({topology(): MEASURED}) == {
        "few": {
            "median_ms": 2.0,
            "p99_ms": 3.0,
            "cpu_median_ms": 4.0,
            "gc_ms_per_checkpoint": 2.0,
            "submit_s": 0.123,
            "checkpoints": 3,
        }
    }


def test_the_table_has_the_same_figures_with_targets_and_flinks_values() -> None:
    table = as_table(as_json({topology(): MEASURED}), [topology()])

    assert table.splitlines()[-1] == (
        "| 6 | point-wise | 3 | 2.0 ms | 3.0 ms | 3 ms | 4 ms | 4.0 ms | 2.0 ms | 0.12 s |  |"
    )


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50.0), (0.99, 99.0), (1.0, 100.0), (0.001, 1.0)])
def test_a_percentile_is_one_of_the_values(share: float, expected: float) -> None:
    assert percentile([float(number) for number in range(100, 0, -1)], share) == expected


def test_a_worker_reports_its_measurements() -> None:
    assert from_json(to_json(MEASURED)) == MEASURED


def test_the_scaled_number_of_checkpoints_is_at_least_one() -> None:
    assert [(each.checkpoints, each.warm_up) for each in map(topology().scaled, (3.0, 0.1))] == [(6, 3), (1, 0)]


def test_arrivals_complete_with_the_last_task_and_are_counted_per_checkpoint() -> None:
    arrivals = Arrivals()
    for _ in range(2):
        arrivals.begin(2)
        arrivals.arrive()
        with pytest.raises(TimeoutError, match="not all of 2 tasks"):
            arrivals.wait(0)
        arrivals.arrive()
        assert arrivals.wait(0) > 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--only", "17"], "there is no topology '17'; there are 16, 256, 10000, 128x128"),
        (["--scale", "0"], "0 is not a positive number"),
    ],
)
def test_invalid_checkpoint_benchmark_options_are_refused_at_once(
    capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)

    assert complaint in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.long
def test_the_checkpoint_benchmark_runs_as_users_start_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "--only", "16", "--scale", "0.01"]) == 0

    report = json.loads(capsys.readouterr().out)
    assert report.keys() == {"16"}
    assert {"median_ms", "p99_ms", "submit_s"} <= report["16"].keys()
    assert report["16"]["checkpoints"] == 2
