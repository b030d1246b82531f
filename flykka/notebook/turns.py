"""Displays recorded turns as HTML and as text: a trace, a turn, and a replay session.

Only the first records of a long trace are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from flykka.ipython import Bundle
from flykka.runtime.replay.session.causes import Cause
from flykka.runtime.replay.session.session import ReplaySession, Step
from flykka.runtime.trace.file.order import nearly_in_order
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.records import Turn
from flykka.runtime.trace.state.description import Fields, lines_of, one_line, shorten
from flykka.runtime.trace.text import effect_line, failure_text, message_text
from flykka.traces.origin import origin
from flykka.views.html.markup import GREY, RED, Html, display, dot, element, fragment, head, lines, note, table
from flykka.views.text.formats import format_bytes
from flykka.views.text.turns import TurnRow, ids_cut_short, row_lines, row_of

SHOWN_RECORDS = 20
SHOWN_EFFECTS = 40
SHOWN_BEHIND, SHOWN_AHEAD = 3, 5
SHOWN_CHANGES, SHOWN_LINES = 30, 300
"""Limits of the displayed items, because a job may have thousands of tasks, and an actor may have state for each."""
_CUT = 400
_COLUMNS = (
    ("turn", "number"),
    ("s", "number"),
    ("actor", ""),
    ("message", "wide"),
    ("from (turn)", ""),
    ("its effects", "wide"),
)
_TURNS = (("", ""), ("turn", "number"), ("actor", ""), ("message", "wide"))
_CHANGES = (("changed", "code"), ("before", "code wide"), ("behind it", "code wide"))
_HOW = "step() and back() move by turns, at(number) and run_until(Message, ...) further; state(path), why() show more"


def bundle(parts: Iterable[str], text: Iterable[str]) -> Bundle:
    return {"text/html": display(*parts, kind="records"), "text/plain": "\n".join(text)}


def records(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> Html:
    """Create a table of strings. Long ids are truncated, with the full text as a tooltip."""
    return table(columns, ([_brief(cell) for cell in row] for row in rows))


def _brief(text: str) -> str:
    short = ids_cut_short(text)
    return text if short == text else element("span", short, title=text)


def _more(rest: int, what: str) -> list[str]:
    return [f"... {rest:,} more {what}"] if rest > 0 else []


def trace_bundle(trace: TraceReader) -> Bundle:
    read = list(islice(nearly_in_order(trace.records()), SHOWN_RECORDS + 1))
    rows = [row_of(record, read[0].now_ms) for record in read[:SHOWN_RECORDS]]
    facts = (origin(trace), format_bytes(trace.path.stat().st_size))
    hints = (
        [f"only the first {SHOWN_RECORDS} records are shown; `for turn in trace` reads all"]
        if len(read) > SHOWN_RECORDS
        else []
    )
    return bundle(
        [head(trace.path.name, *facts), records(_COLUMNS, map(_cells, rows)), *map(note, hints)],
        [f"{trace.path}: {', '.join(facts)}", *row_lines(rows), *hints],
    )


def turn_bundle(turn: Turn) -> Bundle:
    return bundle([_turn_html(turn)], [_turn_text(turn)])


def session_bundle(session: ReplaySession) -> Bundle:
    behind, ahead, here = session.recent(SHOWN_BEHIND), session.upcoming(SHOWN_AHEAD), session.here
    where = "at the beginning" if here is None else f"behind turn {here.turn.sequence}"
    diverged = session.divergence
    state = dot(where, colour=GREY if diverged is None else RED)
    rows = (("▸" if turn is session.turn else "", *_turn_cells(turn)) for turn in (*behind, *ahead))
    parts = [head(session.trace.path.name, state=state), records(_TURNS, rows)]
    text = [f"{session.trace.path} {where}"]
    if here is not None:
        parts.append(_step_html(here))
        text.append(_step_text(here))
    if diverged is not None:
        parts.append(lines(diverged.text(), bad=True))
        text.append(diverged.text())
    text += [f"next: {turn.sequence}  {_heading(turn)}" for turn in ahead[:1]]
    return bundle([*parts, note(_HOW)], text)


def step_bundle(step: Step) -> Bundle:
    return bundle([_step_html(step)], [_step_text(step)])


def state_bundle(state: Fields) -> Bundle:
    text = state_text(state)
    return bundle([lines(text)], [text])


def state_text(state: Fields) -> str:
    text = lines_of(state)
    return "\n".join([*text[:SHOWN_LINES], *_more(len(text) - SHOWN_LINES, "lines")])


def cause_text(cause: Cause) -> str:
    led = "" if cause.effect is None else f"  by  {effect_line(cause.effect)}"
    return f"turn {cause.turn.sequence}  {_heading(cause.turn)}{led}"


def _cells(row: TurnRow) -> Sequence[str]:
    outcome = "; ".join(filter(None, [row.effects, f"FAILED {row.failure}" if row.failure else ""]))
    return row.turn, row.time, row.recipient, row.message, row.came, outcome


def _turn_html(turn: Turn) -> Html:
    state = dot(turn.kind, colour=GREY) if turn.failure is None else dot("failed", colour=RED)
    return fragment(
        head(f"{turn.sequence}  {_heading(turn)}", _origin(turn), state=state),
        lines("\n".join(_effects(turn)) or "it had no effects"),
        "" if turn.failure is None else lines(failure_text(turn.failure), bad=True),
    )


def _turn_text(turn: Turn) -> str:
    failed = [] if turn.failure is None else [f"FAILED {failure_text(turn.failure)}"]
    return "\n  ".join(
        filter(None, [f"turn {turn.sequence}  {_heading(turn)}", _origin(turn), *_effects(turn), *failed])
    )


def _effects(turn: Turn) -> list[str]:
    rest = len(turn.effects) - SHOWN_EFFECTS
    return [*map(effect_line, turn.effects[:SHOWN_EFFECTS]), *_more(rest, "effects")]


def _origin(turn: Turn) -> str:
    return row_of(turn, turn.now_ms).came


def _step_html(step: Step) -> Html:
    changes = step.changes
    rows = [(each.path, shorten(one_line(each.before), _CUT), shorten(one_line(each.after), _CUT)) for each in changes]
    changed = records(_CHANGES, rows[:SHOWN_CHANGES]) or note("nothing changed in the actor")
    return fragment(_turn_html(step.turn), changed, *map(note, _more_changes(step)))


def _step_text(step: Step) -> str:
    changed = [f"changed {shorten(str(each), _CUT)}" for each in step.changes[:SHOWN_CHANGES]]
    return "\n  ".join([_turn_text(step.turn), *changed, *_more_changes(step)])


def _more_changes(step: Step) -> list[str]:
    return _more(len(step.changes) - SHOWN_CHANGES, "changes")


def _turn_cells(turn: Turn) -> tuple[str, str, str]:
    return str(turn.sequence), turn.recipient.path, message_text(turn.message)


def _heading(turn: Turn) -> str:
    return f"{turn.recipient.path} <- {message_text(turn.message)}"
