"""FOR SYSTEM_TIME AS OF o.at, the clause of temporal joins, behind the name of a table.

Spark's grammar has the clause, of a table as it was at a constant time, and its parser refuses columns there. So a
clause that names a column is taken out of the text before Spark parses that, and blanked; the planner finds it again by
the place of the table. One of a constant stays, and is Spark's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flykka.spark_bridge.sql.plan_node import Position, SqlTextError
from flykka.spark_bridge.sql.tokens import Token, blanked, position_at, tokens

FORM = "FROM orders AS o JOIN rates FOR SYSTEM_TIME AS OF o.at AS r ON o.currency = r.currency"

_TIMES = ("SYSTEM_TIME", "TIMESTAMP")
_NO_COLUMNS = ("FROM", "CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "LOCALTIMESTAMP", "NULL")
_OPERATORS = "+-*/%|&^<>=!:["


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOfClause:
    """A clause as it stands in a text: the place of its table, and the parts and place of its column's name."""

    table: Position
    column: tuple[str, ...]
    position: Position

    @property
    def shown(self) -> str:
        return ".".join(self.column)


def without_as_of(text: str) -> tuple[str, tuple[AsOfClause, ...]]:
    """The text without the clauses that name columns, and these.

    Raises:
        SqlTextError: a clause computes something of a column, or is not behind the name of a table.
    """
    found, clauses = tokens(text), []
    for place, token in enumerate(found):
        if not (token.says(*_TIMES) and _say_as_of(found[place + 1 : place + 3])):
            continue
        names = _names(found[place + 3 :])
        behind = found[place + 3 + 2 * len(names) - 1 :][:1] if names else ()
        if not names or any(each.says("(") or each.kind == "text" for each in behind):
            continue
        start = place - 1 if place and found[place - 1].says("FOR") else place
        position = position_at(text, names[0].start)
        if any(each.kind == "symbol" and each.written in _OPERATORS for each in behind):
            raise SqlTextError(
                f"the time of FOR SYSTEM_TIME AS OF is the event time of the left stream, a column: {FORM}",
                position,
                "",
            )
        table = _table(found[:start])
        if table is None:
            raise SqlTextError(
                "FOR SYSTEM_TIME AS OF stands behind the name of a table or view, before its alias; a subquery may be"
                f" one by CREATE TEMPORARY VIEW: {FORM}",
                position_at(text, found[start].start),
                "",
            )
        text = blanked(text, found[start].start, names[-1].end)
        column = tuple(each.value for each in names)
        clauses.append(AsOfClause(table=position_at(text, table.start), column=column, position=position))
    return text, tuple(clauses)


def _say_as_of(found: Sequence[Token]) -> bool:
    return len(found) == 2 and found[0].says("AS") and found[1].says("OF")


def _names(found: Sequence[Token]) -> tuple[Token, ...]:
    """The names at the beginning, with dots between them; none where it is a constant that stands there."""
    names: list[Token] = []
    for place in range(0, len(found), 2):
        token = found[place]
        if token.kind not in ("word", "name") or token.written[0].isdigit():
            break
        names.append(token)
        if place + 1 == len(found) or not found[place + 1].says("."):
            break
    return () if len(names) == 1 and names[0].says(*_NO_COLUMNS) else tuple(names)


def _table(before: Sequence[Token]) -> Token | None:
    """The first part of the name at the end."""
    place = len(before) - 1
    if place < 0 or before[place].kind not in ("word", "name"):
        return None
    while place >= 2 and before[place - 1].says(".") and before[place - 2].kind in ("word", "name"):
        place -= 2
    return before[place]
