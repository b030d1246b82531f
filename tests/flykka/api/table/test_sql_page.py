"""The SQL page agrees with the planner: supported clauses are planned, and unsupported ones are refused."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flykka.api.table.statement_executor import set_option
from flykka.errors import SqlError
from flykka.spark_bridge.sql.script import statements
from tests.flykka.api.table.queries import Queries
from tests.flykka.programs import bids
from tests.layout.sources import ROOT

pytestmark = pytest.mark.spark

LINES = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8").splitlines()
APPENDED, CHANGES, DELETES = "append-only", "changes of whole rows", "upserts and deletes"
NEAR = "b.at BETWEEN a.at AND a.at + INTERVAL 10 MINUTES"
HOURS = "SELECT window, window.start AS s, auction, count(*) AS n FROM bid GROUP BY window(at, '1 hour'), auction"
NUMBER = "row_number() OVER (PARTITION BY auction ORDER BY at) AS n"
NUMBERED = f"SELECT auction, n FROM (SELECT *, {NUMBER} FROM bid) WHERE"
OVER = "OVER (PARTITION BY auction ORDER BY at ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS n"
JOINED = "SELECT a.auction, b.auction AS other FROM {} a {} JOIN {} b ON a.auction = b.auction"
EXISTS = "SELECT auction FROM bid a WHERE {} EXISTS (SELECT 1 FROM bid b WHERE b.bidder = a.auction)"
OUTER = ("LEFT", "RIGHT", "FULL")
VERSION = "SELECT a.price FROM bid a {} JOIN version FOR SYSTEM_TIME AS OF a.{} AS b ON a.auction = b.auction"

RUNS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "`SELECT` of expressions, `WHERE`, subqueries in `FROM`, `WITH`": (
        "where, select(double)",
        APPENDED,
        ("WITH c AS (SELECT * FROM bid) SELECT price * 2 AS double FROM (SELECT * FROM bid) WHERE price > 1",),
    ),
    "`LATERAL VIEW explode(...)` and other generators, `UNPIVOT`": (
        "",
        APPENDED,
        (
            "SELECT c FROM bid LATERAL VIEW explode(split(channel, '-')) AS c",
            "SELECT * FROM bid UNPIVOT (v FOR k IN (price))",
        ),
    ),
    "`ORDER BY` without `LIMIT`, `DISTRIBUTE BY`, hints to repartition": (
        "select(price)",
        APPENDED,
        (
            "SELECT price FROM bid ORDER BY price",
            "SELECT price FROM bid DISTRIBUTE BY price",
            "SELECT /*+ REPARTITION(3) */ price FROM bid",
            "SELECT /*+ REBALANCE */ price FROM bid",
        ),
    ),
    "`UNION ALL`": ("select(auction)", APPENDED, ("SELECT auction FROM bid UNION ALL SELECT bidder FROM bid",)),
    "`JOIN` with a table, `IN (SELECT ...)` and scalar subqueries of tables": (
        "select(price)",
        APPENDED,
        (
            "SELECT price FROM bid JOIN item ON auction = id",
            "SELECT price FROM bid WHERE auction IN (SELECT id FROM item)",
            "SELECT price FROM bid WHERE auction > (SELECT max(id) FROM item)",
        ),
    ),
    "`UNION` with a table": ("table(id)", APPENDED, ("SELECT auction FROM bid UNION ALL SELECT id FROM item",)),
    "a `JOIN` or subquery that emits rows of a table by themselves, as `item LEFT JOIN bid`": (
        "table(id, title)",
        CHANGES,
        (
            "SELECT id, price FROM item LEFT JOIN bid ON auction = id",
            "SELECT id, price FROM bid RIGHT JOIN item ON auction = id",
            "SELECT id, price FROM bid FULL JOIN item ON auction = id",
            "SELECT id FROM item WHERE id IN (SELECT auction FROM bid)",
        ),
    ),
    "`UNION ALL`, `explode`, a `JOIN` with a table, or a `SELECT` without the key, of"
    " [rows that change](#rows-that-change)": (
        "weights",
        CHANGES,
        (
            "SELECT price FROM auction",
            "SELECT auction FROM auction UNION ALL SELECT auction FROM bid",
            "SELECT auction, explode(split(channel, '-')) AS c FROM auction",
            "SELECT auction, title FROM auction LEFT JOIN item ON auction = id",
        ),
    ),
    "`JOIN ... ON a.id = b.id AND b.at BETWEEN a.at AND a.at + INTERVAL 10 MINUTES`, also `LEFT`, `RIGHT` and `FULL`": (
        "interval_join(",
        APPENDED,
        tuple(f"{JOINED.format('bid', kind, 'bid')} AND {NEAR}" for kind in ("", *OUTER)),
    ),
    "`JOIN ... ON a.id = b.id AND b.at >= a.at`, with a bound on one side only": (
        "interval_join(",
        APPENDED,
        (f"{JOINED.format('bid', '', 'bid')} AND b.at >= a.at",),
    ),
    "`JOIN ... ON c.window = d.window`, of the starts of windows of one size, or of their ends, also `LEFT`, `RIGHT`"
    " and `FULL`": (
        "interval_join(",
        APPENDED,
        tuple(
            f"SELECT a.n, b.n AS m FROM ({HOURS}) a {kind} JOIN ({HOURS}) b"
            f" ON a.{of} = b.{of} AND a.auction = b.auction"
            for kind, of in zip(("", *OUTER), ("window", "s", "window.end", "s"), strict=True)
        ),
    ),
    "`INNER JOIN ... ON a.id = b.id` without bounds": (
        "regular_join(",
        APPENDED,
        (JOINED.format("bid", "", "bid"),),
    ),
    "`LEFT`, `RIGHT` and `FULL JOIN` without bounds, `LEFT SEMI`, `LEFT ANTI`, joins without an equality, and all joins"
    " of rows that change": (
        "join(",
        f"{CHANGES}|{DELETES} by auction",
        (
            JOINED.format("auction", "", "auction"),
            *(JOINED.format("bid", kind, "bid") for kind in OUTER),
            *(JOINED.format("auction", kind, "bid") for kind in OUTER),
            f"{JOINED.format('bid', 'FULL', 'bid')} AND a.price > b.price",
            f"{JOINED.format('bid', 'LEFT', 'bid')} AND ({NEAR} OR a.price = b.price)",
            "SELECT a.price FROM bid a JOIN bid b ON a.price > b.price",
            "SELECT a.price FROM bid a CROSS JOIN auction b",
            *(
                f"SELECT a.auction FROM {left} a LEFT {kind} JOIN bid b ON a.auction = b.auction AND {NEAR}"
                for left in ("auction", "bid")
                for kind in ("SEMI", "ANTI")
            ),
        ),
    ),
    "`IN`, `NOT IN`, `EXISTS`, `LATERAL`, scalar and correlated subqueries of streams": (
        "join(",
        CHANGES,
        (
            "SELECT auction FROM bid WHERE price > 3 OR auction IN (SELECT bidder FROM bid)",
            "SELECT auction FROM bid WHERE auction NOT IN (SELECT bidder FROM auction)",
            EXISTS.format(""),
            EXISTS.format("NOT"),
            "SELECT price, (SELECT max(price) FROM bid) AS highest FROM bid",
            "SELECT price FROM bid a WHERE price > (SELECT avg(price) FROM bid b WHERE b.auction = a.auction)",
            "SELECT price, e FROM bid a, LATERAL (SELECT max(price) AS e FROM bid b WHERE b.auction = a.auction)",
            f"{JOINED.format('bid', '', 'bid')} AND a.price + b.price IN (SELECT bidder FROM bid)",
            f"{JOINED.format('bid', 'LEFT', 'bid')} AND a.price + b.price > (SELECT avg(price) FROM bid)",
            "SELECT auction FROM bid WHERE EXISTS (SELECT 1 FROM auction)",
            "SELECT sum(price) - (SELECT max(price) FROM bid) AS s FROM bid GROUP BY auction",
        ),
    ),
    "`JOIN rates FOR SYSTEM_TIME AS OF o.at AS r ON o.currency = r.currency`, also `LEFT`": (
        "temporal_join(",
        APPENDED,
        (VERSION.format("", "at"), VERSION.format("LEFT", "at")),
    ),
    "`SELECT DISTINCT`, `UNION`, `GROUP BY` without aggregates": (
        "drop_duplicates(auction)",
        APPENDED,
        (
            "SELECT DISTINCT auction FROM bid",
            "SELECT auction FROM bid UNION SELECT bidder FROM bid",
            "SELECT auction FROM bid GROUP BY auction",
        ),
    ),
    "`INTERSECT`, `EXCEPT`, also with `ALL`": (
        "aggregate(",
        f"{CHANGES}|{DELETES} by auction",
        tuple(
            f"SELECT auction FROM bid {operation} SELECT bidder FROM {other}"
            for operation in ("INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL")
            for other in ("bid", "auction")
        ),
    ),
    "`GROUP BY` with `count`, `sum`, `min`, `max`, `avg`": (
        "aggregate(",
        "upserts by auction",
        ("SELECT auction, count(*) AS n, max(price) AS p FROM bid GROUP BY auction",),
    ),
    "the same with `GROUPING SETS`, `CUBE` or `ROLLUP`": (
        "aggregate(",
        CHANGES,
        tuple(
            f"SELECT auction, bidder, count(*) AS n FROM {rows} GROUP BY {sets}"
            for sets in ("GROUPING SETS ((auction), (bidder))", "CUBE (auction, bidder)", "ROLLUP (auction, bidder)")
            for rows in ("bid", "auction")
        ),
    ),
    "`count`, `DISTINCT`, and `sum` and `avg` of exact numbers, of rows that change": (
        "changes by",
        f"{DELETES} by bidder",
        (
            "SELECT bidder, count(*) AS n, sum(auction) AS s, avg(auction) AS mean FROM auction GROUP BY bidder",
            "SELECT DISTINCT bidder FROM auction",
            "SELECT bidder FROM auction UNION SELECT bidder FROM bid",
        ),
    ),
    "all other aggregates, such as `percentile`, `collect_list`, those of Python, `PIVOT`, and `min` of rows that"
    " change": (
        "aggregate(",
        f"{DELETES} (by (auction|bidder)|of one row)",
        (
            "SELECT auction, percentile(price, 0.5) AS p FROM bid GROUP BY auction",
            "SELECT bidder, collect_list(price) AS p FROM auction GROUP BY bidder",
            "SELECT auction, mean_of(price) AS p FROM bid GROUP BY auction",
            "SELECT * FROM (SELECT auction, channel, price FROM bid) PIVOT (max(price) FOR channel IN ('a', 'b'))",
            "SELECT bidder, min(price) AS p, avg(price) AS mean FROM auction GROUP BY bidder",
            "SELECT count(DISTINCT price, bidder) AS n FROM bid",
        ),
    ),
    "`GROUP BY window(at, '1 minute')`, `window(at, '1 hour', '5 minutes')`": (
        "aggregate(",
        APPENDED,
        (
            "SELECT count(*) AS n FROM bid GROUP BY window(at, '1 minute')",
            "SELECT auction, max_by(price, at) AS p FROM bid GROUP BY window(at, '1 hour', '5 minutes'), auction",
        ),
    ),
    "`GROUP BY session_window(at, '5 minutes')` with `count`, `sum`, `min`, `max`, `avg`": (
        "aggregate(",
        APPENDED,
        ("SELECT count(*) AS n FROM bid GROUP BY session_window(at, '5 minutes')",),
    ),
    "the same with other aggregates or `DISTINCT`, groups of its results by session": (
        "aggregate(",
        CHANGES,
        (
            "SELECT percentile(price, 0.5) AS n FROM bid GROUP BY session_window(at, '5 minutes')",
            "SELECT auction, count(DISTINCT price) AS n FROM bid GROUP BY session_window(at, '5 minutes'), auction",
            "SELECT s, max(n) AS m FROM (SELECT session_window AS s, auction, count(*) AS n FROM bid"
            " GROUP BY session_window(at, '5 minutes'), auction) GROUP BY s",
        ),
    ),
    "`GROUP BY window` of a query that groups by it": (
        "aggregate(",
        APPENDED,
        (f"SELECT window, max(n) AS most FROM ({HOURS}) GROUP BY window",),
    ),
    "windows over another column, or of rows that change": (
        "aggregate(",
        f"(upserts|{DELETES}) by window|{CHANGES}",
        (
            "SELECT window, count(*) AS n FROM timeless GROUP BY window(at, '1 hour')",
            "SELECT window, count(*) AS n FROM auction GROUP BY window(at, '1 hour', '5 minutes')",
            "SELECT session_window, count(*) AS n FROM auction GROUP BY session_window(at, '1 hour')",
        ),
    ),
    "`ROW_NUMBER() OVER (PARTITION BY k ORDER BY ...)` with `WHERE n <= 3` around it, or `n < 4`, `n BETWEEN 1 AND 3`,"
    " `n IN (1, 3)`": (
        "first 3 of auction",
        "upserts by auction, n",
        (
            f"{NUMBERED} n <= 3",
            f"{NUMBERED} n < 4",
            f"{NUMBERED} n BETWEEN 1 AND 3",
            f"{NUMBERED} n IN (1, 3)",
        ),
    ),
    "the same with `PARTITION BY window` over results of windows": (
        "first 3 of each window",
        APPENDED,
        (
            "SELECT n FROM (SELECT *, row_number() OVER (PARTITION BY window ORDER BY n) AS place"
            f" FROM ({HOURS})) WHERE place <= 3",
        ),
    ),
    "all other window functions, such as `RANK()`, `lag(...)`, `sum(...) OVER`, also of rows that change": (
        "window(",
        f"{CHANGES}|{DELETES} by auction",
        (
            *(
                f"SELECT auction, {function} OVER (PARTITION BY auction ORDER BY at) AS n FROM {rows}"
                for function in ("rank()", "lag(price)", "row_number()")
                for rows in ("bid", "auction")
            ),
            f"SELECT auction, sum(price) {OVER} FROM bid",
            f"SELECT auction, n FROM (SELECT *, {NUMBER} FROM auction) WHERE n <= 3",
            f"SELECT auction, c FROM (SELECT auction, max(n) AS c FROM (SELECT *, {NUMBER} FROM bid) GROUP BY auction)"
            " WHERE c < 3",
        ),
    ),
    "`LIMIT`, `OFFSET`, with or without `ORDER BY`": (
        "first()",
        CHANGES,
        (
            "SELECT price FROM bid ORDER BY price LIMIT 3",
            "SELECT price FROM auction LIMIT 3",
            "SELECT price FROM bid ORDER BY price LIMIT 3 OFFSET 3",
        ),
    ),
}
"""For each row of the page: an operator, a pattern of the result's changelog, and queries."""

REFUSED: dict[str, tuple[str, ...]] = {
    "`now()`, `current_date()`, `rand()`, `uuid()`": tuple(
        f"SELECT {function} AS x FROM {rows}"
        for function in ("now()", "current_date()", "rand()", "uuid()")
        for rows in ("bid", "auction")
    ),
    "`TABLESAMPLE`": ("SELECT price FROM bid TABLESAMPLE (10 PERCENT)",),
    "`SELECT TRANSFORM`": ("SELECT TRANSFORM (price) USING 'cat' AS (price STRING) FROM bid",),
    "`WITH RECURSIVE` over a stream": (
        "WITH RECURSIVE r (n) AS (SELECT price FROM bid UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r",
    ),
    "`FOR SYSTEM_TIME AS OF` another column than the event time, a `RIGHT` or `FULL` join with it": (
        VERSION.format("", "price"),
        VERSION.format("RIGHT", "at"),
        VERSION.format("FULL", "at"),
    ),
    "in the `ON` of an outer join, a subquery that compares columns of both sides": tuple(
        f"{JOINED.format('bid', kind, 'bid')} AND a.price + b.price IN (SELECT id FROM item)" for kind in OUTER
    ),
    "a subquery of a stream in `ORDER BY` or `explode(...)`": (
        "SELECT price FROM bid ORDER BY price - (SELECT avg(price) FROM bid) LIMIT 3",
        "SELECT explode(array(price, (SELECT max(price) FROM bid))) AS p FROM bid",
    ),
    "a correlated subquery with `LIMIT`, without `ORDER BY`": (
        "SELECT price FROM bid a WHERE EXISTS (SELECT 1 FROM bid b WHERE b.bidder = a.auction LIMIT 1)",
    ),
    "a `session_window` whose gaps differ between rows, or are in months": (
        "SELECT count(*) AS n FROM bid GROUP BY session_window(at, IF(price > 3, '1 minute', '5 minutes'))",
        "SELECT count(*) AS n FROM bid GROUP BY session_window(at, '1 month')",
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
    "`INSERT INTO table [(columns)] [BY NAME] SELECT ...`": tuple(
        f"INSERT INTO t {rows}" for rows in ("SELECT 1", "(a) SELECT 1", "BY NAME SELECT 1 AS a")
    ),
    "the same with `ON CONFLICT DO ERROR`, `DO DEDUPLICATE` or `DO NOTHING` at the end": tuple(
        f"INSERT INTO t SELECT 1 ON CONFLICT DO {rule}" for rule in ("ERROR", "DEDUPLICATE", "NOTHING")
    ),
    "`EXECUTE STATEMENT SET BEGIN INSERT ...; INSERT ...; END`": (
        "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT 1; END",
    ),
    "`EXPLAIN SELECT ...`, `EXPLAIN INSERT ...`": ("EXPLAIN SELECT 1", "EXPLAIN INSERT INTO t SELECT 1"),
    "`SHOW TABLES`, `SHOW VIEWS`, `DESCRIBE name`": ("SHOW TABLES", "SHOW VIEWS", "DESCRIBE t"),
    "`SET 'key' = 'value'`": ("SET 'parallelism' = '2'",),
}


def mean(prices: pd.Series) -> float:
    return float(prices.mean())


@pytest.fixture(scope="module")
def queries(spark: SparkSession) -> Iterator[Queries]:
    spark.createDataFrame([(1, "boots")], "id bigint, title string").createOrReplaceTempView("item")
    spark.udf.register("mean_of", F.pandas_udf(mean, "double"))  # type: ignore[call-overload]
    made = Queries(spark)
    made.create_temporary_view("auction", bids(spark, made.program, event_time=None), primary_key="auction")
    made.create_temporary_view("version", bids(spark, made.program), primary_key="auction")
    yield made
    spark.catalog.dropTempView("item")
    spark.sql("DROP TEMPORARY FUNCTION mean_of")


def page_table(first: str) -> dict[str, list[str]]:
    """Return the rows of the page's table whose first column has this title, by their first cell."""
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
"""The first query of each row; all queries only in long runs, because planning has its own tests."""


@first_and_all
@pytest.mark.parametrize("row", RUNS)
def test_a_supported_clause_becomes_its_operator_with_the_documented_state(
    queries: Queries, row: str, is_whole: bool
) -> None:
    operator, changelog, texts = RUNS[row]
    _, keeps = page_table("in the text")[row]

    for text in texts if is_whole else texts[:1]:
        explained = queries.explain_sql(text)
        assert re.search(rf"^ +\d+\. (.*, )?{re.escape(operator)}", explained, re.MULTILINE), explained
        assert ("keeps" in explained) == (keeps != "nothing"), explained
        assert ("never expires" in explained) == ("forever" in keeps), explained
        assert re.search(rf"^changelog  ({changelog})", explained, re.MULTILINE), explained


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
