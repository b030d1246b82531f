"""A walk through a replayed trace as HTML and as text: where it stands, what the turn did, and what it changed."""

from __future__ import annotations

from flykka.notebook.colours import GREY, RED
from flykka.notebook.shell import Bundle
from flykka.notebook.trace_html import turn_html, turn_text
from flykka.notebook.trace_markup import head, note, page, table, told
from flykka.runtime.replay.session.causes import Cause
from flykka.runtime.replay.session.session import ReplaySession
from flykka.runtime.replay.session.walk import Step
from flykka.runtime.trace.effect_text import effect_line
from flykka.runtime.trace.records import Turn
from flykka.runtime.trace.state.description import Fields, one_line
from flykka.runtime.trace.state.tree import cut, lines_of
from flykka.runtime.trace.text import message_text

SHOWN_BEHIND, SHOWN_AHEAD = 3, 5
SHOWN_CHANGES, SHOWN_LINES = 30, 300
"""A job may have thousands of tasks, and an actor know something of each."""
_CUT = 400
_CHANGES = (("changed", "code"), ("before", "code wide"), ("behind it", "code wide"))
_TURNS = (("", ""), ("turn", "number"), ("actor", ""), ("message", "wide"))
_HOW = "step() and back() move by turns, at(number) and run_until(Message, ...) further; state(path), why() tell more"


def session_bundle(session: ReplaySession) -> Bundle:
    """The turns around the place where the session stands, and the last one with what it changed."""
    behind, ahead, here = session.recent(SHOWN_BEHIND), session.upcoming(SHOWN_AHEAD), session.here
    where = "at the beginning" if here is None else f"behind turn {here.turn.sequence}"
    diverged = session.divergence
    parts = [
        head(session.trace.path.name, state=(GREY if diverged is None else RED, where)),
        table(_TURNS, [_row(turn, "▸" if turn is session.turn else "") for turn in (*behind, *ahead)]),
    ]
    lines = [f"{session.trace.path} {where}"]
    if here is not None:
        parts.append(_step_html(here))
        lines.append(_step_text(here))
    if diverged is not None:
        parts.append(told(diverged.text(), bad=True))
        lines.append(diverged.text())
    lines += [f"next: {turn.sequence}  {_said(turn)}" for turn in ahead[:1]]
    return {"text/html": page(*parts, note(_HOW)), "text/plain": "\n".join(lines)}


def step_bundle(step: Step) -> Bundle:
    """A turn that was replayed, with what it changed of its actor."""
    return {"text/html": page(_step_html(step)), "text/plain": _step_text(step)}


def state_bundle(state: Fields) -> Bundle:
    """What an actor knows, as a tree."""
    text = state_text(state)
    return {"text/html": page(told(text)), "text/plain": text}


def state_text(state: Fields) -> str:
    """What an actor knows, as the lines of a tree."""
    lines = lines_of(state)
    more = len(lines) - SHOWN_LINES
    return "\n".join([*lines[:SHOWN_LINES], *([f"... {more:,} more lines"] if more > 0 else [])])


def cause_text(cause: Cause) -> str:
    """A turn that led on, and what of it did."""
    led = "" if cause.effect is None else f"  by  {effect_line(cause.effect)}"
    return f"turn {cause.turn.sequence}  {_said(cause.turn)}{led}"


def _step_html(step: Step) -> str:
    changes = step.changes
    rows = [(each.path, cut(one_line(each.before), _CUT), cut(one_line(each.after), _CUT)) for each in changes]
    shown = table(_CHANGES, rows[:SHOWN_CHANGES]) or note("nothing changed in the actor")
    more = len(rows) - SHOWN_CHANGES
    return turn_html(step.turn) + shown + (note(f"... {more:,} more changes") if more > 0 else "")


def _step_text(step: Step) -> str:
    changes = step.changes
    more = len(changes) - SHOWN_CHANGES
    lines = [f"  changed {cut(str(each), _CUT)}" for each in changes[:SHOWN_CHANGES]]
    return "\n".join([turn_text(step.turn), *lines, *([f"  ... {more:,} more changes"] if more > 0 else [])])


def _row(turn: Turn, mark: str) -> tuple[str, str, str, str]:
    return mark, str(turn.sequence), turn.recipient.path, message_text(turn.message)


def _said(turn: Turn) -> str:
    return f"{turn.recipient.path} <- {message_text(turn.message)}"
