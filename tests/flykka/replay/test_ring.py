"""The last turns of a job are replayed from the first retained turn, with every actor in its state at that turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.replay.replayer import Replayer
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.recorder import TraceRecorder
from tests.histories.runs import RUNS, SEED


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["killed-task-manager", *(pytest.param(name, marks=pytest.mark.long) for name in ("regions", "savepoints"))]
)
def test_a_ring_replays_from_its_start_with_all_actors(name: str, tmp_path: Path) -> None:
    path = tmp_path / "ring.trace"
    RUNS[name](TraceRecorder(path, ring=150, digests=True), SEED)

    engines = [
        "flykka.actors.failure_enrichers",
        "tests.actors.whole_cluster",
        "tests.actors.engines",
        "tests.actors.keyed_cluster",
        "tests.actors.slow_cluster",
    ]
    result = Replayer(modules=engines).replay(path, raise_on_divergence=True)

    trace = TraceReader.open(path)
    assert trace.header.ring is not None
    assert trace.header.ring.not_kept > 0
    assert result.compared > 100
    assert result.boundary == ()
