"""Planning of FOR SYSTEM_TIME AS OF, and the errors for unsupported forms."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from flykka.errors import SqlError
from flykka.spark_bridge.functions.event_time import EventTime
from flykka.spark_bridge.operators.temporal_join import TemporalJoinCode
from tests.flykka.api.table.queries import Queries
from tests.flykka.programs import bids

pytestmark = pytest.mark.spark

AS_OF = "FOR SYSTEM_TIME AS OF"


@pytest.fixture
def queries(spark: SparkSession) -> Queries:
    """Bids, and versions of bidders: `versions` without a primary key, `changing` with one."""
    made = Queries(spark)
    columns = "bidder BIGINT, at TIMESTAMP, WATERMARK FOR at AS at"
    made.execute_sql(f"CREATE TABLE made ({columns}) USING datagen OPTIONS (number_of_rows 1)")
    made.create_temporary_view("versions", bids(spark, made.program))
    kinds = bids(spark, made.program).select_expr("bidder", "price", "at", "channel AS row_kind")
    made.create_temporary_view("changing", kinds, primary_key="bidder")
    made.create_temporary_view("untimed", bids(spark, made.program, event_time=None), primary_key="bidder")
    return made


def joins(queries: Queries, query: str) -> list[TemporalJoinCode]:
    queries.sql(query)
    return [made.code for made in queries.program.transformations if isinstance(made.code, TemporalJoinCode)]


@pytest.mark.parametrize("kind", ["LEFT", pytest.param("", marks=pytest.mark.long)])
def test_a_join_as_of_the_left_event_time_is_a_temporal_join(queries: Queries, kind: str) -> None:
    (code,) = joins(
        queries, f"SELECT b.price, v.channel FROM bid b {kind} JOIN versions {AS_OF} b.at AS v ON b.bidder = v.bidder"
    )

    assert code.sides.is_outer == (kind == "LEFT")
    assert code.sides.left.columns == ("price", "at")
    assert code.sides.right.columns == ("channel", "at")
    assert code.sides.row_kind is None


def test_the_row_kind_of_changing_rows_decides_whether_a_version_exists(queries: Queries) -> None:
    (code,) = joins(
        queries, f"SELECT b.price, v.price AS was FROM bid b JOIN changing {AS_OF} b.at v ON b.bidder = v.bidder"
    )

    assert code.sides.row_kind == "row_kind"
    assert code.condition is None


def test_results_have_the_event_time_of_the_left_stream(queries: Queries) -> None:
    query = f"SELECT b.at AS ordered_at, v.at FROM bid b JOIN versions {AS_OF} b.at v ON b.bidder = v.bidder"

    assert queries.sql(query).flow.type.event_time == EventTime(column="ordered_at")
    assert queries.sql(f"SELECT window, count(*) AS n FROM ({query}) GROUP BY window(ordered_at, '1 minute')").columns


def test_conditions_on_a_version_do_not_select_another_version(queries: Queries) -> None:
    join = f"SELECT b.price, v.price AS was FROM bid b JOIN versions {AS_OF} b.at AS v"
    asked = f"{join} ON b.bidder = v.bidder AND v.price > 3 AND v.at >= b.at - INTERVAL 1 DAY WHERE b.price > 7"

    assert queries.operators(asked) == [
        "where, select(auction, bidder, price, channel, at)",
        "temporal_join(bidder = bidder)",
        "select(price, was)",
    ]
    (code, *_) = joins(queries, asked)
    assert str(code.condition).count("price") == 1
    assert "INTERVAL" in str(code.condition).upper()


def test_other_equalities_are_conditions_if_versions_have_a_key(queries: Queries) -> None:
    (code,) = joins(
        queries,
        f"SELECT b.price FROM bid b JOIN changing {AS_OF} b.at v ON b.bidder = v.bidder AND b.price = v.price",
    )

    assert len(code.keys) == 1
    assert "price" in str(code.condition)


def test_a_version_excluded_by_a_filter_does_not_match(queries: Queries) -> None:
    view = "CREATE TEMPORARY VIEW dear AS SELECT bidder, price, at FROM changing WHERE price > 5"
    queries.execute_sql(view)

    (code,) = joins(queries, f"SELECT b.price FROM bid b LEFT JOIN dear {AS_OF} b.at v ON b.bidder = v.bidder")

    assert code.sides.row_kind == "row_kind"


def test_several_joins_may_use_the_same_event_time(queries: Queries) -> None:
    codes = joins(
        queries,
        f"SELECT b.price FROM bid b JOIN versions {AS_OF} b.at v ON b.bidder = v.bidder"
        f" LEFT JOIN changing {AS_OF} b.at c ON v.auction = c.bidder",
    )

    assert [code.sides.is_outer for code in codes] == [False, True]


def test_explain_lists_the_retained_state(queries: Queries) -> None:
    explanation = queries.explain_sql(
        f"SELECT b.price FROM bid b JOIN versions {AS_OF} b.at AS v ON b.bidder = v.bidder"
    )

    assert "keeps the rows of the left side until the watermark reaches their time" in explanation
    latest = "the versions of the right side until the watermark reaches the next version of the key, the latest"
    assert latest in explanation


ON = "ON b.bidder = v.bidder"


@pytest.mark.parametrize(
    ("query", "why", "column"),
    [
        (
            f"SELECT 1 AS x FROM bid b JOIN versions {AS_OF} b.price AS v {ON}",
            "FOR SYSTEM_TIME AS OF b.price: the time must be the event time of the left stream, which is at",
            62,
        ),
        (f"SELECT 1 AS x FROM bid b JOIN versions {AS_OF} v.at AS v {ON}", "v.at is a column of the right side", 62),
        (f"SELECT 1 AS x FROM bid b JOIN versions {AS_OF} b.time AS v {ON}", "has no column b.time, only auction", 62),
        (
            f"SELECT 1 AS x FROM timeless b JOIN versions {AS_OF} b.at AS v {ON}",
            "the left stream has no event time: give its source a WATERMARK FOR",
            67,
        ),
        (
            "SELECT 1 AS x FROM (SELECT bidder, CAST(at AS TIMESTAMP) + INTERVAL 1 DAY AS t FROM made) b"
            f" JOIN versions {AS_OF} b.t AS v {ON}",
            "the left stream has no event time: that of made was lost",
            129,
        ),
        (
            f"SELECT 1 AS x FROM bid b JOIN untimed {AS_OF} b.at AS v {ON}",
            "the right stream has no event time, from which a version is valid",
            61,
        ),
        (
            f"SELECT 1 AS x FROM bid b JOIN changing {AS_OF} b.at AS v ON b.price = v.price",
            "upserts and deletes by bidder: its versions have this key, so ON must contain an equality of bidder",
            26,
        ),
        (
            f"SELECT 1 AS x FROM bid b JOIN versions {AS_OF} b.at AS v ON b.price > v.price",
            "needs an equality between both streams in its ON, such as o.currency = r.currency",
            26,
        ),
        (
            f"SELECT 1 AS x FROM bid b RIGHT JOIN versions {AS_OF} b.at AS v {ON}",
            "RIGHT OUTER JOIN FOR SYSTEM_TIME AS OF cannot run",
            26,
        ),
        (
            f"SELECT 1 AS x FROM changing b JOIN versions {AS_OF} b.at AS v {ON}",
            "the left side of a temporal JOIN cannot be rows that are upserts and deletes by bidder",
            31,
        ),
        (f"SELECT 1 AS x FROM bid {AS_OF} at", "belongs at the right side of a JOIN of two streams", 46),
        (f"SELECT 1 AS x FROM bid b JOIN range(3) r {AS_OF} b.at", "after a stream of versions: FROM", 64),
    ],
)
def test_unsupported_joins_are_refused_at_their_position(queries: Queries, query: str, why: str, column: int) -> None:
    with pytest.raises(SqlError) as refused:
        queries.sql(query)

    assert why in str(refused.value)
    assert (refused.value.line, refused.value.column) == (1, column)


def test_versions_need_upserts_and_not_all_changes(queries: Queries) -> None:
    kinds = bids(queries.spark, queries.program).select_expr("bidder", "price", "at", "channel AS row_kind")
    queries.create_temporary_view("complete", kinds, primary_key="bidder", changelog_mode="all")

    with pytest.raises(
        SqlError, match="the right stream has no event time, from which a version is valid: its rows are"
    ):
        queries.sql(f"SELECT b.price, v.price AS was FROM bid b JOIN complete {AS_OF} b.at v ON b.bidder = v.bidder")
