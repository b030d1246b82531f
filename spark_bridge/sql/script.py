"""Scripts: SQL texts of several statements, each ended by a semicolon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flykka.spark_bridge.sql.plan_node import Position
from flykka.spark_bridge.sql.tokens import Token, blanked, position_at, say, tokens

_BYTE_ORDER_MARK = "\ufeff"
"""Editors on Windows begin a file with it."""
_SET_OF_STATEMENTS = ("EXECUTE", "STATEMENT", "SET")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptStatement:
    """A statement of a script: the whole text, in which all others are blanked, so that places are those of the script.

    Of EXECUTE STATEMENT SET BEGIN ... END `members` are the statements within; None for any other. One that is not
    `is_ended` has no semicolon behind it. `script` is the text with all that is in it, for errors to show.
    """

    text: str
    script: str
    position: Position
    is_ended: bool = True
    members: tuple[ScriptStatement, ...] | None = None

    @classmethod
    def whole(cls, text: str) -> ScriptStatement:
        text = text.removeprefix(_BYTE_ORDER_MARK)
        return cls(text=text, script=text, position=Position(line=1, column=1))


def statements(script: str) -> tuple[ScriptStatement, ...]:
    """The statements of a script, in their order. Empty ones are left out."""
    script = script.removeprefix(_BYTE_ORDER_MARK)
    found, waiting = [], list(tokens(script))
    while waiting:
        if waiting[0].says(";"):
            del waiting[0]
            continue
        if say(waiting, *_SET_OF_STATEMENTS, "BEGIN"):
            statement, length = _set_of_statements(script, waiting)
        else:
            length = _length(waiting)
            statement = _cut(script, waiting[:length], is_ended=length < len(waiting))
        found.append(statement)
        del waiting[: length + 1]
    return tuple(found)


def _set_of_statements(script: str, found: Sequence[Token]) -> tuple[ScriptStatement, int]:
    """EXECUTE STATEMENT SET BEGIN, statements that each end with a semicolon, END; and its number of tokens."""
    place, members = len(_SET_OF_STATEMENTS) + 1, []
    while place < len(found) and not found[place].says("END"):
        length = _length(found[place:])
        if length:
            members.append(_cut(script, found[place : place + length], is_ended=True))
        place += length + 1
    end = min(place + 1, len(found))
    is_ended = end < len(found) and found[end].says(";")
    statement = _cut(script, found[:end], is_ended=is_ended)
    return replace(statement, members=tuple(members)), end


def _length(found: Sequence[Token]) -> int:
    return next((number for number, token in enumerate(found) if token.says(";")), len(found))


def _cut(script: str, found: Sequence[Token], *, is_ended: bool) -> ScriptStatement:
    start, end = found[0].start, found[-1].end
    text = blanked(blanked(script, 0, start), end, len(script))
    return ScriptStatement(text=text, script=script, position=position_at(script, start), is_ended=is_ended)
