"""Simulated runs replay with all their failures, because the effects of faults are in the trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.replay.replayer import Replayer
from flykka.simulation.settings import SimulationSettings
from flykka.simulation.simulation import simulate


@pytest.mark.slow
@pytest.mark.parametrize("seed", [41, 42, 43, 45, pytest.param(44, marks=pytest.mark.long)])
def test_a_simulated_run_replays_with_its_faults(seed: int, tmp_path: Path) -> None:
    recorded = tmp_path / "simulated.trace"
    simulate(seed, SimulationSettings(trace_path=recorded))

    result = Replayer().replay(recorded, raise_on_divergence=True)

    assert result.compared > 100
