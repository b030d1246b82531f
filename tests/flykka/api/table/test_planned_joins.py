"""Planning of joins of two streams: their conditions decide between interval, window and regular joins."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from flykka.actors.machines.joins.interval_segments import UNBOUNDED_MS, Interval
from flykka.spark_bridge.operators.join import Side
from flykka.spark_bridge.operators.join_code import IntervalJoinCode, PairsCode, RegularJoinCode
from tests.flykka.api.table.queries import Queries

pytestmark = pytest.mark.spark

MINUTE = 60_000
COUNTS = "SELECT window, window.end AS e, auction, count(*) AS n FROM bid GROUP BY window(at, '10 seconds'), auction"


@pytest.fixture
def queries(spark: SparkSession) -> Queries:
    return Queries(spark)


def joins(queries: Queries, query: str) -> list[PairsCode]:
    queries.sql(query)
    return [made.code for made in queries.program.transformations if isinstance(made.code, PairsCode)]


def between(lower_ms: int, upper_ms: int, brackets: str = "[]") -> Interval:
    return Interval(
        lower_ms=lower_ms,
        upper_ms=upper_ms,
        is_lower_inclusive=brackets[0] == "[",
        is_upper_inclusive=brackets[1] == "]",
    )


@pytest.mark.parametrize(
    ("condition", "interval"),
    [
        ("b.at BETWEEN a.at AND a.at + INTERVAL 10 MINUTES", between(0, 10 * MINUTE)),
        pytest.param("a.at BETWEEN b.at - INTERVAL '5' SECOND AND b.at", between(0, 5_000), marks=pytest.mark.long),
        ("b.at > a.at AND b.at < a.at + INTERVAL '1' MINUTE", between(0, MINUTE, "()")),
        pytest.param(
            "b.at >= a.at - INTERVAL 1 MINUTE AND a.at > b.at", between(-MINUTE, 0, "[)"), marks=pytest.mark.long
        ),
        pytest.param(
            "b.at - a.at <= INTERVAL 3 MINUTES AND a.at - b.at <= INTERVAL 2 MINUTES",
            between(-2 * MINUTE, 3 * MINUTE),
            marks=pytest.mark.long,
        ),
        pytest.param(
            "b.at <= a.at + make_interval(0, 0, 0, 0, 1) AND b.at >= a.at",
            between(0, 60 * MINUTE),
            marks=pytest.mark.long,
        ),
        pytest.param(
            "b.at > a.at AND b.at >= a.at AND b.at <= a.at + INTERVAL 1 MINUTE",
            between(0, MINUTE, "(]"),
            marks=pytest.mark.long,
        ),
        pytest.param("b.at = a.at", between(0, 0), marks=pytest.mark.long),
        ("b.at >= a.at", between(0, UNBOUNDED_MS)),
        ("b.at < a.at - INTERVAL 1 MINUTE", between(-UNBOUNDED_MS, -MINUTE, "[)")),
        ("b.at BETWEEN a.at AND a.at + INTERVAL '0.0005' SECOND", between(0, 1)),
    ],
)
def test_bounds_of_both_event_times_define_the_interval(queries: Queries, condition: str, interval: Interval) -> None:
    (code,) = joins(
        queries, f"SELECT a.price, b.price AS other FROM bid a JOIN bid b ON a.auction = b.auction AND {condition}"
    )

    assert isinstance(code, IntervalJoinCode)
    assert code.interval == interval
    assert (code.condition is None) == ("0.0005" not in condition)


@pytest.mark.parametrize(
    ("kind", "outer"), [("", set()), ("LEFT", {Side.LEFT}), ("RIGHT", {Side.RIGHT}), ("FULL", set(Side))]
)
def test_an_interval_join_may_be_an_outer_join(queries: Queries, kind: str, outer: set[Side]) -> None:
    (code,) = joins(
        queries,
        f"SELECT a.price, b.price AS other FROM bid a {kind} JOIN bid b ON a.auction = b.auction AND a.price > b.price"
        " AND b.at BETWEEN a.at AND a.at + INTERVAL 10 MINUTES",
    )

    assert code.outer == outer
    assert code.condition is not None


def test_results_of_windows_are_joined_within_bounds_of_their_last_millisecond(queries: Queries) -> None:
    (code,) = joins(
        queries,
        f"SELECT b.price FROM bid b JOIN ({COUNTS}) c ON b.auction = c.auction"
        " AND b.at >= c.window.end - INTERVAL '10' SECOND AND b.at < c.e",
    )

    assert code.interval == between(-1, 9_999, "(]")


@pytest.mark.parametrize(
    ("kind", "equal"),
    [
        ("", "c.window = d.window"),
        pytest.param("", "c.e = d.e", marks=pytest.mark.long),
        pytest.param("", "c.window.end = d.e", marks=pytest.mark.long),
        pytest.param("LEFT", "c.window = d.window", marks=pytest.mark.long),
        pytest.param("LEFT", "c.e = d.e", marks=pytest.mark.long),
        ("LEFT", "c.window.end = d.e"),
    ],
)
def test_results_of_one_window_retain_their_window(queries: Queries, kind: str, equal: str) -> None:
    joined = f"SELECT c.window, c.n AS one, d.n AS other FROM ({COUNTS}) c {kind} JOIN ({COUNTS}) d ON {equal}"

    (code,) = joins(queries, f"SELECT window, max(one) AS m FROM ({joined} AND c.auction = d.auction) GROUP BY window")

    assert isinstance(code, IntervalJoinCode)
    assert code.interval == between(0, 0)


def counts_of_windows(size: str, slide: str = "") -> str:
    cut = f"window(at, '{size}'{slide})"
    return f"SELECT window.start AS s, window.end AS e, auction, count(*) AS n FROM bid GROUP BY {cut}, auction"


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        pytest.param("", "e", marks=pytest.mark.long),
        ("LEFT", "s"),
        ("FULL", "e"),
        pytest.param("", "s", marks=pytest.mark.long),
        pytest.param("LEFT", "e", marks=pytest.mark.long),
        pytest.param("FULL", "s", marks=pytest.mark.long),
    ],
)
def test_equal_windows_are_joined_by_their_start_or_end(queries: Queries, kind: str, column: str) -> None:
    of_keys = (
        f"SELECT s, auction, n FROM ({counts_of_windows('10 seconds')})"
        if column == "s"
        else counts_of_windows("10 seconds")
    )
    (code,) = joins(
        queries,
        f"SELECT a.n AS one, b.n AS other FROM ({of_keys}) a {kind} JOIN ({of_keys}) b"
        f" ON a.{column} = b.{column} AND a.auction = b.auction",
    )

    assert isinstance(code, IntervalJoinCode)
    assert code.interval == between(0, 0)


@pytest.mark.parametrize(
    ("other", "condition", "interval"),
    [
        (counts_of_windows("30 seconds"), "a.s = b.s", between(20_000, 20_000)),
        pytest.param(
            counts_of_windows("30 seconds", ", '10 seconds'"),
            "a.s = b.s",
            between(20_000, 20_000),
            marks=pytest.mark.long,
        ),
        pytest.param(counts_of_windows("30 seconds"), "a.e = b.e", between(0, 0), marks=pytest.mark.long),
        pytest.param(counts_of_windows("10 seconds"), "a.s = b.e", between(-10_000, -10_000), marks=pytest.mark.long),
        (counts_of_windows("10 seconds"), "b.s BETWEEN a.s AND a.e", between(0, 10_000)),
    ],
)
def test_window_starts_and_ends_bound_event_times(
    queries: Queries, other: str, condition: str, interval: Interval
) -> None:
    (code,) = joins(
        queries,
        f"SELECT a.n AS one, b.n AS other FROM ({counts_of_windows('10 seconds')}) a FULL JOIN ({other}) b"
        f" ON {condition} AND a.auction = b.auction",
    )

    assert isinstance(code, IntervalJoinCode)
    assert code.interval == interval
    assert code.condition is None


def test_starts_of_sessions_do_not_bound_their_ends(queries: Queries) -> None:
    sessions = (
        "SELECT session_window.start AS s, auction, count(*) AS n FROM bid"
        " GROUP BY session_window(at, '1 minute'), auction"
    )

    (code,) = joins(
        queries, f"SELECT a.n, b.n AS m FROM ({sessions}) a JOIN ({sessions}) b ON a.s = b.s AND a.auction = b.auction"
    )

    assert isinstance(code, RegularJoinCode)


def test_a_join_without_bounds_is_regular_and_retains_the_columns_it_reads(queries: Queries) -> None:
    where = "b.price > 3 AND a.bidder = 1"

    (code,) = joins(
        queries, f"SELECT a.price, b.channel FROM bid a JOIN timeless b ON a.auction = b.auction WHERE {where}"
    )

    assert isinstance(code, RegularJoinCode)
    assert code.condition is None
    assert [code.sides[side].rows.needed for side in Side] == [("auction", "price"), ("auction", "channel")]


def test_filter_conditions_of_one_side_are_applied_before_the_join(queries: Queries) -> None:
    left = (
        "SELECT a.price, b.channel FROM bid a LEFT JOIN bid b ON a.auction = b.auction AND b.at BETWEEN a.at AND a.at"
        " + INTERVAL 1 MINUTE AND b.price > 3 AND a.price > 4 WHERE a.bidder = 1 AND b.channel IS NULL"
    )

    assert queries.operators(left) == [
        "where, select(auction, bidder, price, channel, at)",
        "where, select(auction, bidder, price, channel, at)",
        "interval_join(auction = auction)",
        "where(isNull(at))",
        "rows of the left side without an event time(price, channel)",
        "where, select(price, channel)",
    ]


def test_tables_of_a_comma_join_are_joined_by_their_filter_conditions(queries: Queries) -> None:
    where = "a.auction = b.bidder AND b.price = c.price AND a.price > 7"

    first, second = joins(queries, f"SELECT a.channel FROM bid a, bid b, timeless c WHERE {where}")

    assert (type(first), type(second)) == (RegularJoinCode, RegularJoinCode)
    assert [first.sides[side].rows.needed for side in Side] == [("auction", "channel"), ("bidder", "price")]
    assert [second.sides[side].rows.needed for side in Side] == [("channel", "price"), ("price",)]


@pytest.mark.parametrize(
    ("condition", "event_time"),
    [
        ("b.at BETWEEN a.at AND a.at + INTERVAL 1 MINUTE", "later"),
        pytest.param("b.at BETWEEN a.at - INTERVAL 1 MINUTE AND a.at", "earlier", marks=pytest.mark.long),
        ("b.at BETWEEN a.at - INTERVAL 1 MINUTE AND a.at + INTERVAL 1 MINUTE", "none"),
        pytest.param("a.price < b.price", "none", marks=pytest.mark.long),
    ],
)
def test_the_event_time_of_results_is_that_of_the_later_row(queries: Queries, condition: str, event_time: str) -> None:
    query = f"SELECT a.at AS earlier, b.at AS later FROM bid a JOIN bid b ON a.auction = b.auction AND {condition}"

    assert f"event time {event_time}" in queries.explain_sql(query).splitlines()


def test_explain_lists_the_state_of_each_side(queries: Queries) -> None:
    def retained_rows(condition: str) -> list[str]:
        query = f"SELECT a.price FROM bid a JOIN bid b ON a.auction = b.auction AND {condition}"
        lines = queries.explain_sql(query).splitlines()
        return [line.strip() for line in lines if "keeps" in line or "WARNING" in line]

    assert retained_rows("b.at BETWEEN a.at AND a.at + INTERVAL 10 MINUTES") == [
        "keeps the rows of the left side until the watermark passes their time by 10 min 0 s",
        "keeps the rows of the right side until the watermark passes their time",
    ]
    half = retained_rows("b.at >= a.at")
    assert half[:2] == [
        "keeps the rows of the left side forever",
        "keeps the rows of the right side until the watermark passes their time",
    ]
    assert half[2].startswith("WARNING: the state of 2. interval_join(auction = auction) never expires")
    assert retained_rows("a.price < b.price")[0] == "keeps the rows of both sides forever"
    assert "if its ON bounds the event times of both sides" in retained_rows("a.price < b.price")[1]

    queries.set_sql_state_ttl("90s")
    assert retained_rows("a.price < b.price") == ["keeps the rows of both sides for 1 min 30 s of processing time"]
