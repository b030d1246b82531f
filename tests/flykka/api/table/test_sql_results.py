"""SQL jobs return what Spark returns for the same text on the same rows in one batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from flykka import FileSink, StreamExecutionEnvironment, WatermarkStrategy

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

BID = "auction bigint, bidder bigint, price bigint, channel string, at timestamp"
START = datetime(2026, 3, 1, tzinfo=UTC)

APPENDED = {
    "rows": "SELECT auction, price * 2 AS double, upper(channel) AS c FROM bid b WHERE b.price > 40",
    "exploded": "SELECT auction, word FROM bid LATERAL VIEW explode(split(channel, '-')) AS word",
    "united": "SELECT auction AS id FROM bid WHERE price > 90 UNION ALL SELECT bidder FROM bid WHERE price < 9",
    "items": "SELECT title, sum(price) AS s FROM bid LEFT JOIN item ON auction = id"
    " GROUP BY title, window(at, '1 minute')",
    "known": "SELECT price FROM bid WHERE auction IN (SELECT id FROM item) AND price > (SELECT max(id) FROM item)",
    "distinct": "SELECT DISTINCT auction, channel FROM bid",
    "keys": "SELECT auction % 3 AS a FROM bid GROUP BY auction % 3",
    "tumbling": "SELECT window.start AS s, auction, count(*) AS n, avg(price) AS mean FROM bid"
    " GROUP BY auction, window(at, '10 seconds') HAVING count(*) > 1",
    "sliding": "SELECT window.end AS e, count(DISTINCT bidder) AS n, max(price) - min(price) AS d FROM bid"
    " GROUP BY window(at, '10 seconds', '4 seconds', '1 second')",
    "sessions": "SELECT session_window.start AS s, session_window.end AS e, bidder, count(*) AS n FROM bid"
    " GROUP BY bidder, session_window(at, '4 seconds')",
    "cascaded": "SELECT window.end AS e, max(n) AS most, count(*) AS auctions FROM"
    " (SELECT window, auction, count(*) AS n FROM bid GROUP BY window(at, '20 seconds', '5 seconds'), auction)"
    " GROUP BY window",
    "best": "SELECT e, auction, n, place FROM (SELECT window.end AS e, auction, n, row_number() OVER"
    " (PARTITION BY window ORDER BY n DESC, auction) AS place FROM (SELECT window, auction, count(*) AS n FROM bid"
    " GROUP BY window(at, '20 seconds'), auction)) WHERE place <= 2",
    "starts": "SELECT a.s, b.s AS other, a.n, b.n AS m FROM (SELECT s, auction, n FROM (SELECT window.start AS s,"
    " auction, count(*) AS n FROM bid WHERE price > 50 GROUP BY window(at, '10 seconds'), auction)) a FULL JOIN (SELECT"
    " window.start AS s, bidder, count(*) AS n FROM bid WHERE price < 50 GROUP BY window(at, '10 seconds'), bidder) b"
    " ON a.s = b.s AND a.auction = b.bidder",
    "sizes": "SELECT a.s, a.n, b.n AS m FROM (SELECT window.start AS s, auction, count(*) AS n FROM bid GROUP BY"
    " window(at, '10 seconds'), auction) a LEFT JOIN (SELECT window.start AS s, auction, count(*) AS n FROM bid GROUP"
    " BY window(at, '30 seconds'), auction) b ON a.s = b.s AND a.auction = b.auction",
    "near": "SELECT a.price, b.channel FROM bid a FULL JOIN bid b ON a.auction = b.bidder AND b.at BETWEEN a.at AND"
    " a.at + INTERVAL 5 SECONDS",
    "common": "WITH dear AS (SELECT * FROM bid WHERE price > 50), ids AS (SELECT id AS i FROM item)"
    " SELECT auction, price FROM dear JOIN ids ON auction = i UNION ALL SELECT auction, -price FROM dear",
}
SOME_APPENDED = ("exploded", "sessions", "best", "near")
"""Queries that each need an operator that the others do not need; tests of the DataStream API cover the other
operators.
"""
UPSERTS = {
    "counts": (
        "SELECT auction AS a, count(*) AS n, sum(price) FILTER (WHERE price > 50) AS s FROM bid GROUP BY auction",
        ["a"],
    ),
    "all": ("SELECT count(*) AS n, max(price) + 1 AS m FROM bid", []),
    "bidders": (
        "SELECT channel, count(DISTINCT bidder) AS b, count(DISTINCT bidder) FILTER (WHERE price < 30) AS cheap,"
        " count(DISTINCT auction) AS a, count(*) AS n FROM bid GROUP BY channel",
        ["channel"],
    ),
    "newest": (
        "SELECT auction, bidder, price FROM (SELECT *, row_number() OVER (PARTITION BY auction ORDER BY at DESC, price)"
        " AS r FROM bid) WHERE r = 1",
        ["auction"],
    ),
    "dearest": (
        "SELECT auction, price, at, r FROM (SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, at)"
        " AS r FROM bid) WHERE r <= 3",
        ["auction", "r"],
    ),
    "top": (
        "SELECT price, at, r FROM (SELECT *, row_number() OVER (ORDER BY price + 1, at) AS r FROM bid) WHERE r < 4",
        ["r"],
    ),
}
SOME_UPSERTS = ("bidders", "dearest")


@pytest.fixture
def bids(spark: SparkSession) -> Iterator[DataFrame]:
    """Ordered bids of a minute and a half. Occasional pauses end sessions, and some rows have no time."""
    rows = [
        (
            n % 7,
            n * n % 5,
            n * 31 % 101,
            ("web-app", "app", "web")[n % 3],
            None if n % 50 == 7 else START + timedelta(seconds=n // 2 + n // 40 * 9),
        )
        for n in range(180)
    ]
    made = spark.createDataFrame(rows, BID).repartitionByRange(2, "at").sortWithinPartitions("at").cache()
    spark.createDataFrame([(1, "boots"), (2, "tent")], "id bigint, title string").createOrReplaceTempView("item")
    yield made
    spark.catalog.dropTempView("item")
    made.unpersist()


@pytest.fixture
def env(spark: SparkSession, tmp_path: Path, bids: DataFrame) -> Iterator[StreamExecutionEnvironment]:
    with StreamExecutionEnvironment.get_execution_environment() as made:
        watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1s").with_timestamp_column("at")
        made.create_temporary_view("bid", made.from_dataframe(bids, watermarks, partitions_per_batch=1))
        yield made.set_parallelism(1).set_checkpoint_dir(str(tmp_path / "checkpoints"))


def some_and_all(some: Sequence[str], queries: Iterable[str]) -> Any:
    """Return parameters for some of the queries, and in long runs for all of them."""
    return pytest.mark.parametrize(
        "names", [some, pytest.param(tuple(queries), marks=pytest.mark.long)], ids=["some", "all"]
    )


def with_number(rows: DataFrame, numbers: Iterator[int]) -> DataFrame:
    return rows.withColumn("batch", F.lit(next(numbers)))


def batch_result(spark: SparkSession, bids: DataFrame, query: str) -> DataFrame:
    bids.createOrReplaceTempView("bid")
    try:
        return spark.sql(query)
    finally:
        spark.catalog.dropTempView("bid")


@some_and_all(SOME_APPENDED, APPENDED)
def test_appended_rows_equal_those_of_spark(
    spark: SparkSession, env: StreamExecutionEnvironment, bids: DataFrame, tmp_path: Path, names: Sequence[str]
) -> None:
    for name in names:
        env.sql(APPENDED[name]).sink_to(FileSink.parquet(str(tmp_path / name)))

    env.execute("appended")

    for name in names:
        assertDataFrameEqual(spark.read.parquet(str(tmp_path / name)), batch_result(spark, bids, APPENDED[name]))


@some_and_all(SOME_UPSERTS, UPSERTS)
def test_the_newest_upserts_equal_the_rows_of_spark(
    spark: SparkSession, env: StreamExecutionEnvironment, bids: DataFrame, tmp_path: Path, names: Sequence[str]
) -> None:
    for name in names:
        query, keys = UPSERTS[name]
        stream = env.sql(query)
        assert stream.changelog.keys == tuple(keys)
        stream.transform(partial(with_number, numbers=count())).sink_to(FileSink.parquet(str(tmp_path / name)))

    env.execute("upserts")

    for name in names:
        query, keys = UPSERTS[name]
        written = spark.read.parquet(str(tmp_path / name))
        is_newest = F.row_number().over(Window.partitionBy(*keys).orderBy(F.desc("batch"))) == 1
        newest = written.withColumn("newest", is_newest).where("newest").drop("newest", "batch")
        assertDataFrameEqual(newest, batch_result(spark, bids, query))


@pytest.mark.long  # Every run reads such views by INSERT.
def test_a_view_defined_in_sql_is_read_like_a_registered_stream(
    spark: SparkSession, env: StreamExecutionEnvironment, bids: DataFrame, tmp_path: Path
) -> None:
    env.execute_sql("CREATE TEMPORARY VIEW dear AS SELECT auction, price, at AS t FROM bid WHERE price > 50")

    env.sql("SELECT auction, count(*) AS n FROM dear GROUP BY auction, window(t, '1 minute')").sink_to(
        FileSink.parquet(str(tmp_path / "counts"))
    )
    env.execute("views")

    dear = bids.where("price > 50")
    counted = dear.groupBy("auction", F.window("at", "1 minute")).agg(F.count("*").alias("n")).select("auction", "n")
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "counts")), counted)
