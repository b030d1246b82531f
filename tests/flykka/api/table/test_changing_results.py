"""Queries over rows that change give, once all changes are applied, what Spark gives for the rows that are left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from flykka import DataStream, FileSink, StreamExecutionEnvironment

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

BID = "id bigint, auction bigint, bidder bigint, price bigint, at timestamp"
PERSON = "bidder bigint, city string, row_kind string"
START = datetime(2026, 3, 1, tzinfo=UTC)
DEAREST = "SELECT auction AS a, bidder AS b, max(price) AS m, count(*) AS n FROM bid GROUP BY auction, bidder"
PEOPLE = [
    [(1, "Rome", "+I"), (2, "Oslo", "+I"), (3, "Bonn", "+I")],
    [(2, "Oslo", "-U"), (2, "Rome", "+U"), (4, "Oslo", "+I"), (3, "Bonn", "-D")],
    [(1, "Rome", "-U"), (1, "Bonn", "+U"), (5, "Bonn", "+I"), (5, "Bonn", "-D"), (3, "Oslo", "+I")],
]

QUERIES = {
    "having": f"SELECT a, b, m FROM ({DEAREST}) WHERE n < 6 AND m > 40",
    "counted": f"SELECT a, count(*) AS bidders, sum(m) AS s, avg(m) AS mean FROM ({DEAREST}) GROUP BY a",
    "histogram": f"SELECT n, count(*) AS a FROM (SELECT a, count(*) AS n FROM ({DEAREST}) GROUP BY a) GROUP BY n",
    "all": f"SELECT sum(m) AS s, count(m) FILTER (WHERE m > 90) AS dear FROM ({DEAREST})",
    "greatest": "SELECT n, max(m) AS m, min(b) AS b, count(DISTINCT a) AS auctions, sum(DISTINCT m) AS s,"
    " avg(m) AS mean, avg(m * 90000000000000000L) AS huge, try_sum(m * 90000000000000000L) AS none"
    f" FROM ({DEAREST}) GROUP BY n",
    "greatest of all": "SELECT max(city) AS last, count(DISTINCT city) AS cities, count(*) AS n FROM person",
    "none left": "SELECT min(city) AS first, count(DISTINCT city) AS n FROM person WHERE bidder = 3 AND city = 'Bonn'",
    "values": f"SELECT DISTINCT m % 10 AS digit FROM ({DEAREST})",
    "best": f"SELECT a, b, m, r FROM (SELECT *, row_number() OVER (PARTITION BY a ORDER BY m DESC, b) AS r"
    f" FROM ({DEAREST})) WHERE r <= 2",
    "readers": "WITH r AS (SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, id) AS n FROM bid)"
    " SELECT y.auction, x.id AS first, y.n, y.id FROM r x JOIN r y ON x.auction = y.auction WHERE x.n = 1 AND y.n <= 3",
    "changing readers": "WITH c AS (SELECT *, row_number() OVER (PARTITION BY a ORDER BY m DESC, b) AS r"
    f" FROM ({DEAREST})) SELECT x.a, x.b AS best, y.r, y.b FROM c x JOIN c y ON x.a = y.a WHERE x.r = 1 AND y.r"
    " BETWEEN 2 AND 3",
    "cities": "SELECT city, count(*) AS n FROM person GROUP BY city",
    "lived": "SELECT p.bidder, city, n FROM person p JOIN (SELECT bidder, count(*) AS n FROM bid GROUP BY bidder) c"
    " ON p.bidder = c.bidder",
    "placed": "SELECT id, o.bidder, price, city FROM offer o JOIN person p ON o.bidder = p.bidder"
    " WHERE price > 60 OR city = 'Rome'",
    "left": "SELECT id, o.bidder, price, city FROM offer o LEFT JOIN person p ON o.bidder = p.bidder",
    "full": "SELECT c.bidder AS b, n, p.bidder AS p, city FROM (SELECT bidder, count(*) AS n FROM bid GROUP BY bidder)"
    " c FULL JOIN person p ON c.bidder = p.bidder",
    "semi": "SELECT id, bidder, price FROM offer o LEFT SEMI JOIN person p ON o.bidder = p.bidder",
    "anti": "SELECT id, bidder, price FROM offer o LEFT ANTI JOIN person p ON o.bidder = p.bidder",
    "means": "SELECT a, b, avg(m) OVER (PARTITION BY a ORDER BY b ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS mean,"
    " avg(m * 90000000000000000L) OVER (PARTITION BY a ORDER BY b ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS huge,"
    f" count(m) OVER (PARTITION BY a ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS c FROM ({DEAREST})",
}


SOME = ("greatest", "placed", "means", "best")
"""Of which each needs functions that the others do not."""


@pytest.fixture
def bids(spark: SparkSession) -> Iterator[DataFrame]:
    rows = [
        (n, n % 5, n * n % 7, None if n % 17 == 3 else n * 31 % 101, START + timedelta(seconds=n)) for n in range(180)
    ]
    made = spark.createDataFrame(rows, BID).repartitionByRange(3, "id").sortWithinPartitions("id").cache()
    yield made
    made.unpersist()


@pytest.fixture
def people(spark: SparkSession) -> DataFrame:
    """Changes of people in three batches."""
    return spark.createDataFrame(spark.sparkContext.parallelize(PEOPLE, 3).flatMap(lambda rows: rows), PERSON)


@pytest.fixture
def env(
    spark: SparkSession, tmp_path: Path, bids: DataFrame, people: DataFrame
) -> Iterator[StreamExecutionEnvironment]:
    with StreamExecutionEnvironment.get_execution_environment() as made:
        source = made.from_dataframe(bids, partitions_per_batch=1)
        made.create_temporary_view("bid", source)
        made.create_temporary_view("offer", source, primary_key="id")
        changes = made.from_dataframe(people, partitions_per_batch=1)
        made.create_temporary_view("person", changes, primary_key="bidder")
        yield made.set_checkpoint_dir(str(tmp_path / "checkpoints"))


def with_place(rows: DataFrame, numbers: Iterator[int]) -> DataFrame:
    """The rows with the number of their batch, and their place in it."""
    return rows.withColumn("batch", F.lit(next(numbers))).withColumn("place", F.monotonically_increasing_id())


def left_of(written: DataFrame, stream: DataStream) -> DataFrame:
    """The rows that are left of changes: of each key the last, unless it is a deletion."""
    changelog = stream.changelog
    assert changelog.keys is not None
    newest = F.row_number().over(Window.partitionBy(*changelog.keys).orderBy(F.desc("batch"), F.desc("place")))
    last = written.withColumn("newest", newest).where("newest = 1").drop("newest", "batch", "place")
    if changelog.row_kind is None:
        return last
    return last.where(~F.col(changelog.row_kind).isin("-D", "-U")).drop(changelog.row_kind)


@pytest.mark.parametrize(
    ("names", "parallelism"),
    [(SOME, 1), pytest.param(tuple(QUERIES), 2, marks=pytest.mark.long)],
    ids=["some", "all"],
)
def test_what_is_left_of_the_changes_are_the_rows_of_spark(
    spark: SparkSession,
    env: StreamExecutionEnvironment,
    bids: DataFrame,
    tmp_path: Path,
    names: Sequence[str],
    parallelism: int,
) -> None:
    env.set_parallelism(parallelism)
    streams = {name: env.sql(QUERIES[name]) for name in names}
    for name, stream in streams.items():
        placed = stream.transform(partial(with_place, numbers=count()), per_batch=True)
        placed.sink_to(FileSink.parquet(str(tmp_path / name)))

    env.execute("changes")

    for view in ("bid", "offer"):
        bids.createOrReplaceTempView(view)
    living = [(1, "Bonn"), (2, "Rome"), (3, "Oslo"), (4, "Oslo")]
    spark.createDataFrame(living, "bidder bigint, city string").createOrReplaceTempView("person")
    for name, stream in streams.items():
        left = left_of(spark.read.parquet(str(tmp_path / name)), stream)
        assertDataFrameEqual(left, spark.sql(QUERIES[name]))
    for view in ("bid", "offer", "person"):
        spark.catalog.dropTempView(view)
