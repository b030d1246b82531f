"""Displays replayed, forked and simulated runs as HTML and as text."""

from __future__ import annotations

from collections.abc import Iterator

from flykka.ipython import Bundle
from flykka.notebook.turns import bundle, records
from flykka.replay.job_fork import JobFork
from flykka.runtime.durations import format_ms
from flykka.runtime.replay.divergence import Divergence, value_text
from flykka.runtime.replay.fork.fork import ForkRun
from flykka.runtime.replay.replayer import ReplayResult
from flykka.runtime.trace.text import message_text
from flykka.simulation.outcome import SimulationOutcome
from flykka.traces.replays import boundary_lines, side_by_side
from flykka.views.html.markup import AMBER, GREEN, GREY, RED, Html, dot, fragment, head, lines, note
from flykka.views.text.formats import counted

_DIFFERS = (("what differs", "code"), ("recorded", "code wide"), ("now", "code wide"))
_CAUSES = (("caused by turn", "number"), ("actor", ""), ("message", "wide"))
_OUTCOMES = (("", ""), ("recorded", "wide"), ("fork", "wide"))
_FACTS = (("", ""), ("", "wide"))
_FAULTS = "drop(), delay(...), duplicate(), crash(path) or fail_stage(), then run()"


def result_bundle(result: ReplayResult) -> Bundle:
    difference = result.divergence
    colour, state = (
        (GREEN, "as recorded") if difference is None else (RED, f"diverged at turn {difference.turn.sequence}")
    )
    if result.is_empty and difference is None:
        colour, state = RED, "no turn could be replayed"
    facts = (f"{result.turns:,} turns", f"{result.compared:,} replayed and compared")
    notes = [*boundary_lines(result)]
    if result.truncated is not None:
        notes.append(f"the file ends before its time: {result.truncated.reason}")
    divergence, report = ("", []) if difference is None else (_divergence(difference), [difference.text()])
    return bundle(
        [head("replay", *facts, state=dot(state, colour=colour)), *map(note, notes), divergence],
        [f"replay {state}: {', '.join(facts)}", *notes, *report],
    )


def divergence_bundle(divergence: Divergence) -> Bundle:
    return bundle([_divergence(divergence)], [divergence.text()])


def _divergence(divergence: Divergence) -> Html:
    fields = (
        (each.path or "it", value_text(each.left) or "not there", value_text(each.right) or "not there")
        for each in divergence.fields
    )
    causes = ((str(turn.sequence), turn.recipient.path, message_text(turn.message)) for turn in divergence.causes)
    return fragment(lines(divergence.text(), bad=True), records(_DIFFERS, fields), records(_CAUSES, causes))


def fork_bundle(fork: JobFork) -> Bundle:
    turn = fork.turn
    where = "after the last turn" if turn is None else f"right before turn {turn.sequence}"
    message = "" if turn is None else f"{turn.recipient.path} <- {message_text(turn.message)}"
    if not fork.outcome.turns:
        top = head("fork", message, state=dot(where, colour=GREY))
        return bundle([top, note(_FAULTS)], filter(None, [f"fork {where}", message, _FAULTS]))
    rows = [*side_by_side(fork.recorded, fork.outcome)]
    colour, end = (GREEN, "ends as recorded") if fork.outcome.ends_as(fork.recorded) else (AMBER, "ends otherwise")
    return bundle(
        [head("fork", where, message, state=dot(end, colour=colour)), records(_OUTCOMES, rows)],
        [f"fork {where}: {end}", *(f"{label}: {was} -> {now}" for label, was, now in rows)],
    )


def fork_run_bundle(run: ForkRun) -> Bundle:
    facts = (f"{run.turns:,} turns", f"{format_ms(run.duration_ms)} of virtual time", run.ended)
    notes = [f"no answer was recorded for {path}: {problem}" for path, problem in run.silent.items()]
    return bundle([head("fork", *facts), *map(note, notes)], [f"fork: {', '.join(facts)}", *notes])


def simulation_bundle(outcome: SimulationOutcome) -> Bundle:
    facts = list(_facts(outcome))
    colour, state = (GREEN, "no violations")
    if not outcome.passed:
        colour, state = RED, counted(len(outcome.violations), "violation")
    violations = [str(each) for each in outcome.violations]
    name = f"simulation {outcome.seed}"
    top = head(name, state=dot(state, colour=colour))
    return bundle(
        [top, records(_FACTS, facts), *(lines(each, bad=True) for each in violations)],
        [f"{name}: {state}", *(f"  {what}: {value}" for what, value in facts), *violations],
    )


def _facts(outcome: SimulationOutcome) -> Iterator[tuple[str, str]]:
    checkpoints = outcome.checkpoints
    late = f", {outcome.late_rows:,} of them late" if outcome.late_rows else ""
    completed, aborted = f"{checkpoints.completed} completed", f"{checkpoints.aborted} aborted"
    yield "job", f"{', then '.join(outcome.jobs)}; {counted(outcome.restarts, 'restart')}"
    yield "topology", outcome.topology
    yield "faults", ", ".join(f"{count} × {kind}" for kind, count in sorted(outcome.faults.items())) or "none"
    yield "checkpoints", f"{completed}, {aborted}; savepoints: {checkpoints.savepoints}"
    yield "rows", f"{outcome.rows:,}{late}"
    yield "turns", f"{outcome.turns:,}, in {format_ms(outcome.virtual_ms)} of virtual time"
    if outcome.trace_path is not None:
        yield "trace", str(outcome.trace_path)
