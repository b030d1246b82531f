"""Scripts: SQL texts with several statements, each ended by a semicolon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flykka.spark_bridge.sql.plan_node import Position
from flykka.spark_bridge.sql.tokens import Token, begins_with, blanked, position_at, tokens

_BYTE_ORDER_MARK = "\ufeff"
_SET_OF_STATEMENTS = ("EXECUTE", "STATEMENT", "SET")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptStatement:
    """A statement of a script: the whole text with all other statements blanked, so that positions are those of the
    script.

    `members` are the statements in EXECUTE STATEMENT SET BEGIN ... END, and None for other statements. `is_ended` is
    true if a semicolon follows. `script` is the whole text, for errors.
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
    script = script.removeprefix(_BYTE_ORDER_MARK)
    parsed, waiting = [], list(tokens(script))
    while waiting:
        if waiting[0].matches(";"):
            del waiting[0]
            continue
        if begins_with(waiting, *_SET_OF_STATEMENTS, "BEGIN"):
            statement, length = _set_of_statements(script, waiting)
        else:
            length = _length(waiting)
            statement = _cut(script, waiting[:length], is_ended=length < len(waiting))
        parsed.append(statement)
        del waiting[: length + 1]
    return tuple(parsed)


def _set_of_statements(script: str, sequence: Sequence[Token]) -> tuple[ScriptStatement, int]:
    """Parse EXECUTE STATEMENT SET BEGIN, statements with semicolons, END. Return the set and its number of tokens."""
    place, members = len(_SET_OF_STATEMENTS) + 1, []
    while place < len(sequence) and not sequence[place].matches("END"):
        length = _length(sequence[place:])
        if length:
            members.append(_cut(script, sequence[place : place + length], is_ended=True))
        place += length + 1
    end = min(place + 1, len(sequence))
    is_ended = end < len(sequence) and sequence[end].matches(";")
    statement = _cut(script, sequence[:end], is_ended=is_ended)
    return replace(statement, members=tuple(members)), end


def _length(sequence: Sequence[Token]) -> int:
    return next((number for number, token in enumerate(sequence) if token.matches(";")), len(sequence))


def _cut(script: str, sequence: Sequence[Token], *, is_ended: bool) -> ScriptStatement:
    start, end = sequence[0].start, sequence[-1].end
    text = blanked(blanked(script, 0, start), end, len(script))
    return ScriptStatement(text=text, script=script, position=position_at(script, start), is_ended=is_ended)
