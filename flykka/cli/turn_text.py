"""Turns, effects, changes and causes in lines, as the debugger and the forks show them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from flykka.runtime.trace.effect_text import effect_line
from flykka.runtime.trace.state.tree import cut, one_line
from flykka.runtime.trace.text import failure_text, message_text

if TYPE_CHECKING:
    from flykka.runtime.replay.session.causes import Cause
    from flykka.runtime.trace.records import Turn
    from flykka.runtime.trace.state.description import Change

_WIDTH = 140
_SIDE = 60


def turn_line(turn: Turn, began_ms: int) -> str:
    """Number, time, actor, message, and who said it; and what the turn raised, where it did."""
    came = "by its timer" if turn.kind == "timer" else "" if turn.sender is None else f"from {turn.sender.path}"
    cause = "" if turn.cause is None else f"(turn {turn.cause})"
    failed = "" if turn.failure is None else f"FAILED {failure_text(turn.failure)}"
    said = f"turn {turn.sequence}  {(turn.now_ms - began_ms) / 1000:+.3f} s  {turn.recipient.path}"
    return "  ".join(filter(None, [f"{said} <- {message_text(turn.message)}", f"{came} {cause}".strip(), failed]))


def effect_lines(turn: Turn) -> list[str]:
    """One line for each effect."""
    return [cut(effect_line(effect), _WIDTH) for effect in turn.effects]


def change_lines(changes: Iterable[Change]) -> list[str]:
    """One line for each change."""
    return [
        f"{change.path or 'the actor'}: {cut(one_line(change.before), _SIDE)} -> {cut(one_line(change.after), _SIDE)}"
        for change in changes
    ]


def cause_lines(causes: Iterable[Cause], began_ms: int) -> list[str]:
    """Two lines for each cause: the turn, and what of it led on."""
    lines = []
    for cause in causes:
        lines.append(turn_line(cause.turn, began_ms))
        if cause.effect is not None:
            lines.append(cut(f"  by  {effect_line(cause.effect)}", _WIDTH))
    return lines
