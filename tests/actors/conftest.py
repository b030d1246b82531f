"""Whole casts are monitored: each of their tests is a test of every law that monitors watch, whatever else it is of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flykka.monitors.monitors import all_monitors
from flykka.monitors.recorder import MonitoringRecorder
from flykka.runtime.recording import Recorder
from flykka.runtime.testing.seeded import SeededSystem


@pytest.fixture(autouse=True)
def monitored(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every seeded system of a test of whole casts has monitors, beside the recorder that it was to have."""
    if "whole_cast" not in request.path.name:
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
