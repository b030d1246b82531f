"""Plan rewrites, each with the condition under which the result stays the same."""

from __future__ import annotations

import pytest

from tests.flykka.api.table.queries import Queries

pytestmark = pytest.mark.spark

NEAR = "b.at BETWEEN a.at AND a.at + INTERVAL 1 MINUTE"
ALL = "select(auction, bidder, price, channel, at)"
FILTERED = f"where, {ALL}"


@pytest.mark.parametrize(
    ("kind", "left", "right", "on_left", "on_right"),
    [
        ("INNER", True, True, True, True),
        pytest.param("LEFT", True, False, False, True, marks=pytest.mark.long),
        pytest.param("RIGHT", False, True, True, False, marks=pytest.mark.long),
        ("FULL", False, False, False, False),
    ],
)
def test_a_condition_of_one_side_is_pushed_below_a_join_if_safe(
    queries: Queries, kind: str, left: bool, right: bool, on_left: bool, on_right: bool
) -> None:
    def is_below(on: str = "", where: str = "") -> bool:
        text = f"SELECT a.price, b.price AS p FROM bid a {kind} JOIN bid b ON a.auction = b.auction AND {NEAR}"
        return FILTERED in queries.operators(f"{text} {on} {where}")

    assert is_below(where="WHERE a.price > 1") is left
    assert is_below(where="WHERE b.price > 1") is right
    assert is_below(on="AND a.price > 1") is on_left
    assert is_below(on="AND b.price > 1") is on_right


KEYS = {
    "cross": ("FROM bid a, bid b, bid c WHERE a.auction = c.auction AND b.bidder = c.bidder", 2),
    "three, of which the first has no partner": ("FROM bid a, bid b, bid c WHERE b.bidder = c.bidder", 1),
    "OR": (
        "FROM bid a, bid b WHERE a.auction = b.auction AND a.price > 1 OR a.price > b.price AND b.auction = a.auction",
        1,
    ),
    "subquery": (
        "FROM bid a, bid b, bid c WHERE a.auction = c.auction AND b.bidder = c.bidder"
        " AND a.price = (SELECT min(price) FROM bid d WHERE d.channel = a.channel)",
        3,
    ),
    "subquery in a subquery": (
        "FROM bid e WHERE price IN (SELECT a.price FROM bid a, bid b, bid c WHERE a.auction = c.auction"
        " AND b.bidder = c.bidder AND a.price = (SELECT min(price) FROM bid d WHERE d.channel = a.channel))",
        4,
    ),
    "value": (
        "FROM bid a, bid b, bid c WHERE a.auction = c.auction AND b.bidder = c.bidder"
        " AND a.price > (SELECT avg(price) FROM bid)",
        2,
    ),
}
"""Queries with inner joins in an unfortunate order, and the number of their joins that can have an equality condition.
"""


@pytest.mark.parametrize("name", KEYS)
def test_inner_joins_are_ordered_by_their_equalities(queries: Queries, name: str) -> None:
    query, equalities = KEYS[name]
    select = "e.price" if "bid e" in query else "a.price"

    joins = [each for each in queries.operators(f"SELECT {select} {query}") if "join(" in each]

    assert len([each for each in joins if " = " in each]) == equalities


@pytest.mark.parametrize(
    "where",
    [
        "a.price > b.price",
        *(pytest.param(each, marks=pytest.mark.long) for each in ("1 > 2", "b.price IS NULL OR a.price > 1")),
    ],
)
def test_a_condition_of_both_or_no_sides_stays_above_an_outer_join(queries: Queries, where: str) -> None:
    query = f"SELECT a.price FROM bid a LEFT JOIN bid b ON a.auction = b.auction AND {NEAR} WHERE {where}"

    operators = queries.operators(query)
    assert (operators[0], operators[-1]) == ("interval_join(auction = auction)", "where, select(price)")
    assert FILTERED not in operators


def test_a_join_in_a_common_table_retains_all_columns_of_its_readers(queries: Queries) -> None:
    common = "WITH j AS (SELECT a.price, b.channel, a.bidder FROM bid a JOIN bid b ON a.auction = b.auction)"

    stream = queries.sql(f"{common} SELECT price AS v FROM j UNION ALL SELECT length(channel) + bidder AS v FROM j")

    assert stream.columns == ["v"]


@pytest.mark.parametrize(
    ("query", "verb"),
    [
        ("SELECT auction FROM bid GROUP BY auction", "drop_duplicates(auction)"),
        ("SELECT bidder FROM auction GROUP BY bidder", "aggregate(bidder)"),
        ("SELECT DISTINCT auction FROM bid", "drop_duplicates(auction)"),
        ("SELECT DISTINCT bidder FROM auction", "aggregate(bidder)"),
    ],
)
def test_duplicates_are_dropped_only_for_append_only_rows(queries: Queries, query: str, verb: str) -> None:
    assert verb in queries.operators(query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT w, count(*) AS n FROM (SELECT window(at, '1 hour') AS w, price FROM bid) WHERE price > 1 GROUP BY w",
        "WITH c AS (SELECT window(at, '1 hour') AS w FROM bid) SELECT w, count(*) AS n FROM c GROUP BY w",
    ],
)
def test_an_aggregate_over_windows_of_an_unaggregated_subquery_changes(queries: Queries, query: str) -> None:
    assert queries.sql(query).changelog.keys == ("w",)


@pytest.mark.parametrize(
    "cut",
    [
        "window(at, '1 hour')",
        pytest.param("window(at, '1 hour', '10 minutes')", marks=pytest.mark.long),
        pytest.param("session_window(at, '1 hour')", marks=pytest.mark.long),
    ],
)
def test_a_filter_below_windows_is_preserved(queries: Queries, cut: str) -> None:
    def steps(where: str) -> list[str]:
        return queries.operators(f"SELECT count(*) AS n FROM bid {where} GROUP BY {cut}")[0].split(", ")

    assert steps("WHERE price > 1").count("where") == steps("").count("where") + 1


@pytest.mark.parametrize(
    ("query", "event_time"),
    [
        ("SELECT at, price FROM bid UNION ALL SELECT at, bidder FROM bid", "at"),
        ("SELECT at AS t, price FROM bid UNION ALL SELECT at, bidder FROM bid", "t"),
        ("SELECT at, at AS u FROM bid UNION ALL SELECT at + INTERVAL 1 DAY, at FROM bid", "none"),
        ("SELECT at, price FROM bid UNION ALL SELECT at, price FROM timeless", "none"),
    ],
)
def test_a_union_has_event_time_if_all_sides_share_its_position(queries: Queries, query: str, event_time: str) -> None:
    assert f"event time {event_time}" in queries.explain_sql(query).splitlines()


@pytest.mark.parametrize(
    ("condition", "verb"),
    [
        ("auction > 1", "where, select(auction, n)"),
        ("n > 1", "where(auction, n)"),
        ("auction > n", "where(auction, n)"),
    ],
)
def test_a_filter_of_changing_rows_emits_deletes_unless_it_filters_by_key(
    queries: Queries, condition: str, verb: str
) -> None:
    query = f"SELECT auction, n FROM (SELECT auction, count(*) AS n FROM bid GROUP BY auction) WHERE {condition}"

    assert queries.operators(query)[1] == verb


def test_a_filter_above_an_outer_join_that_produces_nulls_is_preserved(queries: Queries) -> None:
    numbered = "SELECT *, row_number() OVER (PARTITION BY auction ORDER BY at) AS n FROM bid"
    query = (
        "SELECT a.auction, b.auction AS b, b.n FROM auction AS a"
        f" LEFT JOIN (SELECT * FROM ({numbered}) WHERE n <= 2) AS b ON a.auction = b.auction WHERE b.n <= 2"
    )

    assert any(name.startswith("where") for name in queries.operators(query))
