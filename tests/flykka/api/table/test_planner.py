"""Planning of each kind of plan node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from flykka.api.streams.stream_type import APPEND_ONLY, Changelog
from flykka.api.table.refusals import REFUSED_NODES
from flykka.errors import SqlError
from flykka.spark_bridge.functions.event_time import EventTime
from flykka.spark_bridge.functions.windowing.time_windows import SlidingEventTimeWindows, TumblingEventTimeWindows
from flykka.spark_bridge.operators.session_windows import SessionWindowCode
from flykka.spark_bridge.operators.spark_windows import WindowCode
from tests.flykka.api.table.queries import Queries

pytestmark = pytest.mark.spark


@pytest.fixture
def queries(spark: SparkSession) -> Iterator[Queries]:
    spark.createDataFrame([(1, "boots")], "id bigint, title string").createOrReplaceTempView("item")
    yield Queries(spark)
    spark.catalog.dropTempView("item")


@pytest.mark.parametrize(
    ("query", "operators"),
    [
        ("SELECT auction, price * 2 AS double FROM bid b WHERE price > 8", ["where, select(auction, double)"]),
        ("SELECT * FROM (SELECT auction FROM bid) WHERE auction = 1", ["where, select(auction)"]),
        ("SELECT auction, c FROM bid LATERAL VIEW explode(split(channel, '-')) AS c", ["generate, select(auction, c)"]),
        ("SELECT title, price FROM bid JOIN item ON auction = id", ["join, select(title, price)"]),
        ("SELECT price FROM bid WHERE auction IN (SELECT id FROM item)", ["where, select(price)"]),
        ("SELECT DISTINCT auction FROM bid", ["select(auction)", "drop_duplicates(auction)"]),
        ("SELECT auction FROM bid GROUP BY auction", ["select(auction)", "drop_duplicates(auction)"]),
        (
            "SELECT auction FROM bid UNION ALL SELECT bidder FROM bid",
            ["select(auction)", "select(auction)"],
        ),
        (
            "SELECT auction, count(*) AS n FROM bid GROUP BY auction",
            ["aggregate(count(1) AS n)"],
        ),
        (
            "SELECT max(price) + 1 AS m, auction FROM bid GROUP BY auction",
            ["aggregate(max(bid.price) AS max(bid.price))", "select(m, auction)"],
        ),
        (
            "SELECT auction, bidder, r FROM"
            " (SELECT *, row_number() OVER (PARTITION BY auction ORDER BY at) AS r FROM bid) WHERE r <= 2",
            [
                "select(auction, bidder, price, channel, at)",
                "first 2 of auction",
                "select(auction, bidder, r)",
            ],
        ),
        (
            "WITH dear AS (SELECT * FROM bid WHERE price > 50) SELECT price FROM dear",
            ["where, select(auction, bidder, price, channel, at)", "select(price)"],
        ),
        (
            "SELECT b.price FROM bid b JOIN timeless t ON b.auction = t.auction",
            ["regular_join(auction = auction)", "select(price)"],
        ),
        (
            "SELECT window, count(*) AS n FROM bid GROUP BY window(at, '10 seconds')",
            ["where, select(auction, bidder, price, channel, at)", "aggregate(count(1) AS n)", "select(window, n)"],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_plan_nodes_become_operators(queries: Queries, query: str, operators: list[str]) -> None:
    found = queries.operators(query)

    assert [name for name in found if name not in ("select(window, n)",)] == [
        name for name in operators if name not in ("select(window, n)",)
    ]


REFUSED = {
    "Sample": "SELECT price FROM bid TABLESAMPLE (10 PERCENT)",
    "ScriptTransformation": "SELECT TRANSFORM (price) USING 'cat' AS (price STRING) FROM bid",
    "UnionLoop": "WITH RECURSIVE r (n) AS (SELECT price FROM bid UNION ALL SELECT n + 1 FROM r WHERE n < 5)"
    " SELECT n FROM r",
}


@pytest.mark.parametrize("node", REFUSED)
def test_nodes_without_an_operator_are_refused_by_their_clause(queries: Queries, node: str) -> None:
    clause, why = REFUSED_NODES[node]

    with pytest.raises(SqlError) as refused:
        queries.sql(REFUSED[node])

    assert f"{clause} cannot run on a stream: {why}" in str(refused.value)


def test_each_refused_clause_has_a_test_case() -> None:
    assert REFUSED_NODES.keys() == REFUSED.keys()


def test_an_explained_query_leaves_the_program_unchanged(queries: Queries) -> None:
    before = queries.program.transformations

    queries.explain_sql("SELECT DISTINCT auction FROM bid")

    assert queries.program.transformations == before


def test_a_refused_query_leaves_the_program_unchanged(queries: Queries) -> None:
    before = queries.program.transformations

    with pytest.raises(SqlError, match="TABLESAMPLE"):
        queries.sql("SELECT * FROM (SELECT DISTINCT auction FROM bid) TABLESAMPLE (10 PERCENT)")

    assert queries.program.transformations == before


def test_a_common_table_that_is_read_twice_is_one_operator(queries: Queries) -> None:
    twice = "WITH dear AS (SELECT DISTINCT auction FROM bid) SELECT * FROM dear UNION ALL SELECT * FROM dear"

    assert queries.operators(twice).count("drop_duplicates(auction)") == 1


@pytest.mark.parametrize(
    ("cut", "windows"),
    [
        pytest.param("window(at, '10 seconds')", TumblingEventTimeWindows.of("10s"), marks=pytest.mark.long),
        ("window(at, '10 seconds', '10 seconds', '3 seconds')", TumblingEventTimeWindows.of("10s", "3s")),
        ("window(at, '10 seconds', '2 seconds', '1 second')", SlidingEventTimeWindows.of("10s", "2s", "1s")),
        pytest.param("window(at, '1 day')", TumblingEventTimeWindows.of("1d"), marks=pytest.mark.long),
        pytest.param(
            "window(at, '7 seconds', '2 seconds')", SlidingEventTimeWindows.of("7s", "2s"), marks=pytest.mark.long
        ),
    ],
)
def test_windows_match_the_query(
    queries: Queries, cut: str, windows: TumblingEventTimeWindows | SlidingEventTimeWindows
) -> None:
    queries.sql(f"SELECT auction, count(*) AS n FROM bid GROUP BY auction, {cut}")

    (code,) = (made.code for made in queries.program.transformations if isinstance(made.code, WindowCode))
    assert code.windows == windows
    assert code.event_time == EventTime(column="at")


def test_sessions_match_the_query(queries: Queries) -> None:
    queries.sql("SELECT auction, count(*) AS n FROM bid GROUP BY auction, session_window(at, '90 seconds')")

    (code,) = (made.code for made in queries.program.transformations if isinstance(made.code, SessionWindowCode))
    assert code.gap_ms == 90_000


def test_results_of_sliding_windows_are_aggregated_in_windows_of_their_slide(queries: Queries) -> None:
    counts = "SELECT window, auction, count(*) AS n FROM bid GROUP BY window(at, '10 seconds', '2 seconds'), auction"
    queries.sql(f"SELECT window, max(n) AS most FROM ({counts}) GROUP BY window")

    first, second = (made.code for made in queries.program.transformations if isinstance(made.code, WindowCode))
    assert first.windows == SlidingEventTimeWindows.of("10s", "2s")
    assert second.windows == TumblingEventTimeWindows.of("2s")


@pytest.mark.parametrize(
    ("query", "changelog"),
    [
        ("SELECT auction FROM bid", APPEND_ONLY),
        ("SELECT DISTINCT auction FROM bid", APPEND_ONLY),
        ("SELECT auction, count(*) AS n FROM bid GROUP BY auction, window(at, '1 hour')", APPEND_ONLY),
        ("SELECT auction AS a, count(*) AS n FROM bid GROUP BY auction", Changelog(keys=("a",))),
        ("SELECT n + 1 AS m, a FROM (SELECT auction AS a, count(*) AS n FROM bid GROUP BY 1)", Changelog(keys=("a",))),
        ("SELECT count(*) AS n FROM bid", Changelog(keys=())),
        (
            "SELECT auction AS a, price FROM (SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC) r"
            " FROM bid) WHERE r = 1",
            Changelog(keys=("a",)),
        ),
    ],
)
def test_a_result_is_recognised_as_append_only_or_changing(queries: Queries, query: str, changelog: Changelog) -> None:
    assert queries.sql(query).changelog == changelog


@pytest.mark.parametrize(
    ("query", "event_time"),
    [
        ("SELECT price, at FROM bid", "at"),
        ("SELECT price, at AS t FROM bid", "t"),
        ("SELECT price, at + INTERVAL 1 DAY AS at FROM bid", "none"),
        ("SELECT price FROM bid", "none"),
        ("SELECT at FROM bid UNION ALL SELECT at FROM bid", "at"),
        ("SELECT window.end AS e, count(*) AS n FROM bid GROUP BY window(at, '1 hour')", "e -1 ms"),
        ("SELECT w.end AS e FROM (SELECT window AS w, count(*) FROM bid GROUP BY window(at, '1 hour'))", "e -1 ms"),
    ],
)
def test_event_time_is_tracked_through_a_query(queries: Queries, query: str, event_time: str) -> None:
    assert f"event time {event_time}" in queries.explain_sql(query).splitlines()


def test_explain_warns_of_state_that_never_expires(queries: Queries) -> None:
    assert queries.explain_sql("SELECT auction AS a, count(*) AS n FROM bid GROUP BY auction").splitlines() == [
        "operators",
        "  1. bids",
        "  2. aggregate(count(1) AS n)  <- 1",
        "       keeps the aggregates of each key forever",
        "changelog  upserts by a",
        "event time none",
        "WARNING: the state of 2. aggregate(count(1) AS n) never expires: it grows with every new key. GROUP BY"
        " window(...) only keeps open windows",
    ]
    windowed = queries.explain_sql("SELECT count(*) AS n FROM bid GROUP BY window(at, '1 minute')")
    assert "WARNING" not in windowed
    assert "keeps the aggregates of each window until the watermark reaches its end" in windowed


def test_the_session_has_no_views_of_streams(queries: Queries, spark: SparkSession) -> None:
    before = spark.sql("SHOW TABLES").collect()

    queries.sql("SELECT auction FROM bid")

    assert spark.sql("SHOW TABLES").collect() == before
