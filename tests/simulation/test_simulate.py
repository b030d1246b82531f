"""The whole cast over rows that can be counted: whatever the seed draws, nothing is lost and nothing counts twice."""

from __future__ import annotations

import pytest

from flykka.simulation.settings import SimulationSettings
from flykka.simulation.simulation import simulate

WITHOUT_FAULTS = SimulationSettings(faults=frozenset())


@pytest.mark.parametrize("seed", range(10))
def test_a_run_without_faults_ends_with_every_row_in_the_output(seed: int) -> None:
    outcome = simulate(seed, WITHOUT_FAULTS)

    assert outcome.violations == ()
    assert outcome.jobs == ("FINISHED",)
    assert outcome.checkpoints.completed > 0
