"""WATERMARK FOR column AS column - INTERVAL ..., which Spark's grammar does not have, in the columns of CREATE TABLE.

The words are Flink's. The clause is taken out of the text before Spark parses that, and blanked: so everything else is
Spark's language and at its place, and an error within the clause is at the place of the clause. (As an option the
column would be a text that nobody looks at, and its errors would have no place.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flykka.runtime.durations import format_ms
from flykka.spark_bridge.functions.times import in_ms
from flykka.spark_bridge.sql.plan_node import Position, SqlTextError
from flykka.spark_bridge.sql.tokens import Token, blanked, position_at, say, tokens

if TYPE_CHECKING:
    from flykka.spark_bridge.sql.analysis import Statement

_FORM = "WATERMARK FOR column AS column - INTERVAL 10 SECONDS"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkClause:
    """A clause as it stands in a text: the column, and the expression behind AS with all before it blanked."""

    column: str
    expression: str
    position: Position

    def watermark(self, statement: Statement) -> TableWatermark:
        """The watermark, of which `statement` parses the expression.

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
    """The text of CREATE TABLE without the clause, and the clause; None where it has none.

    Raises:
        SqlTextError: the clause is not of the form.
    """
    found = tokens(text)
    start = next((number for number, token in enumerate(found) if token.says("(")), None)
    if start is None or not _creates_table(found[:start]):
        return text, None
    elements = _elements(found, start + 1)
    for number, element in enumerate(elements):
        if not say(element, "WATERMARK", "FOR"):
            continue
        clause = _clause(text, element)
        # With the comma before it, or, of the first element, with the one behind it.
        first = element[0].start if number == 0 else elements[number - 1][-1].end
        last = elements[1][0].start if number == 0 and len(elements) > 1 else element[-1].end
        return blanked(text, first, last), clause
    return text, None


def _creates_table(found: Sequence[Token]) -> bool:
    return any(token.says("CREATE") for token in found[:1]) and any(token.says("TABLE") for token in found)


def _clause(text: str, element: Sequence[Token]) -> WatermarkClause:
    position = position_at(text, element[0].start)
    if len(element) < 5 or element[2].kind not in ("word", "name") or not element[3].says("AS"):
        raise SqlTextError(f"the clause is {_FORM}", position, "")
    start, end = element[4].start, element[-1].end
    return WatermarkClause(
        column=element[2].value, expression=blanked(text[:end], 0, start), position=position_at(text, start)
    )


def _elements(found: Sequence[Token], start: int) -> list[list[Token]]:
    """The parts that commas separate between one parenthesis and its end."""
    elements: list[list[Token]] = [[]]
    depth = 0
    for token in found[start:]:
        if token.says(")", ">") and depth == 0:
            break
        depth += token.says("(", "<") - token.says(")", ">")
        if token.says(",") and depth == 0:
            elements.append([])
        else:
            elements[-1].append(token)
    return [element for element in elements if element]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWatermark:
    """The event-time column of a table, and how far the watermark stays behind it."""

    column: str
    delay_ms: int
    position: Position

    def __str__(self) -> str:
        return f"{self.column} - {format_ms(self.delay_ms)}" if self.delay_ms else self.column
