"""FOR SYSTEM_TIME AS OF o.at, the clause of temporal joins, which follows the name of a table.

Spark's grammar has the clause for a table as of a constant time, but its parser rejects columns in it. So a clause with
a column is cut out and blanked before Spark parses the text, and the planner later finds the clause by the position of
its table. A clause with a constant stays in the text for Spark.
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
    """A clause in a text: the position of its table, and the name and position of its column."""

    table: Position
    column: tuple[str, ...]
    position: Position

    @property
    def display_name(self) -> str:
        return ".".join(self.column)


def without_as_of(text: str) -> tuple[str, tuple[AsOfClause, ...]]:
    """Return the text without the clauses that name columns, and these clauses. Raises `SqlTextError` if a clause
    computes a value from a column, or does not follow the name of a table.
    """
    sequence, clauses = tokens(text), []
    for place, token in enumerate(sequence):
        if not (token.matches(*_TIMES) and _is_as_of(sequence[place + 1 : place + 3])):
            continue
        names = _names(sequence[place + 3 :])
        behind = sequence[place + 3 + 2 * len(names) - 1 :][:1] if names else ()
        if not names or any(each.matches("(") or each.kind == "text" for each in behind):
            continue
        start = place - 1 if place and sequence[place - 1].matches("FOR") else place
        position = position_at(text, names[0].start)
        if any(each.kind == "symbol" and each.raw in _OPERATORS for each in behind):
            raise SqlTextError(
                f"the time of FOR SYSTEM_TIME AS OF is the event time of the left stream, a column: {FORM}",
                position,
                "",
            )
        table = _table(sequence[:start])
        if table is None:
            raise SqlTextError(
                "FOR SYSTEM_TIME AS OF follows the name of a table or view, before its alias; CREATE TEMPORARY VIEW"
                f" gives a subquery a name: {FORM}",
                position_at(text, sequence[start].start),
                "",
            )
        text = blanked(text, sequence[start].start, names[-1].end)
        column = tuple(each.value for each in names)
        clauses.append(AsOfClause(table=position_at(text, table.start), column=column, position=position))
    return text, tuple(clauses)


def _is_as_of(sequence: Sequence[Token]) -> bool:
    return len(sequence) == 2 and sequence[0].matches("AS") and sequence[1].matches("OF")


def _names(sequence: Sequence[Token]) -> tuple[Token, ...]:
    """Return the tokens of the dotted name with which the sequence begins; empty if it begins with a constant."""
    names: list[Token] = []
    for place in range(0, len(sequence), 2):
        token = sequence[place]
        if token.kind not in ("word", "name") or token.raw[0].isdigit():
            break
        names.append(token)
        if place + 1 == len(sequence) or not sequence[place + 1].matches("."):
            break
    return () if len(names) == 1 and names[0].matches(*_NO_COLUMNS) else tuple(names)


def _table(before: Sequence[Token]) -> Token | None:
    """Return the first token of the dotted name with which the sequence ends."""
    place = len(before) - 1
    if place < 0 or before[place].kind not in ("word", "name"):
        return None
    while place >= 2 and before[place - 1].matches(".") and before[place - 2].kind in ("word", "name"):
        place -= 2
    return before[place]
