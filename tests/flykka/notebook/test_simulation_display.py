"""A simulation in a notebook: its display shows the end, the faults and the violations."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from flykka.monitors.monitor import Violation
from flykka.notebook.runs import simulation_bundle
from flykka.simulation.outcome import CheckpointTally, SimulationOutcome
from tests.flykka.notebook.html_reader import Reader

OUTCOME = SimulationOutcome(
    seed=39,
    topology="source-map x1, window-sink x4",
    faults=Counter({"storage": 1, "crash": 2}),
    turns=3106,
    checkpoints=CheckpointTally(completed=4, aborted=1, savepoints=1),
    restarts=2,
    jobs=("STOPPED", "FINISHED"),
    rows=52,
    late_rows=3,
    virtual_ms=7_745,
    violations=(),
)
WRONG = replace(OUTCOME, violations=(Violation(monitor="commits", text="checkpoint 3 <b>was never complete</b>"),))


def test_a_simulation_shows_its_events() -> None:
    bundle = simulation_bundle(OUTCOME)

    facts = dict(row for row in Reader(bundle["text/html"]).rows if len(row) == 2)
    assert facts["job"] == "STOPPED, then FINISHED; 2 restarts"
    assert facts["faults"] == "2 × crash, 1 × storage"
    assert facts["checkpoints"] == "4 completed, 1 aborted; savepoints: 1"
    assert facts["rows"] == "52, 3 of them late"
    assert bundle["text/plain"].startswith("simulation 39: no violations\n  job: STOPPED")


def test_a_violation_is_shown_without_becoming_markup() -> None:
    bundle = simulation_bundle(WRONG)

    page = Reader(bundle["text/html"])
    assert "1 violation" in page.text
    assert "checkpoint 3 <b>was never complete</b> [commits]" in page.text
    assert "b" not in page.tags
    assert bundle["text/plain"].endswith("checkpoint 3 <b>was never complete</b> [commits]")
