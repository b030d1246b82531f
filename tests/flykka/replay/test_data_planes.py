"""The data plane of a replay does nothing, whichever class was recorded."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flykka import Replayer
from flykka.actors.data_plane import DataPlane, Engine
from flykka.actors.task.bridge import Bridge
from flykka.messages.control.job import JobResultSuccess
from flykka.replay.data_planes import ENGINE_CALLS, RecordedDataPlane
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.record.recorder import TraceRecorder
from flykka.simulation import simulation
from flykka.simulation.settings import SimulationSettings
from tests.actors.whole_cluster import Names, WholeCluster

OF_THE_PORT = sorted(name for name in vars(DataPlane) if not name.startswith("_"))


class Others(Names):
    """A data plane that is not registered for replays."""


def test_the_replay_data_plane_provides_only_bridges() -> None:
    plane: Any = RecordedDataPlane()
    assert plane.bridge_props(None).actor_class is Bridge

    for name in [name for name in OF_THE_PORT if name != "bridge_props"]:
        with pytest.raises(AssertionError, match=f"has called {name} in its own turn"):
            getattr(plane, name)()


def test_a_fork_supports_every_call_of_a_bridge_to_its_engine() -> None:
    in_turns = {"lane", "failed", "release_batches", "cancel_work", "interrupt_work", "close"}

    assert {name for name in vars(Engine) if not name.startswith("_")} - in_turns == ENGINE_CALLS


def test_the_replay_data_plane_replaces_a_data_plane_of_any_class(tmp_path: Path) -> None:
    recorded = tmp_path / "job.trace"
    with SeededSystem(2, recorder=TraceRecorder(recorded)) as system:
        stage = WholeCluster(system, tmp_path / "checkpoints", Others())
        stage.submit()
        stage.run(seconds=5)
        assert stage.client.received(JobResultSuccess)

    result = Replayer().replay(recorded, raise_on_divergence=True)

    assert result.compared > 300
    assert result.boundary == ()


@pytest.mark.slow
@pytest.mark.long  # Every run compares states in another test.
def test_bridges_reach_the_same_states_without_their_engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "job.trace"
    monkeypatch.setattr(simulation, "TraceRecorder", partial(TraceRecorder, digests=True))
    simulation.simulate(2, SimulationSettings(faults=frozenset(), trace_path=path))

    result = Replayer().replay(path, raise_on_divergence=True)

    assert result.compared > 300
    assert {line.partition(":")[0] for line in result.boundary} == {"/user/client"}
