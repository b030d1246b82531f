"""Applications on one store, each in a separate process: which application runs which jobs and gets their results."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from flykka.cluster.cluster_settings import ClusterSettings
from flykka.cluster.high_availability.stores import FolderSettings
from flykka.cluster.local_cluster import LocalCluster
from flykka.errors import ClusterError
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.job_cluster import ScriptedDataPlane
from tests.actors.machines.graph.graphs import graph_of, vertex
from tests.flykka.cluster.high_availability.processes import Driver

WAITS = "waiting: another driver leads of run "


def application(folder: Path) -> Driver:
    return Driver(str(folder), module="tests.flykka.cluster.high_availability.application")


def standby_of(first: Driver, folder: Path) -> Driver:
    assert first.wait_line() == "began"
    assert first.ask("run one") == "one has finished"
    second = application(folder)
    assert second.wait_line() == "began"
    return second


@pytest.mark.slow
def test_a_standby_reports_its_wait_once_and_continues_the_killed_run(tmp_path: Path) -> None:
    with application(tmp_path) as first, standby_of(first, tmp_path) as second:
        assert second.ask("run one").startswith(WAITS)

        first.send(signal.SIGKILL)

        assert second.wait_line() == "one had finished before"
        assert second.ask("run two") == "two has finished"
        assert second.ask("close") == "ended"


@pytest.mark.slow
@pytest.mark.long
def test_a_standby_gets_the_results_of_a_concluded_run_then_starts_another(tmp_path: Path) -> None:
    with application(tmp_path) as first, standby_of(first, tmp_path) as second:
        assert second.ask("run one").startswith(WAITS)

        assert first.ask("close") == "ended"

        assert second.wait_line() == "one had finished before"
        assert second.ask("run two") == "two has finished"
        assert second.ask("close") == "ended"
    with application(tmp_path) as third:
        assert third.wait_line() == "began"
        assert third.ask("run one") == "one has finished"


@pytest.mark.slow
@pytest.mark.long  # Covered by the run whose driver is killed.
def test_a_run_without_an_orderly_end_is_continued(tmp_path: Path) -> None:
    with application(tmp_path) as first:
        assert first.wait_line() == "began"
        assert first.ask("run one") == "one has finished"
        assert first.ask("abandon") == "ended"

    with application(tmp_path) as second:
        assert second.wait_line() == "began"
        assert second.ask("run one") == "one had finished before"


def test_an_environment_does_not_wait_for_another_one_in_its_process(tmp_path: Path) -> None:
    settings = ClusterSettings(
        slots_per_task_manager=1, high_availability=FolderSettings(directory=str(tmp_path / "store"))
    )
    with (
        SeededSystem(1) as system,
        SeededSystem(2) as other,
        LocalCluster(ScriptedDataPlane(), settings, system=system),
        LocalCluster(ScriptedDataPlane(), settings, system=other) as second,
        pytest.raises(ClusterError) as refused,
    ):
        second.identify(graph_of(vertex("source")), notify=print)

    assert str(refused.value) == (
        f"no job can be run: another environment of this process leads in the high-availability folder"
        f" '{tmp_path}/store'; close it first, or give each environment its own store"
    )
