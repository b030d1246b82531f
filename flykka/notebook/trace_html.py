"""A trace, and single turns of one, as HTML and as text. Of a long trace only the first records are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from flykka.cli.trace_table import Row, row_of
from flykka.console.formats import format_bytes
from flykka.notebook.colours import GREY, RED
from flykka.notebook.shell import Bundle
from flykka.notebook.trace_markup import head, note, page, table, told
from flykka.runtime.trace.effect_text import effect_line
from flykka.runtime.trace.file.order import nearly_in_order
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.records import Record, Turn
from flykka.runtime.trace.text import failure_text, message_text
from flykka.traces.origin import origin

SHOWN_RECORDS = 20
SHOWN_EFFECTS = 40
_COLUMNS = (
    ("turn", "number"),
    ("s", "number"),
    ("actor", ""),
    ("message", "wide"),
    ("from (turn)", ""),
    ("what came of it", "wide"),
)


def trace_bundle(trace: TraceReader) -> Bundle:
    """What was recorded, and how it began."""
    records = list(islice(nearly_in_order(trace.records()), SHOWN_RECORDS + 1))
    shown = records[:SHOWN_RECORDS]
    facts = (origin(trace), format_bytes(trace.path.stat().st_size))
    hint = f"the first {SHOWN_RECORDS} records; `for turn in trace` reads on" if len(records) > len(shown) else ""
    return {
        "text/html": page(head(trace.path.name, *facts), records_table(shown), note(hint) if hint else ""),
        "text/plain": "\n".join([f"{trace.path}: {', '.join(facts)}", *records_lines(shown), *filter(None, [hint])]),
    }


def turn_bundle(turn: Turn) -> Bundle:
    """One turn with its effects."""
    return {"text/html": page(turn_html(turn)), "text/plain": turn_text(turn)}


def turn_html(turn: Turn) -> str:
    """One turn as a part of a display: who was told what by whom, and what came of it."""
    state = (GREY, turn.kind) if turn.failure is None else (RED, "failed")
    parts = [head(f"{turn.sequence}  {turn.recipient.path} <- {message_text(turn.message)}", _came(turn), state=state)]
    parts.append(told("\n".join(_effects(turn)) or "nothing came of it"))
    if turn.failure is not None:
        parts.append(told(failure_text(turn.failure), bad=True))
    return "".join(parts)


def turn_text(turn: Turn) -> str:
    """One turn as plain text."""
    lines = [f"turn {turn.sequence}  {turn.recipient.path} <- {message_text(turn.message)}"]
    lines += filter(None, [_came(turn), *_effects(turn)])
    if turn.failure is not None:
        lines.append(f"FAILED {failure_text(turn.failure)}")
    return "\n  ".join(lines)


def records_table(records: Sequence[Record]) -> str:
    """A table with a row for each record; times count from the first one."""
    return table(_COLUMNS, [(*_cells(row), _outcome(row)) for row in _rows(records)])


def records_lines(records: Sequence[Record]) -> Iterable[str]:
    """A line for each record."""
    for row in _rows(records):
        turn, time, recipient, said, came = _cells(row)
        rest = "".join(f"  | {part}" for part in (came, _outcome(row)) if part)
        yield f"{turn:>7} {time:>10}  {recipient} <- {said}{rest}"


def _effects(turn: Turn) -> list[str]:
    more = len(turn.effects) - SHOWN_EFFECTS
    return [*map(effect_line, turn.effects[:SHOWN_EFFECTS]), *([f"... {more:,} more effects"] if more > 0 else [])]


def _rows(records: Sequence[Record]) -> list[Row]:
    return [row_of(record, records[0].now_ms) for record in records]


def _cells(row: Row) -> tuple[str, str, str, str, str]:
    return row.turn, row.time, row.recipient, row.said, row.came


def _outcome(row: Row) -> str:
    return "; ".join(filter(None, [row.effects, f"FAILED {row.failure}" if row.failure else ""]))


def _came(turn: Turn) -> str:
    return row_of(turn, turn.now_ms).came
