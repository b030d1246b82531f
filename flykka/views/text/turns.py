"""Formats turns of a trace: as rows of a table, and in lines with their effects, changes and causes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from flykka.runtime.replay.session.causes import Cause
from flykka.runtime.trace.file.order import recipient_of
from flykka.runtime.trace.records import DeadLetterRecord, Killed, Record, Spawned, Turn
from flykka.runtime.trace.state.description import Change, one_line, shorten
from flykka.runtime.trace.text import effect_line, effects_text, failure_of, failure_text, message_text

_LONG_ID = re.compile(r"[0-9a-f]{16,}")
_ID_DIGITS = 6
_WIDTH = 140
_SIDE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """The cells of a table row for a record. `came` names the record's cause."""

    turn: str
    time: str
    recipient: str
    message: str
    came: str
    effects: str
    failure: str = ""
    style: str = ""


def row_of(record: Record, began_ms: int) -> TurnRow:
    """Return the table row of a record. Times count from `began_ms`."""
    failure = message = came = style = ""
    match record:
        case Turn():
            message, came = message_text(record.message), _came(record)
            failure = "" if record.failure is None else failure_text(record.failure)
            style = "red" if failure_of(record) is not None else "dim" if record.kind == "signal" else ""
        case Killed():
            message, style = "KILLED", "bold red"
        case Spawned():
            message, style = "SPAWNED", "dim"
        case DeadLetterRecord():
            message, style = f"DEAD LETTER {message_text(record.message)}", "yellow"
            came = "" if record.sender is None else f"from {record.sender.path}"
    return TurnRow(
        turn=str(record.sequence),
        time=f"{(record.now_ms - began_ms) / 1000:+.3f}",
        recipient=recipient_of(record).path,
        message=message,
        came=came,
        effects=effects_text(record),
        failure=failure,
        style=style,
    )


def _came(turn: Turn) -> str:
    sender = "timer" if turn.kind == "timer" else "" if turn.sender is None else f"from {turn.sender.path}"
    return sender if turn.cause is None else f"{sender} ({turn.cause})".lstrip()


def row_lines(rows: Iterable[TurnRow]) -> Iterator[str]:
    for row in rows:
        failure = f"FAILED {row.failure}" if row.failure else ""
        parts = (f"{row.turn:>7} {row.time:>10}  {row.recipient} <- {row.message}", row.came, row.effects, failure)
        yield "  | ".join(filter(None, parts))


def ids_cut_short(text: str) -> str:
    return _LONG_ID.sub(lambda match: match[0][:_ID_DIGITS], text)


def turn_line(turn: Turn, began_ms: int) -> str:
    came = "by its timer" if turn.kind == "timer" else "" if turn.sender is None else f"from {turn.sender.path}"
    cause = "" if turn.cause is None else f"(turn {turn.cause})"
    failure = "" if turn.failure is None else f"FAILED {failure_text(turn.failure)}"
    head = f"turn {turn.sequence}  {(turn.now_ms - began_ms) / 1000:+.3f} s  {turn.recipient.path}"
    return "  ".join(filter(None, [f"{head} <- {message_text(turn.message)}", f"{came} {cause}".strip(), failure]))


def effect_lines(turn: Turn) -> list[str]:
    return [shorten(effect_line(effect), _WIDTH) for effect in turn.effects]


def change_lines(changes: Iterable[Change]) -> list[str]:
    return [
        f"{each.path or 'the actor'}: {shorten(one_line(each.before), _SIDE)} -> {shorten(one_line(each.after), _SIDE)}"
        for each in changes
    ]


def cause_lines(causes: Iterable[Cause], began_ms: int) -> list[str]:
    """Format each cause in two lines: the turn, and the effect that led to the next cause."""
    lines = []
    for cause in causes:
        lines.append(turn_line(cause.turn, began_ms))
        if cause.effect is not None:
            lines.append(shorten(f"  by  {effect_line(cause.effect)}", _WIDTH))
    return lines
