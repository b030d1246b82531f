"""WATERMARK FOR column AS column - INTERVAL ..., a clause in the columns of CREATE TABLE, which Spark's grammar lacks.

The keywords are Flink's. The clause is cut out and blanked before Spark parses the text, so the other tokens keep their
positions, and errors in the clause have the clause's position. (In an option, the column would be an unchecked text,
and its errors would have no position.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flykka.runtime.durations import format_ms
from flykka.spark_bridge.functions.times import in_ms
from flykka.spark_bridge.sql.plan_node import Position, SqlTextError
from flykka.spark_bridge.sql.tokens import Token, begins_with, blanked, position_at, tokens

if TYPE_CHECKING:
    from flykka.spark_bridge.sql.analysis import Statement

_FORM = "WATERMARK FOR column AS column - INTERVAL 10 SECONDS"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkClause:
    """A clause in a text: the column, and a text with only the expression after AS, at its position."""

    column: str
    expression: str
    position: Position

    def watermark(self, statement: Statement) -> TableWatermark:
        """Return the watermark; `statement` parses the expression.

        Raises:
            SqlTextError: the expression is not the column, or the column and a constant interval of days or less.
        """
        parsed = statement.parsed_expression(self.expression)
        wrong = SqlTextError(
            f"the watermark of {self.column} is the column less a constant interval of days, hours, minutes or seconds:"
            f" {_FORM}",
            self.position,
            "",
        )
        delay = None
        if parsed.kind == "Subtract":
            parsed, delay = parsed.children
        if parsed.name_parts != (self.column.lower(),):
            raise wrong
        if delay is None:
            return TableWatermark(column=self.column, delay_ms=0, position=self.position)
        if delay.kind != "Literal" or not delay.type_name.startswith("interval") or delay.is_of_months:
            raise wrong
        micros = int(delay.value)
        if micros < 0:
            raise wrong
        return TableWatermark(column=self.column, delay_ms=in_ms(micros), position=self.position)


def without_watermark(text: str) -> tuple[str, WatermarkClause | None]:
    """Return the text of CREATE TABLE without the clause, and the clause or None. Raises `SqlTextError`."""
    sequence = tokens(text)
    start = next((number for number, token in enumerate(sequence) if token.matches("(")), None)
    if start is None or not _creates_table(sequence[:start]):
        return text, None
    elements = _elements(sequence, start + 1)
    for number, element in enumerate(elements):
        if not begins_with(element, "WATERMARK", "FOR"):
            continue
        clause = _clause(text, element)
        # The clause is removed with the comma before it or, if it is the first element, the comma after it.
        first = element[0].start if number == 0 else elements[number - 1][-1].end
        last = elements[1][0].start if number == 0 and len(elements) > 1 else element[-1].end
        return blanked(text, first, last), clause
    return text, None


def _creates_table(sequence: Sequence[Token]) -> bool:
    return any(token.matches("CREATE") for token in sequence[:1]) and any(token.matches("TABLE") for token in sequence)


def _clause(text: str, element: Sequence[Token]) -> WatermarkClause:
    position = position_at(text, element[0].start)
    if len(element) < 5 or element[2].kind not in ("word", "name") or not element[3].matches("AS"):
        raise SqlTextError(f"the clause must be written as {_FORM}", position, "")
    start, end = element[4].start, element[-1].end
    return WatermarkClause(
        column=element[2].value, expression=blanked(text[:end], 0, start), position=position_at(text, start)
    )


def _elements(sequence: Sequence[Token], start: int) -> list[list[Token]]:
    """Return the comma-separated elements from a parenthesis to its end."""
    elements: list[list[Token]] = [[]]
    depth = 0
    for token in sequence[start:]:
        if token.matches(")", ">") and depth == 0:
            break
        depth += token.matches("(", "<") - token.matches(")", ">")
        if token.matches(",") and depth == 0:
            elements.append([])
        else:
            elements[-1].append(token)
    return [element for element in elements if element]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWatermark:
    column: str
    delay_ms: int
    position: Position

    def __str__(self) -> str:
        return f"{self.column} - {format_ms(self.delay_ms)}" if self.delay_ms else self.column
