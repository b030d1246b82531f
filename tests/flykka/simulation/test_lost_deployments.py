"""A lost deployment or acknowledgement: the attempt fails in time, and every row is published once."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from flykka.actors.job_master.actor import JobMaster
from flykka.actors.task_manager.actor import TaskManager
from flykka.messages.attempt.answers import ChainOpened
from flykka.messages.control.slots import OfferSlots
from flykka.messages.graph.job_graph import FixedDelayRestartStrategyConfiguration
from flykka.messages.tasks.task import AcknowledgeDeployments, SubmitTask
from flykka.simulation.fault_injection import LOST
from flykka.simulation.scenario import Fault, Scenario
from flykka.simulation.scenario_drawing import draw_scenario
from flykka.simulation.settings import FaultKind, SimulationSettings
from flykka.simulation.simulation import run
from flykka.simulation.system import Arrival

pytestmark = pytest.mark.slow

WITHOUT_FAULTS = SimulationSettings(faults=frozenset())
SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 8))]


def loss(arrival: Arrival) -> Fault:
    """Return the fault that loses the first message of this class. The fault is injected before slots are offered, when
    no such message has been sent yet.
    """
    seed = next(seed for seed in range(1_000) if Random(seed).choice(list(LOST)) == arrival)
    return Fault(kind=FaultKind.LOSS, before=OfferSlots, seed=seed)


def scenario(seed: int, *faults: Fault) -> Scenario:
    drawn = draw_scenario(seed, WITHOUT_FAULTS)
    job = replace(drawn.jobs[0], faults=faults)
    return replace(drawn, jobs=(job,), restart_strategy=FixedDelayRestartStrategyConfiguration())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lost_deployment_causes_a_restart_but_loses_no_row(seed: int) -> None:
    outcome = run(scenario(seed, loss((SubmitTask, TaskManager))))

    assert outcome.violations == ()
    assert outcome.faults["loss"] > 0
    assert outcome.jobs == ("FINISHED",)
    assert outcome.restarts > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lost_acknowledgement_is_harmless_if_tasks_report_that_they_run(seed: int) -> None:
    outcome = run(scenario(seed, loss((AcknowledgeDeployments, JobMaster))))

    assert outcome.violations == ()
    assert outcome.faults["loss"] > 0
    assert (outcome.jobs, outcome.restarts) == (("FINISHED",), 0)


@pytest.mark.long
def test_a_lost_acknowledgement_of_slow_tasks_loses_no_row() -> None:
    opens_late = [Fault(kind=FaultKind.DELAY, before=ChainOpened, seed=seed) for seed in range(8)]

    outcomes = [run(scenario(each.seed % 5, loss((AcknowledgeDeployments, JobMaster)), each)) for each in opens_late]

    assert [outcome.violations for outcome in outcomes] == [()] * 8
    assert {outcome.jobs for outcome in outcomes} == {("FINISHED",)}
    assert {outcome.restarts for outcome in outcomes} == {0, 1}
