"""The SQL page agrees with the planner: supported clauses are planned, and unsupported ones are refused."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from flykka.api.table.statement_executor import set_option
from flykka.errors import SqlError
from flykka.spark_bridge.sql.script import statements
from tests.flykka.api.table.queries import Queries
from tests.flykka.programs import bids
from tests.layout.sources import ROOT

pytestmark = pytest.mark.spark

LINES = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8").splitlines()
NEAR = "b.at BETWEEN a.at AND a.at + INTERVAL 10 MINUTES"
HOURS = "SELECT window, window.start AS s, auction, count(*) AS n FROM bid GROUP BY window(at, '1 hour'), auction"
NUMBER = "row_number() OVER (PARTITION BY auction ORDER BY at) AS n"
NUMBERED = f"SELECT auction, n FROM (SELECT *, {NUMBER} FROM {{}}) WHERE"
OVER = "OVER (PARTITION BY auction ORDER BY at ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS n"
JOINED = "SELECT a.auction, b.auction AS other FROM {} a {} JOIN {} b ON a.auction = b.auction"
OUTER = ("LEFT", "RIGHT", "FULL")
VERSION = "SELECT a.price FROM bid a {} JOIN version FOR SYSTEM_TIME AS OF a.{} AS b ON a.auction = b.auction"

RUNS: dict[str, tuple[str, tuple[str, ...]]] = {
    "`SELECT` of expressions, `WHERE`, subqueries in `FROM`, `WITH`": (
        "where, select(double)",
        ("WITH c AS (SELECT * FROM bid) SELECT price * 2 AS double FROM (SELECT * FROM bid) WHERE price > 1",),
    ),
    "`LATERAL VIEW explode(...)` and other generators": (
        "generate, select(c)",
        ("SELECT c FROM bid LATERAL VIEW explode(split(channel, '-')) AS c",),
    ),
    "`UNION ALL`": ("select(auction)", ("SELECT auction FROM bid UNION ALL SELECT bidder FROM bid",)),
    "`JOIN` with a table, `IN (SELECT ...)` and scalar subqueries of tables": (
        "select(price)",
        (
            "SELECT price FROM bid JOIN item ON auction = id",
            "SELECT price FROM bid WHERE auction IN (SELECT id FROM item)",
            "SELECT price FROM bid WHERE auction > (SELECT max(id) FROM item)",
        ),
    ),
    "`JOIN ... ON a.id = b.id AND b.at BETWEEN a.at AND a.at + INTERVAL 10 MINUTES`, also `LEFT`, `RIGHT` and `FULL`": (
        "interval_join(",
        tuple(f"{JOINED.format('bid', kind, 'bid')} AND {NEAR}" for kind in ("", *OUTER)),
    ),
    "`JOIN ... ON a.id = b.id AND b.at >= a.at`, with a bound on one side only": (
        "interval_join(",
        (f"{JOINED.format('bid', '', 'bid')} AND b.at >= a.at",),
    ),
    "`JOIN ... ON c.window = d.window`, of the starts of windows of one size, or of their ends, also `LEFT`, `RIGHT`"
    " and `FULL`": (
        "interval_join(",
        tuple(
            f"SELECT a.n, b.n AS m FROM ({HOURS}) a {kind} JOIN ({HOURS}) b"
            f" ON a.{of} = b.{of} AND a.auction = b.auction"
            for kind, of in zip(("", *OUTER), ("window", "s", "window.end", "s"), strict=True)
        ),
    ),
    "`INNER JOIN ... ON a.id = b.id` without bounds": ("regular_join(", (JOINED.format("bid", "", "bid"),)),
    "`JOIN ... ON a.id = b.id` of [rows that change](#rows-that-change), also `LEFT`, `RIGHT`, `FULL`, `LEFT SEMI` and"
    " `LEFT ANTI`": (
        "join(auction = auction)",
        (
            *(JOINED.format("auction", kind, "auction") for kind in ("", *OUTER)),
            *(
                f"SELECT a.auction FROM auction a LEFT {kind} JOIN bid b ON a.auction = b.auction"
                for kind in ("SEMI", "ANTI")
            ),
        ),
    ),
    "`JOIN rates FOR SYSTEM_TIME AS OF o.at AS r ON o.currency = r.currency`, also `LEFT`": (
        "temporal_join(",
        (VERSION.format("", "at"), VERSION.format("LEFT", "at")),
    ),
    "`SELECT DISTINCT`, `UNION`, `GROUP BY` without aggregates": (
        "drop_duplicates(auction)",
        (
            "SELECT DISTINCT auction FROM bid",
            "SELECT auction FROM bid UNION SELECT bidder FROM bid",
            "SELECT auction FROM bid GROUP BY auction",
        ),
    ),
    "`GROUP BY` with aggregates": ("aggregate(", ("SELECT auction, count(*) AS n FROM bid GROUP BY auction",)),
    "`GROUP BY window(at, '1 minute')`, `window(at, '1 hour', '5 minutes')`": (
        "aggregate(",
        (
            "SELECT count(*) AS n FROM bid GROUP BY window(at, '1 minute')",
            "SELECT auction, max_by(price, at) AS p FROM bid GROUP BY window(at, '1 hour', '5 minutes'), auction",
        ),
    ),
    "`GROUP BY session_window(at, '5 minutes')`": (
        "aggregate(",
        ("SELECT count(*) AS n FROM bid GROUP BY session_window(at, '5 minutes')",),
    ),
    "`GROUP BY window` of a query that groups by it": (
        "aggregate(",
        (f"SELECT window, max(n) AS most FROM ({HOURS}) GROUP BY window",),
    ),
    "`GROUP BY` of rows that change, `DISTINCT` of them": (
        "changes by auction",
        (
            "SELECT bidder, max(price) AS most FROM auction GROUP BY bidder",
            "SELECT DISTINCT bidder FROM auction",
        ),
    ),
    "`ROW_NUMBER() OVER (PARTITION BY k ORDER BY ...)` with `WHERE n <= 3` around it, or `n < 4`, `n BETWEEN 1 AND 3`,"
    " `n IN (1, 3)`": (
        "first 3 of auction",
        (
            f"{NUMBERED.format('bid')} n <= 3",
            f"{NUMBERED.format('bid')} n < 4",
            f"{NUMBERED.format('bid')} n BETWEEN 1 AND 3",
            f"{NUMBERED.format('auction')} n IN (1, 3)",
        ),
    ),
    "the same with `PARTITION BY window` over results of windows": (
        "first 3 of each window",
        (
            "SELECT n FROM (SELECT *, row_number() OVER (PARTITION BY window ORDER BY n) AS place"
            f" FROM ({HOURS})) WHERE place <= 3",
        ),
    ),
    "`count`, `sum` and `avg` `OVER (PARTITION BY k ORDER BY ... ROWS BETWEEN 10 PRECEDING AND CURRENT ROW)` of rows"
    " that change": (
        "over(",
        tuple(f"SELECT auction, {function}(price) {OVER} FROM auction" for function in ("count", "sum", "avg")),
    ),
}

REFUSED: dict[str, tuple[str, ...]] = {
    "`ORDER BY`, `LIMIT`, `OFFSET`": (
        "SELECT price FROM bid ORDER BY price",
        "SELECT price FROM bid LIMIT 3",
        "SELECT price FROM bid OFFSET 3",
    ),
    "other window functions, `RANK()`, `sum(...) OVER` of rows that do not change": (
        "SELECT rank() OVER (PARTITION BY auction ORDER BY at) AS n FROM bid",
        f"SELECT sum(price) {OVER} FROM bid",
    ),
    "`ROW_NUMBER()` without a bound, or with a bound whose removed rows another clause observes": (
        f"SELECT auction, {NUMBER} FROM bid",
        f"SELECT auction, c FROM (SELECT auction, max(n) AS c FROM (SELECT *, {NUMBER} FROM bid) GROUP BY auction)"
        " WHERE c < 3",
    ),
    "`INTERSECT`, `EXCEPT`": (
        "SELECT auction FROM bid INTERSECT SELECT bidder FROM bid",
        "SELECT auction FROM bid EXCEPT SELECT bidder FROM bid",
    ),
    "`JOIN` of two streams without an equality": ("SELECT a.price FROM bid a JOIN bid b ON a.price > b.price",),
    "`LEFT`, `RIGHT`, `FULL JOIN` without bounds, if a side has no primary key": tuple(
        JOINED.format("bid", kind, "bid") for kind in OUTER
    ),
    "`LEFT SEMI`, `LEFT ANTI JOIN`, if the left stream has no primary key": tuple(
        f"SELECT a.auction FROM bid a LEFT {kind} JOIN auction b ON a.auction = b.auction" for kind in ("SEMI", "ANTI")
    ),
    "`FOR SYSTEM_TIME AS OF` another column than the event time, a `RIGHT` or `FULL` join with it": (
        VERSION.format("", "price"),
        VERSION.format("RIGHT", "at"),
        VERSION.format("FULL", "at"),
    ),
    "`JOIN` of rows that change with a table, or with a stream without a primary key (unless it is the right side of"
    " `LEFT SEMI` or `LEFT ANTI`)": (
        "SELECT price FROM auction JOIN item ON auction = id",
        JOINED.format("auction", "", "bid"),
    ),
    "`UNION ALL` of rows that change, windows over them": (
        "SELECT auction FROM auction UNION ALL SELECT auction FROM auction",
        "SELECT count(*) AS n FROM auction GROUP BY window(at, '1 hour')",
    ),
    "a subquery in an expression that reads a stream": (
        "SELECT * FROM bid WHERE price > (SELECT max(price) FROM bid)",
    ),
    "`now()`, `current_date()`, `rand()`, `uuid()`": tuple(
        f"SELECT {function} AS x FROM bid" for function in ("now()", "current_date()", "rand()", "uuid()")
    ),
    "windows over another column than the event time": (
        "SELECT count(*) AS n FROM (SELECT at, at + INTERVAL 1 DAY AS later FROM bid) GROUP BY window(later, '1 hour')",
    ),
}

STATEMENTS: dict[str, tuple[str, ...]] = {
    "`CREATE [OR REPLACE] TABLE [IF NOT EXISTS] ... USING ...`, `DROP TABLE [IF EXISTS]`": (
        "CREATE OR REPLACE TABLE t (a INT) USING datagen",
        "CREATE TABLE IF NOT EXISTS t (a INT) USING datagen",
        "DROP TABLE IF EXISTS t",
    ),
    "`CREATE [OR REPLACE] TEMPORARY VIEW name AS SELECT ...`, `DROP VIEW [IF EXISTS]`": (
        "CREATE OR REPLACE TEMPORARY VIEW v AS SELECT * FROM bid",
        "DROP VIEW IF EXISTS v",
    ),
    "`CREATE TEMPORARY FUNCTION`, `DROP TEMPORARY FUNCTION`: Spark's own, for its session": (
        "CREATE TEMPORARY FUNCTION f(x INT) RETURNS INT RETURN x",
        "DROP TEMPORARY FUNCTION f",
    ),
    "`INSERT INTO table [(columns)] [BY NAME] SELECT ...`": (
        "INSERT INTO t SELECT 1",
        "INSERT INTO t (a) SELECT 1",
        "INSERT INTO t BY NAME SELECT 1 AS a",
    ),
    "`EXECUTE STATEMENT SET BEGIN INSERT ...; INSERT ...; END`": (
        "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT 1; END",
    ),
    "`EXPLAIN SELECT ...`, `EXPLAIN INSERT ...`": ("EXPLAIN SELECT 1", "EXPLAIN INSERT INTO t SELECT 1"),
    "`SHOW TABLES`, `SHOW VIEWS`, `DESCRIBE name`": ("SHOW TABLES", "SHOW VIEWS", "DESCRIBE t"),
    "`SET 'key' = 'value'`": ("SET 'parallelism' = '2'",),
}


@pytest.fixture(scope="module")
def queries(spark: SparkSession) -> Iterator[Queries]:
    spark.createDataFrame([(1, "boots")], "id bigint, title string").createOrReplaceTempView("item")
    made = Queries(spark)
    made.create_temporary_view("auction", bids(spark, made.program, event_time=None), primary_key="auction")
    made.create_temporary_view("version", bids(spark, made.program), primary_key="auction")
    yield made
    spark.catalog.dropTempView("item")


def page_table(first: str) -> dict[str, list[str]]:
    """The rows of the page's table whose first column has this title, by their first cell."""
    start = next(number for number, line in enumerate(LINES) if line.startswith(f"| {first} |"))
    rows = []
    for line in LINES[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return {cell: others for cell, *others in rows}


@pytest.mark.parametrize(("first", "cases"), [("in the text", RUNS), ("clause", REFUSED), ("statement", STATEMENTS)])
def test_every_row_of_the_page_has_a_case_and_vice_versa(first: str, cases: dict[str, object]) -> None:
    assert list(page_table(first)) == list(cases)


first_and_all = pytest.mark.parametrize(
    "is_whole", [False, pytest.param(True, marks=pytest.mark.long)], ids=["first", "all"]
)
"""The first text of each row; all texts only in long runs, because planning has tests of its own."""


@first_and_all
@pytest.mark.parametrize("row", RUNS)
def test_a_supported_clause_becomes_its_operator_with_the_documented_state(
    queries: Queries, row: str, is_whole: bool
) -> None:
    operator, texts = RUNS[row]
    _, keeps = page_table("in the text")[row]

    for text in texts if is_whole else texts[:1]:
        explained = queries.explain_sql(text)
        assert re.search(rf"^ +\d+\. (.*, )?{re.escape(operator)}", explained, re.MULTILINE), explained
        assert ("keeps" in explained) == (keeps != "nothing"), explained
        if "for ever" in keeps:
            assert "WARNING" in explained


@first_and_all
@pytest.mark.parametrize("row", REFUSED)
def test_an_unsupported_clause_is_refused_at_its_position(queries: Queries, row: str, is_whole: bool) -> None:
    for text in REFUSED[row] if is_whole else REFUSED[row][:1]:
        with pytest.raises(SqlError) as refused:
            queries.sql(text)
        assert refused.value.line == 1, text


@pytest.mark.parametrize("row", STATEMENTS)
def test_every_statement_of_the_page_is_parsed(queries: Queries, row: str) -> None:
    for (statement,) in map(statements, STATEMENTS[row]):
        if set_option(statement.text) is None:
            parts = statement.members or (statement,)
            assert all(queries.statement_executor.statements.parsed(each).command is not None for each in parts)
