"""A fork of a recorded run, as HTML and as text: what came of it beside what had come of the recording."""

from __future__ import annotations

from flykka.cli.whatif_command import side_by_side
from flykka.notebook.colours import AMBER, GREEN, GREY
from flykka.notebook.shell import Bundle
from flykka.notebook.trace_markup import head, note, page, table
from flykka.replay.job_fork import JobFork
from flykka.runtime.durations import format_ms
from flykka.runtime.replay.fork.fork import ForkRun
from flykka.runtime.trace.text import message_text

_COLUMNS = (("", ""), ("recorded", "wide"), ("fork", "wide"))


def fork_bundle(fork: JobFork) -> Bundle:
    """Where it begins and, when it has run, both outcomes."""
    turn = fork.turn
    where = "behind the last turn" if turn is None else f"right before turn {turn.sequence}"
    said = "" if turn is None else f"{turn.recipient.path} <- {message_text(turn.message)}"
    if not fork.outcome.turns:
        how = "drop(), delay(...), duplicate(), crash(path) or fail_stage(), then run()"
        html = page(head("fork", said, state=(GREY, where)), note(how))
        return {"text/html": html, "text/plain": "\n".join(filter(None, [f"fork {where}", said, how]))}
    rows = [*side_by_side(fork.recorded, fork.outcome)]
    ends = (GREEN, "ends as recorded") if fork.outcome.ends_as(fork.recorded) else (AMBER, "ends otherwise")
    lines = [f"fork {where}: {ends[1]}", *(f"{label}: {was} -> {now}" for label, was, now in rows)]
    return {
        "text/html": page(head("fork", where, said, state=ends), table(_COLUMNS, rows)),
        "text/plain": "\n".join(lines),
    }


def fork_run_bundle(run: ForkRun) -> Bundle:
    """How far it came, and who did not answer."""
    facts = (f"{run.turns:,} turns", f"{format_ms(run.duration_ms)} of virtual time", run.ended)
    notes = [f"no answer was recorded for {path}: {said}" for path, said in run.silent.items()]
    html = page(head("fork", *facts), *map(note, notes))
    return {"text/html": html, "text/plain": "\n".join([f"fork: {', '.join(facts)}", *notes])}
