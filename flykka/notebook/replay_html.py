"""How a replay went, and where it left the record: as HTML and as text."""

from __future__ import annotations

from flykka.cli.replay_report import boundary_lines
from flykka.notebook.colours import GREEN, RED
from flykka.notebook.shell import Bundle
from flykka.notebook.trace_markup import head, note, page, table, told
from flykka.runtime.replay.divergence import Divergence, value_text
from flykka.runtime.replay.replayer import ReplayResult
from flykka.runtime.trace.text import message_text

_FIELDS = (("what differs", "code"), ("recorded", "code wide"), ("now", "code wide"))
_CAUSES = (("caused by turn", "number"), ("actor", ""), ("message", "wide"))


def result_bundle(result: ReplayResult) -> Bundle:
    """How much was replayed, and the divergence where there is one."""
    found = result.divergence
    state = (GREEN, "as recorded") if found is None else (RED, f"diverged at turn {found.turn.sequence}")
    if result.is_empty and found is None:
        state = (RED, "nothing could be replayed")
    facts = (f"{result.turns:,} turns", f"{result.compared:,} taken again and compared")
    notes = [*boundary_lines(result)]
    if result.truncated is not None:
        notes.append(f"the file ends before its time: {result.truncated.reason}")
    html = page(head("replay", *facts, state=state), *map(note, notes), "" if found is None else divergence_html(found))
    text = "\n".join([f"replay {state[1]}: {', '.join(facts)}", *notes, *([] if found is None else [found.text()])])
    return {"text/html": html, "text/plain": text}


def divergence_bundle(divergence: Divergence) -> Bundle:
    """The report of a divergence."""
    return {"text/html": page(divergence_html(divergence)), "text/plain": divergence.text()}


def divergence_html(divergence: Divergence) -> str:
    """The report as it is in a terminal, and its fields and causes as tables."""
    fields = [
        (each.path or "it", value_text(each.left) or "not there", value_text(each.right) or "not there")
        for each in divergence.fields
    ]
    causes = [(str(turn.sequence), turn.recipient.path, message_text(turn.message)) for turn in divergence.causes]
    return told(divergence.text(), bad=True) + table(_FIELDS, fields) + table(_CAUSES, causes)
