"""Clauses that cannot run on a stream, and what to write instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.api.streams.stream_type import APPEND_ONLY
from flykka.api.streams.transformation import leading_to
from flykka.errors import ProgramError
from flykka.spark_bridge.rows.type_support import Use, unsupported_type

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.spark_bridge.sql.plan_node import Expression, PlanNode, Position

REFUSED_NODES = {
    "Sample": (
        "TABLESAMPLE",
        "it draws other rows each time they are read: WHERE pmod(hash(id), 100) < 10 does not",
    ),
    "ScriptTransformation": (
        "SELECT TRANSFORM",
        "it would start its program again for each batch: call a Python function with map_in_pandas(...) of the stream",
    ),
    "UnionLoop": (
        "WITH RECURSIVE",
        "a new row may need any number of steps: let the common table expression read a table, or write one join per"
        " step",
    ),
}
"""For each unsupported kind of node: its SQL clause, and the reason with an alternative."""

_CLOCKS = frozenset({"CurrentTimestamp", "CurrentDate", "Now", "LocalTimestamp", "CurrentTimeZone", "CurrentTime"})


class RefusedError(ProgramError):
    """Raised if a part of a query cannot run on a stream; `position` is the position of the clause."""

    def __init__(self, text: str, position: Position | None) -> None:
        super().__init__(text)
        self.position = position


def refused_node(node: PlanNode) -> RefusedError:
    nothing = node.kind, "no operator supports it; transform(...) takes DataFrames"
    clause, why = REFUSED_NODES.get(node.kind, nothing)
    return RefusedError(f"{clause} cannot run on a stream: {why}", node.position)


def check_compared(value: Expression, use: Use, clause: str, position: Position | None) -> None:
    if wrong := unsupported_type(value.column, use):
        raise RefusedError(f"{clause}: {wrong}", value.position or position)


def without_event_time(stream: DataStream) -> str:
    marked = [made.name for made in leading_to(stream.flow.inputs) if made.watermark_delay_ms is not None]
    if stream.changelog != APPEND_ONLY:
        return f"its rows are {stream.changelog}, and changing rows have no event time"
    if marked:
        return (
            f"that of {', '.join(marked)} was lost: keep its column unchanged in every subquery and view."
            " Running aggregates, outer joins and joins without bounds have no event time"
        )
    return "give its source a WATERMARK FOR, or a WatermarkStrategy with_timestamp_column(...)"


def check_expressions(node: PlanNode) -> None:
    """Raise `RefusedError` if a restarted job could compute another value for an expression."""
    if node.java.deterministic() and not any(each.kind in _CLOCKS for each in _walk(node)):
        return
    for expression in _walk(node):
        if expression.kind in _CLOCKS:
            raise RefusedError(
                f"{expression.sql} reads the clock, so a restarted job would compute other rows:"
                " use the event time of the stream, or a constant",
                expression.position or node.position,
            )
        if not expression.java.deterministic() and all(each.java.deterministic() for each in expression.children):
            raise RefusedError(
                f"{expression.sql} is not deterministic, so a restarted job would compute other rows: draw it"
                " at the source of the rows, or use hash(...) or xxhash64(...) of a column",
                expression.position or node.position,
            )


def _walk(node: PlanNode) -> list[Expression]:
    return [each for expression in node.expressions for each in expression.walk()]
