"""Tests that ON CONFLICT is cut out of an INSERT in place, and that everything else is left to Spark."""

from __future__ import annotations

import re

import pytest

from flykka.spark_bridge.sql.conflict_clause import ConflictClause, without_conflict_clause
from flykka.spark_bridge.sql.plan_node import Position, SqlTextError
from flykka.spark_bridge.worker.upsert_rules import ConflictRule


@pytest.mark.parametrize(
    ("clause", "rule"),
    [
        ("ON CONFLICT DO ERROR", ConflictRule.ERROR),
        ("on conflict do deduplicate", ConflictRule.DEDUPLICATE),
        ("On /* two rows */ Conflict -- of a key\n do Nothing", ConflictRule.NOTHING),
    ],
)
@pytest.mark.parametrize("before", ["", "EXPLAIN ", "  -- a comment\n", "/* ON CONFLICT DO */ explain "])
def test_the_clause_at_the_end_of_an_insert_is_blanked(clause: str, rule: ConflictRule, before: str) -> None:
    text = f"{before}INSERT INTO t SELECT 'ON CONFLICT DO'\nFROM u {clause} -- the end"

    without, parsed = without_conflict_clause(text)

    assert without == text.replace(clause, re.sub(r"[^\n]", " ", clause))
    line = 1 + text[: text.index(clause)].count("\n")
    assert parsed == ConflictClause(rule=rule, position=Position(line=line, column=8))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "INSERT INTO t SELECT * FROM a JOIN b ON conflict",
        "INSERT INTO t SELECT * FROM a JOIN b ON conflict WHERE do",
        "INSERT INTO t SELECT * FROM a JOIN b ON conflict(a.id) AND do",
        "INSERT INTO t SELECT * FROM a JOIN b ON (conflict)",
        "INSERT INTO t SELECT 'ON CONFLICT DO ERROR' -- ON CONFLICT DO ERROR",
        "SELECT on, conflict, do FROM t",
    ],
)
def test_other_text_is_unchanged(text: str) -> None:
    assert without_conflict_clause(text) == (text, None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("INSERT INTO t SELECT 1 ON CONFLICT DO UPDATE SET a = 1", "the clause is the last one of a statement"),
        ("INSERT INTO t SELECT 1 ON CONFLICT (id) DO NOTHING", "names no column"),
        ("INSERT INTO t SELECT 1 ON CONFLICT DO", "INSERT INTO table SELECT ... ON CONFLICT DO ERROR | DO"),
        ("INSERT INTO t          ON CONFLICT DO NOTHING SELECT 1", "the clause is the last one of a statement"),
        ("SELECT 1 FROM u        ON CONFLICT DO NOTHING", "ON CONFLICT belongs to an INSERT"),
    ],
)
def test_a_clause_of_another_form_is_refused_at_its_position(text: str, why: str) -> None:
    with pytest.raises(SqlTextError, match=re.escape(why)) as refused:
        without_conflict_clause(text)

    assert refused.value.position == Position(line=1, column=24)
