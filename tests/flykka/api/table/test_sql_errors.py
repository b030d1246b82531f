"""Errors that users get for invalid SQL."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from flykka.errors import SqlError
from tests.flykka.api.table.queries import Queries

pytestmark = pytest.mark.spark


@pytest.fixture
def queries(spark: SparkSession) -> Queries:
    return Queries(spark)


BAD = {
    "SELEC auction FROM bid": (1, 1, "Syntax error at or near 'SELEC'"),
    "SELECT auction,\n  nope FROM bid": (2, 3, "with name `nope` cannot be resolved. Did you mean"),
    "SELECT * FROM persons": (1, 15, "`persons` cannot be found"),
    "SELECT nofun(price) FROM bid": (1, 8, "Cannot resolve routine `nofun`"),
    "SELECT price + array(1) FROM bid": (1, 8, "incompatible types"),
    "SELECT auction, price FROM bid GROUP BY auction": (1, 17, 'The non-aggregating expression "price"'),
    "SELECT * FROM bid ORDER BY price": (1, 19, "ORDER BY cannot run on a stream"),
    "SELECT * FROM bid LIMIT 3": (1, 19, "LIMIT cannot run on a stream"),
    "SELECT * FROM bid OFFSET 3": (1, 19, "OFFSET cannot run on a stream"),
    "SELECT * FROM (SELECT auction, price FROM bid) PIVOT (sum(price) FOR auction IN (1, 2))": (
        1,
        48,
        "PIVOT cannot run on a stream: write an aggregate with FILTER",
    ),
    "SELECT auction FROM bid INTERSECT SELECT bidder FROM bid": (1, 1, "INTERSECT cannot run on a stream"),
    "SELECT auction FROM bid EXCEPT SELECT bidder FROM bid": (1, 1, "EXCEPT cannot run on a stream"),
    "SELECT sum(price) OVER (PARTITION BY auction) AS s FROM bid": (1, 1, "OVER (...), cannot run on a stream"),
    "SELECT now() AS t FROM bid": (1, 8, "now() reads the clock, so a restarted job"),
    "SELECT * FROM bid WHERE rand() < 0.5": (1, 25, "is not deterministic"),
    "SELECT * FROM bid WHERE price > (SELECT max(price) FROM timeless)": (1, 34, "a subquery in an expression reads"),
    "SELECT b.price\nFROM bid b JOIN timeless t ON b.price > t.price": (
        2,
        12,
        "needs an equality of both in its ON",
    ),
    "SELECT b.price FROM bid b, timeless t": (1, 16, "needs an equality of both in its ON"),
    "SELECT b.price FROM bid b LEFT JOIN timeless t ON b.price = t.price": (1, 27, "LEFT OUTER JOIN of two streams"),
    "SELECT b.price FROM bid b LEFT SEMI JOIN timeless t ON b.price = t.price": (
        1,
        27,
        "LEFT SEMI JOIN of two streams",
    ),
    "SELECT b.price FROM bid b JOIN bid c ON b.price = c.price AND b.at > c.at AND b.at < c.at": (
        1,
        27,
        "no difference of the two event times is within the bounds",
    ),
    "SELECT b.price FROM bid b JOIN (SELECT auction, count(*) AS n FROM bid GROUP BY auction) c\n"
    "  ON b.auction = c.auction": (1, 27, "the rows of the left one have no key"),
    "SELECT b.price FROM bid b JOIN timeless t ON b.price = t.price AND b.bidder = (SELECT max(id) FROM range(3))": (
        1,
        27,
        "write it into a WHERE",
    ),
    "SELECT count(*) AS n FROM timeless GROUP BY window(at, '1 hour')": (
        1,
        36,
        "windows need an event time: give its source",
    ),
    "SELECT collect_list(n) AS m FROM (SELECT auction, count(*) AS n FROM bid GROUP BY auction)": (
        1,
        8,
        "of changing rows cannot run",
    ),
    "SELECT auction, bidder, sum(n) OVER (PARTITION BY auction ORDER BY n) AS s FROM"
    " (SELECT auction, bidder, count(*) AS n FROM bid GROUP BY auction, bidder)": (1, 25, "ROWS BETWEEN n PRECEDING"),
    "SELECT auction, n FROM (SELECT auction, count(*) AS n FROM bid GROUP BY auction)\n"
    "  WHERE n IN (SELECT id FROM range(3))": (2, 11, "use it before the aggregation, or on its keys"),
    "SELECT count(*) AS n FROM bid GROUP BY auction": (1, 31, "the SELECT leaves out"),
    "SELECT auction, collect_list(price) AS p FROM bid GROUP BY auction": (1, 17, "without windows cannot run"),
    "SELECT auction, bool_and(price > 1) AS p FROM bid GROUP BY auction": (1, 17, "; write min((bid.price > "),
    "SELECT auction FROM (SELECT auction, nope FROM (SELECT auction FROM bid))": (1, 38, "`nope` cannot be resolved"),
    "SELECT auction, count(*) AS n FROM bid GROUP BY ROLLUP (auction)": (1, 40, "ROLLUP, CUBE and GROUPING SETS"),
    "SELECT count(*) AS m FROM (SELECT window.end AS e, count(*) AS n FROM bid GROUP BY window(at, '1 hour'))"
    " GROUP BY window(e, '1 day')": (1, 106, "GROUP BY the window itself"),
    "INSERT INTO item SELECT auction FROM bid": (1, 1, "this is a command, but sql(...) takes a query"),
    "SELECT auction, price AS auction FROM bid": (1, 1, "two columns of the result are named 'auction'"),
    "SELECT 1 AS one": (1, 1, "the query reads no stream"),
}


@pytest.mark.parametrize("query", BAD)
def test_invalid_sql_is_refused_with_its_line_and_column(queries: Queries, query: str) -> None:
    line, _, why = BAD[query]

    with pytest.raises(SqlError) as refused:
        queries.sql(query)

    assert why in str(refused.value)
    assert (refused.value.line, refused.value.column) == BAD[query][:2]
    assert query.splitlines()[line - 1] in str(refused.value).splitlines()[-2]
    assert "SQLSTATE" not in str(refused.value)


def test_an_error_is_one_readable_text(queries: Queries) -> None:
    with pytest.raises(SqlError) as refused:
        queries.sql("SELECT *\nFROM persons")

    assert str(refused.value).splitlines() == [
        "line 2, column 6: The table or view `persons` cannot be found. Verify the spelling and correctness of the"
        " schema and catalog. Tables and views of streams: bid, timeless; CREATE TABLE and create_temporary_view(name,"
        " stream) add one.",
        "  FROM persons",
        "       ^",
    ]
