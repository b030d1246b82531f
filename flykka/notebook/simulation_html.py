"""What came of a simulation, as HTML and as text."""

from __future__ import annotations

from flykka.notebook.colours import GREEN, RED
from flykka.notebook.shell import Bundle
from flykka.notebook.trace_markup import head, page, table, told
from flykka.runtime.durations import format_ms
from flykka.simulation.outcome import SimulationOutcome

_FACTS = (("", ""), ("", "wide"))


def simulation_bundle(outcome: SimulationOutcome) -> Bundle:
    """How it ended, what was done to it, and what was wrong."""
    facts = _facts(outcome)
    wrong = len(outcome.violations)
    state = (GREEN, "nothing was wrong") if outcome.passed else (RED, f"{wrong} violation{'s' * (wrong > 1)}")
    violations = [str(each) for each in outcome.violations]
    name = f"simulation {outcome.seed}"
    html = page(head(name, state=state), table(_FACTS, facts), *(told(each, bad=True) for each in violations))
    lines = [f"{name}: {state[1]}", *(f"  {what}: {value}" for what, value in facts), *violations]
    return {"text/html": html, "text/plain": "\n".join(lines)}


def _facts(outcome: SimulationOutcome) -> list[tuple[str, str]]:
    checkpoints, restarts = outcome.checkpoints, outcome.restarts
    counted = f"{checkpoints.completed} completed, {checkpoints.aborted} aborted; savepoints: {checkpoints.savepoints}"
    faults = ", ".join(f"{count} × {kind}" for kind, count in sorted(outcome.faults.items()))
    facts = [
        ("job", f"{', then '.join(outcome.jobs)}; {restarts} restart{'s' * (restarts != 1)}"),
        ("topology", outcome.topology),
        ("faults", faults or "none"),
        ("checkpoints", counted),
        ("rows", f"{outcome.rows:,}" + (f", {outcome.late_rows:,} of them late" if outcome.late_rows else "")),
        ("turns", f"{outcome.turns:,}, in {format_ms(outcome.virtual_ms)} of virtual time"),
    ]
    return facts if outcome.trace_path is None else [*facts, ("trace", str(outcome.trace_path))]
