"""EXPLAIN lists the state of operators over changing rows, and warns of their cost."""

from __future__ import annotations

import pytest

from tests.flykka.api.table.queries import Queries

pytestmark = pytest.mark.spark

BOUNDS = "if its ON bounds the event times of both sides"


@pytest.mark.parametrize(
    ("query", "operator", "keeps", "warning"),
    [
        (
            "SELECT a.price FROM bid a LEFT JOIN bid b ON a.auction = b.auction",
            "join(auction = auction)",
            "the current rows of both sides forever",
            "",
        ),
        (
            "SELECT a.price FROM bid a LEFT JOIN bid b ON a.auction = b.auction AND a.price > b.price",
            "join(auction = auction)",
            "the current rows of both sides forever",
            "",
        ),
        (
            "SELECT a.price, b.price AS other FROM bid a JOIN bid b ON a.price > b.price",
            "join()",
            "the current rows of both sides forever",
            "has no equality condition: each changed row is compared with all rows of the other side",
        ),
        (
            "SELECT auction FROM bid WHERE auction NOT IN (SELECT bidder FROM bid)",
            "join()",
            "the current rows of both sides forever",
            "has no equality condition: each changed row is compared with all rows of the other side",
        ),
        (
            "SELECT auction, collect_list(price) AS prices FROM auction GROUP BY auction",
            "aggregate(collect_list(auction.price))",
            "the current rows of each key forever",
            "",
        ),
        (
            "SELECT price FROM bid ORDER BY price LIMIT 3",
            "first()",
            "the current rows forever",
            "has no keys: each batch computes its results from all current rows",
        ),
    ],
)
def test_operators_of_changing_rows_list_their_state_and_cost(
    queries: Queries, query: str, operator: str, keeps: str, warning: str
) -> None:
    lines = queries.explain_sql(query).splitlines()

    place, name = next(
        (place, line.split("  <- ")[0].strip()) for place, line in enumerate(lines) if f". {operator}  <-" in line
    )
    warnings = [line for line in lines if line.startswith("WARNING")]
    assert lines[place + 1] == f"       keeps {keeps}"
    assert name in warnings[0]
    assert "never expires" in warnings[0]
    assert warnings[1:] == ([f"WARNING: {name} {warning}"] if warning else [])


@pytest.mark.parametrize(
    ("query", "has_bounds", "has_time_to_live"),
    [
        ("SELECT a.price FROM bid a JOIN bid b ON a.auction = b.auction", True, True),
        ("SELECT a.price FROM bid a LEFT JOIN bid b ON a.auction = b.auction", True, True),
        ("SELECT a.price FROM bid a LEFT JOIN bid b ON a.price > b.price", True, False),
        ("SELECT auction, collect_list(price) AS prices FROM auction GROUP BY auction", False, True),
        ("SELECT price FROM bid ORDER BY price LIMIT 3", False, False),
        ("SELECT a.price FROM bid a JOIN bid b ON a.auction = b.auction AND b.at >= a.at", True, False),
        ("SELECT auction, count(*) AS n FROM bid GROUP BY auction", False, False),
    ],
)
def test_the_warning_names_the_bounds_of_state(
    queries: Queries, query: str, has_bounds: bool, has_time_to_live: bool
) -> None:
    warning = next(line for line in queries.explain_sql(query).splitlines() if line.startswith("WARNING"))

    assert (BOUNDS in warning, "set_sql_state_ttl" in warning) == (has_bounds, has_time_to_live)


FOR_AN_HOUR = "for 60 min 0 s of processing time after the last change of the key"


@pytest.mark.parametrize(
    ("query", "keeps"),
    [
        ("SELECT a.price FROM bid a LEFT JOIN bid b ON a.auction = b.auction", f"of both sides {FOR_AN_HOUR}"),
        (
            "SELECT a.price FROM bid a LEFT JOIN bid b ON a.auction = b.auction AND a.price > b.price",
            f"of both sides {FOR_AN_HOUR}",
        ),
        ("SELECT auction, max(price) OVER (PARTITION BY auction) AS most FROM bid", f"of each key {FOR_AN_HOUR}"),
        ("SELECT auction, collect_list(price) AS prices FROM bid GROUP BY auction", f"of each key {FOR_AN_HOUR}"),
        ("SELECT price FROM bid ORDER BY price LIMIT 3", "forever"),
        ("SELECT a.price FROM bid a LEFT JOIN bid b ON a.price > b.price", "of both sides forever"),
    ],
)
def test_a_time_to_live_bounds_operators_with_keys(queries: Queries, query: str, keeps: str) -> None:
    queries.set_sql_state_ttl("1h")

    text = queries.explain_sql(query)

    assert f"       keeps the current rows {keeps}\n" in text
    assert ("never expires" in text) == keeps.endswith("forever")
