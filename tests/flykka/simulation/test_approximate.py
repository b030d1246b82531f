"""Simulated jobs with approximate recovery lose rows only after a failure, and publish no row twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.machines.exchange.result_partition import Subpartition
from flykka.messages.graph.job_graph import FailoverStrategyKind, JobType
from flykka.simulation.scenario import Scenario
from flykka.simulation.scenario_drawing import draw_scenario
from flykka.simulation.settings import FaultKind, SimulationSettings
from flykka.simulation.simulation import run

pytestmark = pytest.mark.slow

FAILING = SimulationSettings(faults=frozenset({FaultKind.KILL, FaultKind.STAGE}))
SMOOTH = SimulationSettings(faults=frozenset())
LOSES = 84
"""A seed with a failure that loses rows."""


def first_scenario(seed: int, settings: SimulationSettings = FAILING) -> Scenario:
    scenario = draw_scenario(seed, settings)
    return replace(scenario, jobs=scenario.jobs[:1])


@pytest.mark.long
def test_about_every_fifth_streaming_job_may_lose_rows() -> None:
    drawn_all = [draw_scenario(seed, FAILING) for seed in range(1_000)]

    approximate = [scenario for scenario in drawn_all if scenario.approximate]

    assert 60 < len(approximate) < 200
    assert {scenario.job_type for scenario in approximate} == {JobType.STREAMING}
    assert {scenario.failover_strategy for scenario in approximate} == {FailoverStrategyKind.REGION}


def test_a_failure_loses_rows_that_a_run_without_it_does_not_lose() -> None:
    scenario = first_scenario(LOSES)

    lossy, exact = run(scenario), run(replace(scenario, approximate=False))

    assert scenario.approximate
    assert lossy.violations == exact.violations == ()
    assert lossy.jobs == exact.jobs == ("FINISHED",)
    assert 0 < lossy.rows < exact.rows


@pytest.mark.parametrize("seed", [2, 13, LOSES])
def test_no_rows_are_lost_without_a_failure(seed: int) -> None:
    scenario = first_scenario(seed, SMOOTH)

    lossy, exact = run(scenario), run(replace(scenario, approximate=False))

    assert scenario.approximate
    assert lossy.violations == ()
    assert lossy.rows == exact.rows


def test_rows_sent_to_a_second_reader_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(subpartition: Subpartition, events: object) -> tuple[()]:
        """Send queued rows to the next reader as if the previous reader had not received them."""
        subpartition.consumer, subpartition.credit = None, 0
        return ()

    monkeypatch.setattr(Subpartition, "reconnect", forgetful)

    assert run(first_scenario(LOSES)).violations != ()
