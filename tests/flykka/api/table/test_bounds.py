"""Bounds of ROW_NUMBER(): a filter is pushed down if the result stays equal, and the operator retains enough rows."""

from __future__ import annotations

import pytest

from flykka.errors import SqlError
from tests.flykka.api.table.queries import Queries

pytestmark = pytest.mark.spark

NUMBER = "row_number() OVER (PARTITION BY auction ORDER BY at) AS n"
NUMBERED = f"SELECT *, {NUMBER} FROM bid"
HOURLY = "SELECT window AS w, auction, count(*) AS c FROM bid GROUP BY window(at, '1 hour'), auction"
OF_WINDOWS = f"SELECT *, row_number() OVER (PARTITION BY w ORDER BY c) AS n FROM ({HOURLY})"
TWO_READERS = f"WITH r AS ({NUMBERED}) SELECT a.auction, a.n, b.n AS m FROM r AS a JOIN r AS b ON a.auction = b.auction"


def limits(queries: Queries, query: str) -> list[int]:
    return [int(name.split()[1]) for name in queries.operators(query) if name.startswith("first ")]


def numbers_all_rows(operators: list[str]) -> bool:
    return any(name.startswith("window(row_number") for name in operators) and not any(map(is_first_rows, operators))


def is_first_rows(operator: str) -> bool:
    return operator.startswith("first ")


@pytest.mark.parametrize(
    ("condition", "limit", "is_filtered"),
    [
        ("n <= 3", 3, False),
        pytest.param("n < 3", 2, False, marks=pytest.mark.long),
        pytest.param("3 >= n", 3, False, marks=pytest.mark.long),
        pytest.param("3 > n", 2, False, marks=pytest.mark.long),
        ("n = 1", 1, False),
        pytest.param("1 = n", 1, False, marks=pytest.mark.long),
        ("n = 2", 2, True),
        pytest.param("n BETWEEN 1 AND 3", 3, False, marks=pytest.mark.long),
        ("n BETWEEN 2 AND 3", 3, True),
        pytest.param("n >= 1 AND n <= 3", 3, False, marks=pytest.mark.long),
        pytest.param("n > 1 AND n <= 3", 3, True, marks=pytest.mark.long),
        ("n IN (1, 3)", 3, True),
        pytest.param("n <= 3L", 3, False, marks=pytest.mark.long),
        ("CAST(n AS BIGINT) <= 1 + 2", 3, False),
        pytest.param("n <= 3 AND n < 3", 2, False, marks=pytest.mark.long),
        ("n <= 3 AND price > 5", 3, True),
        ("n < 1", 1, True),
        pytest.param("n BETWEEN 3 AND 1", 1, True, marks=pytest.mark.long),
    ],
)
def test_a_bound_is_recognised_in_every_spelling(
    queries: Queries, condition: str, limit: int, is_filtered: bool
) -> None:
    operators = queries.operators(f"SELECT auction, n FROM ({NUMBERED}) WHERE {condition}")

    assert [name for name in operators if name.startswith("first ")] == [f"first {limit} of auction"]
    assert any(name.startswith("where") for name in operators) is is_filtered


@pytest.mark.parametrize(
    "condition",
    [
        "n <= 3 OR price > 5",
        "CAST(n AS TINYINT) <= 3",
        "n IN (1, NULL)",
        *(pytest.param(each, marks=pytest.mark.long) for each in ("n > 1", "n <= price", "n <= NULL", "n <> 1")),
    ],
)
def test_a_condition_that_accepts_any_number_is_not_a_bound(queries: Queries, condition: str) -> None:
    operators = queries.operators(f"SELECT auction, n FROM ({NUMBERED}) WHERE {condition}")

    assert numbers_all_rows(operators)


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        (f"SELECT auction, m FROM (SELECT *, n AS m FROM ({NUMBERED})) WHERE m <= 2", [2]),
        pytest.param(
            f"SELECT auction, n, m FROM (SELECT *, n AS m FROM ({NUMBERED})) WHERE m <= 2 AND n <= 3",
            [2],
            marks=pytest.mark.long,
        ),
        pytest.param(f"SELECT DISTINCT auction, n FROM ({NUMBERED}) WHERE n <= 2", [2], marks=pytest.mark.long),
        (f"SELECT * FROM (SELECT DISTINCT auction, n FROM ({NUMBERED})) WHERE n <= 2", [2]),
        (f"SELECT n, count(*) AS c FROM ({NUMBERED}) GROUP BY n HAVING n <= 2", [2]),
        (
            f"SELECT w, n, c FROM (SELECT w, c, n FROM ({OF_WINDOWS}) UNION ALL SELECT w, c, n FROM ({OF_WINDOWS}))"
            " WHERE n <= 2",
            [2, 2],
        ),
        (
            f"SELECT w, n, x FROM (SELECT w, n, x FROM ({OF_WINDOWS}) LATERAL VIEW explode(array(1, 2)) AS x)"
            " WHERE n <= 2",
            [2],
        ),
        (f"SELECT w, n, title FROM ({OF_WINDOWS}) LEFT JOIN item ON auction = id WHERE n <= 2", [2]),
        *(
            pytest.param(f"SELECT w, n FROM ({OF_WINDOWS}) {join} n <= 2", [2], marks=pytest.mark.long)
            for join in (
                "LEFT SEMI JOIN item ON auction = id WHERE",
                "LEFT ANTI JOIN item ON auction = id WHERE",
                "JOIN item ON auction = id AND",
            )
        ),
        pytest.param(f"WITH r AS ({NUMBERED}) SELECT auction, n FROM r WHERE n <= 2", [2], marks=pytest.mark.long),
        (f"WITH r AS ({NUMBERED}), s AS (SELECT auction, n FROM r) SELECT auction, n FROM s WHERE n <= 2", [2]),
        (f"{TWO_READERS} WHERE a.n <= 2 AND b.n <= 3", [3]),
        pytest.param(f"{TWO_READERS} AND a.n <= 2 WHERE b.n <= 3", [3], marks=pytest.mark.long),
        pytest.param(f"{TWO_READERS} WHERE b.n <= 2 AND a.n <= 3", [3], marks=pytest.mark.long),
        (
            f"SELECT a.auction, a.n, b.price FROM ({NUMBERED}) AS a LEFT JOIN auction AS b ON a.auction = b.auction"
            " WHERE a.n <= 2",
            [2],
        ),
        (
            f"SELECT a.auction, b.auction AS b, n FROM auction AS a LEFT JOIN ({NUMBERED}) AS b"
            " ON a.auction = b.auction AND b.n <= 2",
            [2],
        ),
    ],
)
def test_a_bound_is_pushed_through_nodes_that_preserve_the_result(
    queries: Queries, query: str, kept: list[int]
) -> None:
    assert limits(queries, query) == kept


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT auction, n, s FROM (SELECT auction, n, sum(price) OVER (PARTITION BY auction ORDER BY at ROWS BETWEEN"
        f" 1 PRECEDING AND CURRENT ROW) AS s FROM ({NUMBERED})) WHERE n <= 2",
        f"SELECT auction, n, m FROM (SELECT *, {NUMBER}, row_number() OVER (PARTITION BY bidder ORDER BY at) AS m"
        " FROM bid) WHERE n <= 2 AND m <= 2",
        f"SELECT max_n FROM (SELECT auction, max(n) AS max_n FROM ({NUMBERED}) GROUP BY auction) WHERE max_n <= 2",
        f"{TWO_READERS} WHERE a.n <= 1",
        f"WITH r AS ({NUMBERED}), s AS (SELECT auction, count(*) AS c FROM r GROUP BY auction) SELECT r.auction, n, c"
        " FROM r JOIN s ON r.auction = s.auction WHERE n <= 2",
        f"SELECT a.auction, n FROM ({NUMBERED}) AS a FULL JOIN auction AS b ON a.auction = b.auction WHERE a.n <= 2",
        *(
            pytest.param(query, marks=pytest.mark.long)
            for query in (
                f"{TWO_READERS} WHERE b.n <= 1",
                f"WITH r AS ({NUMBERED}) SELECT a.auction, a.n, c.rows FROM r AS a JOIN (SELECT auction AS k, count(*)"
                " AS rows FROM r GROUP BY auction) AS c ON a.auction = c.k WHERE a.n <= 1",
                f"SELECT a.auction, n FROM auction AS a LEFT JOIN ({NUMBERED}) AS b ON a.auction = b.auction"
                " WHERE b.n <= 2",
                f"SELECT a.auction, n FROM ({NUMBERED}) AS a LEFT JOIN auction AS b ON a.auction = b.auction"
                " AND a.n <= 2",
                f"SELECT a.auction FROM auction AS a LEFT ANTI JOIN ({NUMBERED}) AS b ON a.auction = b.auction"
                " AND b.n <= 2",
            )
        ),
    ],
)
def test_a_bound_is_not_pushed_below_clauses_that_would_change_the_result(queries: Queries, query: str) -> None:
    assert any(each.startswith("window(row_number") for each in queries.operators(query))


def test_a_bound_is_not_pushed_below_a_versioned_view(queries: Queries) -> None:
    query = (
        f"WITH r AS ({NUMBERED}) SELECT b.price, n FROM bid AS b JOIN r FOR SYSTEM_TIME AS OF b.at"
        " ON b.auction = r.auction WHERE r.n <= 2"
    )

    with pytest.raises(SqlError, match="the right stream has no event time"):
        queries.sql(query)


def test_a_common_table_retains_the_rows_of_all_its_readers(queries: Queries) -> None:
    query = f"{TWO_READERS} WHERE a.n <= 1 AND b.n <= 3"

    assert limits(queries, query) == [3]
    assert sum(name.startswith("where") for name in queries.operators(query)) == 1


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        (f"{TWO_READERS} WHERE a.n <= 1 AND b.n <= 3", ("auction", "m")),
        pytest.param(
            f"{TWO_READERS.replace('a.auction,', 'b.auction,')} AND a.n <= 2 AND b.n <= 1",
            ("auction", "n"),
            marks=pytest.mark.long,
        ),
        (
            f"SELECT a.auction AS x, b.auction AS y, a.n, b.n AS m FROM ({NUMBERED}) a JOIN ({NUMBERED}) b"
            " ON a.auction = b.auction WHERE a.n <= 2 AND b.n <= 2",
            ("x", "n", "m"),
        ),
        (
            "SELECT x, c FROM (SELECT auction AS x, c FROM (SELECT auction, count(*) AS c FROM bid GROUP BY auction))"
            " WHERE c > 5",
            ("x",),
        ),
    ],
)
def test_upserts_have_keys_that_distinguish_them(queries: Queries, query: str, keys: tuple[str, ...]) -> None:
    assert queries.sql(query).changelog.keys == keys


@pytest.mark.parametrize(
    "query",
    [
        "SELECT b.auction, b.price FROM auction AS a LEFT JOIN auction AS b ON a.auction = b.auction",
        f"{TWO_READERS.replace('a.auction, a.n', '1 AS one')} WHERE a.n <= 2 AND b.n <= 2",
        "SELECT c FROM (SELECT auction, count(*) AS c FROM bid GROUP BY auction)",
        "SELECT count(*) AS c FROM bid GROUP BY auction",
    ],
)
def test_rows_without_their_key_are_changes_of_whole_rows(queries: Queries, query: str) -> None:
    stream = queries.sql(query)

    assert (stream.changelog.keys, stream.changelog.row_kind) == (None, "row_kind")
