"""Errors that users get for invalid SQL."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from flykka.errors import ProgramError, SqlError
from tests.flykka.api.table.queries import Queries
from tests.flykka.programs import bids

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
    "SELECT now() AS t FROM bid": (1, 8, "now() reads the clock, so a restarted job"),
    "SELECT * FROM bid WHERE rand() < 0.5": (1, 25, "is not deterministic"),
    "SELECT b.price FROM bid b JOIN bid c ON b.price = c.price AND b.at > c.at AND b.at < c.at": (
        1,
        27,
        "no difference of the two event times is within the bounds",
    ),
    "SELECT b.price FROM bid b LEFT JOIN timeless t ON b.price = t.price AND b.bidder + t.price IN (SELECT 3)": (
        1,
        92,
        "a subquery in the ON of a LEFT OUTER JOIN compares columns of both sides",
    ),
    "SELECT auction FROM (SELECT auction, nope FROM (SELECT auction FROM bid))": (1, 38, "`nope` cannot be resolved"),
    "INSERT INTO item SELECT auction FROM bid": (1, 1, "this is a command, but sql(...) takes a query"),
    "SELECT auction, price AS auction FROM bid": (1, 1, "two columns of the result are named 'auction'"),
    "SELECT 1 AS one": (1, 1, "the query reads no stream"),
    "SELECT * FROM bid TABLESAMPLE (10 PERCENT)": (1, 19, "TABLESAMPLE cannot run on a stream"),
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


def test_an_sql_error_is_one_readable_text(queries: Queries) -> None:
    with pytest.raises(SqlError) as refused:
        queries.sql("SELECT *\nFROM persons")

    assert str(refused.value).splitlines() == [
        "line 2, column 6: The table or view `persons` cannot be found. Verify the spelling and correctness of the"
        " schema and catalog. Tables and views of streams: bid, timeless; CREATE TABLE and create_temporary_view(name,"
        " stream) add one.",
        "  FROM persons",
        "       ^",
    ]


@pytest.mark.parametrize(
    ("primary_key", "mode", "why"),
    [
        (None, "all", "the changelog mode 'all' needs a primary key"),
        ("auction", "all", "needs a column row_kind, but the columns of the stream are auction"),
        ("auction", "append", "changelog mode"),
        ("id", "upsert", "the primary key has 'id', but the columns of the stream are auction"),
        ((), "upsert", "the primary key has no column"),
    ],
)
def test_an_invalid_key_or_changelog_mode_of_a_view_is_refused(
    queries: Queries, primary_key: str | tuple[str, ...] | None, mode: str, why: str
) -> None:
    stream = bids(queries.spark, queries.program)

    with pytest.raises(ProgramError, match=why):
        queries.create_temporary_view("view", stream, primary_key=primary_key, changelog_mode=mode)
