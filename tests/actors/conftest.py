"""Monitors check all invariants of the protocol in every test of a whole cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flykka.actors.high_availability.embedded import EmbeddedStore
from flykka.monitors.monitors import all_monitors
from flykka.monitors.recorder import MonitoringRecorder
from flykka.runtime.recording import Recorder
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.drivers import Driver
from tests.actors.job_cluster import JobCluster


@pytest.fixture(autouse=True)
def monitored(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if "whole_cluster" not in request.path.name:
        yield
        return
    recorders: list[MonitoringRecorder] = []
    make = SeededSystem.__init__

    def watched(self: SeededSystem, seed: int = 0, *, recorder: Recorder | None = None, **other: Any) -> None:
        recorders.append(MonitoringRecorder(recorder, all_monitors()))
        make(self, seed, recorder=recorders[-1], **other)

    monkeypatch.setattr(SeededSystem, "__init__", watched)
    yield
    violations = [violation for recorder in recorders for violation in recorder.violations]
    assert not violations, "\n".join(map(str, violations))


@pytest.fixture
def system() -> Iterator[SeededSystem]:
    with SeededSystem(5) as system:
        yield system


@pytest.fixture
def cluster(system: SeededSystem, tmp_path: Path) -> JobCluster:
    return JobCluster(system, tmp_path / "checkpoints", files=3)


@pytest.fixture
def store() -> EmbeddedStore:
    return EmbeddedStore()


@pytest.fixture
def driver(tmp_path: Path, store: EmbeddedStore) -> Iterator[Driver]:
    with SeededSystem(3) as system:
        yield Driver(system, tmp_path / "checkpoints", store, "first")


@pytest.fixture
def second(tmp_path: Path, store: EmbeddedStore, driver: Driver) -> Iterator[Driver]:
    with SeededSystem(4) as system:
        yield Driver(system, tmp_path / "checkpoints", store, "second")
