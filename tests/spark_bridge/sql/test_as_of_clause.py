"""Tests that the clause of temporal joins is cut out of a text in place, and that a clause with a constant is left to
Spark.
"""

from __future__ import annotations

import re

import pytest

from flykka.spark_bridge.sql.as_of_clause import AsOfClause, without_as_of
from flykka.spark_bridge.sql.plan_node import Position, SqlTextError


def position(line: int, column: int) -> Position:
    return Position(line=line, column=column)


@pytest.mark.parametrize(
    "clause",
    [
        "FOR SYSTEM_TIME AS OF o.at",
        "for system_time as of `o` . at",
        "TIMESTAMP AS OF o.at",
        "FOR TIMESTAMP AS OF o.at",
    ],
)
def test_a_clause_of_a_column_is_blanked(clause: str) -> None:
    text = f"SELECT *\nFROM orders o JOIN rates {clause} AS r ON true"

    without, (parsed,) = without_as_of(text)

    assert without == text.replace(clause, " " * len(clause))
    assert (parsed.table, parsed.column) == (position(2, 20), ("o", "at"))


def test_each_clause_has_its_table_and_position() -> None:
    text = "FROM o JOIN a.b FOR SYSTEM_TIME AS OF at ON x JOIN `c d` FOR SYSTEM_TIME AS OF o.at AS c ON y"

    _, clauses = without_as_of(text)

    assert clauses == (
        AsOfClause(table=position(1, 13), column=("at",), position=position(1, 39)),
        AsOfClause(table=position(1, 52), column=("o", "at"), position=position(1, 80)),
    )


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t TIMESTAMP AS OF '2024-01-01'",
        "SELECT * FROM t FOR SYSTEM_TIME AS OF current_timestamp",
        "SELECT * FROM t TIMESTAMP AS OF date_sub(current_date(), 1)",
        "SELECT * FROM t TIMESTAMP AS OF TIMESTAMP '2024-01-01'",
        "SELECT * FROM t FOR VERSION AS OF 1",
        "SELECT timestamp AS of FROM t",
        "SELECT 'FOR SYSTEM_TIME AS OF o.at' -- FOR SYSTEM_TIME AS OF o.at",
    ],
)
def test_other_text_is_unchanged(text: str) -> None:
    assert without_as_of(text) == (text, ())


@pytest.mark.parametrize(
    ("text", "why", "position"),
    [
        (
            "FROM o JOIN r FOR SYSTEM_TIME AS OF o.at - INTERVAL 1 DAY ON x",
            "is the event time of the left",
            position(1, 37),
        ),
        (
            "FROM o JOIN (SELECT 1) FOR SYSTEM_TIME AS OF o.at AS r",
            "follows the name of a table",
            position(1, 24),
        ),
    ],
)
def test_a_clause_in_another_form_is_refused_at_its_position(text: str, why: str, position: Position) -> None:
    with pytest.raises(SqlTextError, match=re.escape(why)) as refused:
        without_as_of(text)

    assert refused.value.position == position
