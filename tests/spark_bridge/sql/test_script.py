"""Tests the parsing of SQL before Spark's parser: statements of scripts, and the watermark clause."""

from __future__ import annotations

import pytest

from flykka.spark_bridge.sql.script import ScriptStatement, statements
from flykka.spark_bridge.sql.watermark_clause import without_watermark

MARK = "\ufeff"
SCRIPT = "CREATE TABLE t (a INT) -- it's here; no statement\nUSING json;\nSELECT 1;\n"


@pytest.mark.parametrize("script", [MARK + SCRIPT, SCRIPT.replace("\n", "\r\n"), MARK + SCRIPT.replace("\n", "\r\n")])
def test_a_script_with_windows_line_ends_has_the_same_statements_and_positions(script: str) -> None:
    parsed = statements(script)

    assert [each.position for each in parsed] == [each.position for each in statements(SCRIPT)]
    assert [each.text.split() for each in parsed] == [each.text.split() for each in statements(SCRIPT)]


def test_a_single_statement_starts_after_a_byte_order_mark() -> None:
    assert ScriptStatement.whole(f"{MARK}SELECT 1") == ScriptStatement.whole("SELECT 1")


def test_a_byte_order_mark_within_a_text_is_kept() -> None:
    (statement,) = statements(f"SELECT '{MARK}'")

    assert statement.text == f"SELECT '{MARK}'"


@pytest.mark.parametrize("name", ["at", "`event.time`", "`ti``ck`", "`a,b`", "`x)y`", "`for`"])
def test_a_watermark_clause_is_found_for_any_column_name(name: str) -> None:
    clause = f"WATERMARK FOR {name} AS {name} - INTERVAL 5 SECONDS"

    text, watermark = without_watermark(f"CREATE TABLE t ({name} TIMESTAMP, {clause}) USING json")

    assert text.split() == f"CREATE TABLE t ({name} TIMESTAMP ) USING json".split()
    assert watermark is not None
    assert watermark.column == name.strip("`").replace("``", "`")
