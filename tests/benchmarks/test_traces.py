"""Tests the trace benchmark: every figure is measured, on recorded turns that replay identically."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.traces.__main__ import main
from benchmarks.traces.circle import ACTORS, Parcel, record_circle
from flykka.runtime.trace.file.reader import TraceReader

FIGURES = [
    "record_turns_per_s",
    "replay_turns_per_s",
    "bytes_per_turn",
    "simulated_turns_per_s",
    "checkpoints_simulated_per_s",
]


def test_the_actor_ring_takes_the_stated_number_of_turns(tmp_path: Path) -> None:
    path = tmp_path / "circle.trace"

    record_circle(path, 800)

    handed_on = [turn for turn in TraceReader.open(path) if isinstance(turn.message, Parcel)]
    assert len(handed_on) == 800 + 1
    assert len({turn.recipient for turn in handed_on}) == ACTORS
    assert all(len(turn.effects) == 1 for turn in handed_on)


@pytest.mark.slow
@pytest.mark.long
def test_the_json_has_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--json", "--repeat", "1", "--scale", "0.02"])

    report = json.loads(capsys.readouterr().out)
    assert code == 0
    assert list(report) == FIGURES
    assert all(figure > 0 for name, figure in report.items() if name != "checkpoints_simulated_per_s")
    assert report["bytes_per_turn"] < 60
