"""Queries over changelogs: once all changes are applied, the result equals Spark's on the remaining rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from flykka import ConsoleSink, DataStream, FileSink, StreamExecutionEnvironment, WatermarkStrategy
from flykka.errors import JobExecutionError

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

BID = "id bigint, auction bigint, bidder bigint, price bigint, at timestamp"
PERSON = "bidder bigint, city string, row_kind string"
START = datetime(2026, 3, 1, tzinfo=UTC)
DEAREST = "SELECT auction AS a, bidder AS b, max(price) AS m, count(*) AS n FROM bid GROUP BY auction, bidder"
FIRST = "row_number() OVER (PARTITION BY auction ORDER BY price DESC, id)"
PEOPLE = [
    [(1, "Rome", "+I"), (2, "Oslo", "+I"), (3, "Bonn", "+I")],
    [(2, "Oslo", "-U"), (2, "Rome", "+U"), (4, "Oslo", "+I"), (3, "Bonn", "-D")],
    [(1, "Rome", "-U"), (1, "Bonn", "+U"), (5, "Bonn", "+I"), (5, "Bonn", "-D"), (3, "Oslo", "+I")],
]

LARGEST = 2**63 - 1
AMOUNTS: list[list[tuple[object, ...]]] = [
    [(1, "a", LARGEST, -128, "1.000000000000000001", 9, "+I"), (9, "b", LARGEST, 5, "2", 9, "+I")],
    # The intermediate sum is too large, although the final sum fits.
    [
        *((n, "a", LARGEST, n, "0.000000000000000002", 8, "+I") for n in (2, 3)),
        (1, "a", LARGEST, -128, "1.000000000000000001", 9, "-D"),
        (4, "a", -LARGEST, None, "5", -8, "+I"),
    ],
    [
        (4, "a", -LARGEST, None, "5", -8, "-U"),
        (4, "a", -1, 7, None, 8, "+U"),
        (2, "a", LARGEST, 2, "0.000000000000000002", 8, "-D"),
        (5, "b", -1, 1, "3", 1, "+I"),
    ],
]
AMOUNT = "id bigint, k string, v bigint, t int, d string, n int, row_kind string"
D = "decimal(38,18)"
LEFT = "id IN (3, 9) OR v = -1"

SUMS = {
    "sums": "SELECT k, sum(v) AS v, sum(t) AS t, sum(d) AS d, avg(v) AS mean, avg(t) AS small, avg(d) AS exact"
    " FROM amount GROUP BY k",
    "tried": "SELECT sum(t) AS t, try_sum(v) AS v, try_sum(v) FILTER (WHERE id < 4) AS back FROM amount",
}
"""Sums that fit their type, or that may become NULL."""

TOO_LARGE = {
    "wrapped": "SELECT sum(v) AS v, avg(v) AS mean FROM amount",
    "null": "SELECT sum(CAST(n AS DECIMAL(38, 0)) * 10000000000000000000000000000000000000) AS n FROM amount",
    "of each": "SELECT k, sum(CAST(n AS DECIMAL(28, 0))) AS n, avg(CAST(n AS DECIMAL(9, 1))) AS m FROM amount"
    " GROUP BY k",
    "appended": "SELECT k, sum(v) AS v, sum(CAST(n AS DECIMAL(20, 0))) AS n FROM appended GROUP BY k",
}
"""Sums that overflow with ANSI mode on, or may do so."""

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
    "nowhere": "SELECT max(city) AS last, count(*) AS n FROM person WHERE city = 'Nowhere'",
    "none there": "SELECT count(city) AS n, sum(bidder) AS s FROM person WHERE city = 'Nowhere'",
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


ORDINARY = {
    "in": "SELECT id, price FROM {b} WHERE bidder IN (SELECT bidder FROM person WHERE city <> 'Bonn')",
    "not in": "SELECT id, price FROM {b} WHERE bidder NOT IN (SELECT bidder FROM person)",
    "exists": "SELECT id FROM {b} o WHERE EXISTS (SELECT 1 FROM person p WHERE p.bidder = o.bidder AND o.price > 20)",
    "in or": "SELECT id, price FROM {b} WHERE price > 50 OR bidder IN (SELECT bidder FROM person)",
    "intersect": "SELECT bidder FROM {b} INTERSECT SELECT bidder FROM person",
    "intersect all": "SELECT bidder FROM {b} INTERSECT ALL SELECT bidder FROM person",
    "except": "SELECT bidder FROM {b} EXCEPT SELECT bidder FROM person",
    "except all": "SELECT bidder FROM {b} EXCEPT ALL SELECT bidder FROM person",
    "union": "SELECT bidder, price FROM {b} UNION ALL SELECT bidder, bidder FROM person WHERE city <> 'Bonn'",
    "rank": "SELECT id, rank() OVER (PARTITION BY auction ORDER BY price DESC) AS r FROM {b}",
    "lag": "SELECT id, lag(price) OVER (PARTITION BY bidder ORDER BY id) AS p, sum(price) OVER (ORDER BY id) AS s"
    " FROM {b}",
    "explode": "SELECT city, x FROM (SELECT city, explode(array(bidder, bidder + 1)) AS x FROM person)"
    " JOIN {b} ON x = id",
    "or bound": f"SELECT id, n FROM (SELECT *, {FIRST} AS n FROM {{b}}) WHERE n <= 2 OR price > 90",
    "not bound": f"SELECT id, n FROM (SELECT *, {FIRST} AS n FROM {{b}}) WHERE NOT n > 2",
    "no key": "SELECT price, city FROM {b} b LEFT JOIN person p ON b.bidder = p.bidder",
    "no equality": "SELECT id, city FROM {b} b LEFT JOIN person p ON b.bidder < p.bidder AND p.city = 'Oslo'",
    "number": "SELECT n FROM (SELECT auction, count(*) AS n FROM {b} GROUP BY auction)",
    "value": "SELECT id FROM {b} WHERE price > (SELECT avg(price) FROM {b})",
    "correlated": "SELECT id FROM {b} o WHERE price = (SELECT max(price) FROM {b} i WHERE i.auction = o.auction)",
    "nested": "SELECT city FROM person WHERE bidder IN (SELECT bidder FROM {b} o WHERE id > 3"
    " AND price > (SELECT avg(price) FROM {b} i WHERE i.auction = o.auction))",
    "nested value": "SELECT city, (SELECT max(price) FROM {b} o WHERE o.bidder = p.bidder"
    " AND id IN (SELECT max(id) FROM {b} GROUP BY auction)) AS m FROM person p",
    "unfortunate order": "SELECT id, p.city AS c, q.city AS d FROM person p, person q, {b} o WHERE o.bidder = p.bidder"
    " AND (o.auction = q.bidder AND o.id < 9 OR o.id > 170 AND q.bidder = o.auction)"
    " AND o.price > (SELECT avg(price) FROM {b})",
    "any function": "SELECT auction, percentile(price, 0.5) AS p, count(DISTINCT bidder, price) AS n FROM {b}"
    " GROUP BY auction",
    "rollup": "SELECT auction, bidder, sum(price) AS s FROM {b} GROUP BY ROLLUP (auction, bidder)",
    "pivot": "SELECT * FROM (SELECT auction, bidder, price FROM {b}) PIVOT (sum(price) FOR bidder IN (1, 2))",
    "limit": "SELECT id, price FROM {b} ORDER BY price DESC, id LIMIT 3 OFFSET 1",
    "limit of a join": "SELECT price AS amount, city AS town FROM {b} b JOIN person p ON b.bidder = p.bidder"
    " ORDER BY id LIMIT 3",
    "full": "SELECT id, city FROM {b} b FULL JOIN person p ON b.bidder = p.bidder AND b.price > 50",
    "lateral": "SELECT city, m FROM person p, LATERAL (SELECT max(price) AS m FROM {b} b WHERE b.bidder = p.bidder)",
    "table": "SELECT i.n, price FROM VALUES (1L), (7L), (200L) AS i (n) LEFT JOIN {b} b ON b.id = i.n",
    "united table": "SELECT bidder FROM {b} UNION ALL SELECT n FROM VALUES (1L), (7L) AS i (n)",
    "table not in": "SELECT n FROM VALUES (1L), (7L) AS i (n) WHERE n NOT IN (SELECT bidder FROM {b})",
    "window": "SELECT window(at, '20 seconds').start AS s, count(*) AS n FROM {b} GROUP BY window(at, '20 seconds')",
    "on in": "SELECT b.id, o.price FROM {b} b JOIN offer o ON b.id = o.id AND b.bidder IN (SELECT bidder FROM person)"
    " AND NOT EXISTS (SELECT 1 FROM person p WHERE p.bidder = o.auction)",
    "on not in": "SELECT b.id, o.id AS i FROM {b} b LEFT JOIN offer o ON b.id = o.id AND o.price > 20"
    " AND b.bidder NOT IN (SELECT bidder FROM person)",
    "on outer": "SELECT b.id, o.id AS i FROM {b} b FULL JOIN offer o ON b.id = o.id + 1"
    " AND b.price + o.price > (SELECT avg(price) FROM bid)"
    " AND (b.price > 30 OR o.bidder IN (SELECT bidder FROM person))",
    "on one side": "SELECT b.id, o.id AS i FROM {b} b RIGHT JOIN offer o ON b.id = o.id"
    " AND b.price > (SELECT avg(price) FROM bid)",
    "on semi": "SELECT id FROM {b} b LEFT SEMI JOIN offer o ON b.id = o.id AND o.bidder IN (SELECT bidder FROM person)"
    " AND b.auction > (SELECT min(bidder) FROM person)",
    "on anti": "SELECT id FROM {b} b LEFT ANTI JOIN offer o ON b.id = o.id AND o.price IN (SELECT id FROM bid)"
    " AND b.bidder IN (SELECT bidder FROM person)",
    "on table": "SELECT b.id, o.id AS i FROM {b} b LEFT JOIN offer o ON b.id = o.id AND b.price > 9"
    " AND b.bidder IN (SELECT n FROM VALUES (1L), (2L) AS t (n)) AND o.price > (SELECT 20)",
    "one value": "SELECT id, (SELECT city FROM person p WHERE p.bidder = b.bidder) AS c FROM {b} b",
    "any at all": "SELECT id FROM {b} WHERE EXISTS (SELECT 1 FROM person WHERE city = 'Rome')"
    " AND NOT EXISTS (SELECT 1 FROM person WHERE city = 'Nowhere')",
    "two values": "SELECT id, (SELECT min(price) FROM {b}) AS lo, (SELECT max(price) FROM {b}) AS hi FROM {b}"
    " WHERE price < (SELECT max(price) FROM {b}) AND price > (SELECT min(price) FROM {b})",
    "value of an aggregate": "SELECT auction AS a, sum(price) - (SELECT min(price) FROM {b}) AS s,"
    " sum(price - (SELECT max(price) FROM {b})) AS t FROM {b} GROUP BY auction",
    "value of a key": "SELECT price > (SELECT avg(price) FROM {b}) AS dear, count(*) AS n FROM {b}"
    " GROUP BY price > (SELECT avg(price) FROM {b})",
    "lateral limit": "SELECT city, p FROM person p, LATERAL (SELECT price AS p FROM {b} b WHERE b.bidder = p.bidder"
    " ORDER BY price DESC, id LIMIT 2)",
    "limit of windows": "SELECT auction, e, n FROM (SELECT auction, window.end AS e, sum(price) AS n FROM {b}"
    " GROUP BY auction, window(at, '20 seconds')) ORDER BY n DESC, auction, e LIMIT 5",
    "session of sessions": "SELECT s.start AS s, sum(n) AS m FROM (SELECT bidder, session_window AS s, count(*) AS n"
    " FROM {b} GROUP BY session_window(at, '3 seconds'), bidder) GROUP BY s",
    "session": "SELECT bidder, session_window(at, '3 seconds').start AS s, count(*) AS n FROM {b}"
    " GROUP BY session_window(at, '3 seconds'), bidder",
}
"""Queries of a view, which appends rows or updates them by key, together with a changelog of people."""

SOME = ("greatest", "placed", "means", "best", "nowhere", "none there")
"""Queries that each need functions that the others do not need."""


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
    return rows.withColumn("batch", F.lit(next(numbers))).withColumn("place", F.monotonically_increasing_id())


def remaining_rows(written: DataFrame, stream: DataStream) -> DataFrame:
    """Return the rows that remain once all changes are applied: the last row of each key, unless it is a deletion."""
    changelog = stream.changelog
    if changelog.keys is None:
        written = written.drop("batch", "place")
        if changelog.row_kind is None:
            return written
        number = F.sum(F.when(F.col(changelog.row_kind) == "+I", 1).otherwise(-1)).cast("int")
        columns = [name for name in stream.columns if name != changelog.row_kind]
        repeated = written.groupBy(*columns).agg(F.explode(F.array_repeat(F.lit(0), number)).alias("repeated"))
        return repeated.drop("repeated")
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
def test_rows_remaining_after_all_changes_equal_those_of_spark(
    spark: SparkSession,
    env: StreamExecutionEnvironment,
    bids: DataFrame,
    tmp_path: Path,
    names: Sequence[str],
    parallelism: int,
) -> None:
    queries = {name: QUERIES[name] for name in names}

    check_remaining_rows(spark, env.set_parallelism(parallelism), bids, tmp_path, queries)


def check_remaining_rows(
    spark: SparkSession,
    env: StreamExecutionEnvironment,
    bids: DataFrame,
    tmp_path: Path,
    queries: Mapping[str, str],
) -> None:
    """Run queries as one job, and compare the remaining rows with those of a batch."""
    streams = {name: env.sql(query) for name, query in queries.items()}
    for name, stream in streams.items():
        placed = stream.transform(partial(with_place, numbers=count()), per_batch=True)
        placed.sink_to(FileSink.parquet(str(tmp_path / name)))

    env.execute("changes")

    for view in ("bid", "offer"):
        bids.createOrReplaceTempView(view)
    living = [(1, "Bonn"), (2, "Rome"), (3, "Oslo"), (4, "Oslo")]
    spark.createDataFrame(living, "bidder bigint, city string").createOrReplaceTempView("person")
    for name, stream in streams.items():
        left = remaining_rows(spark.read.parquet(str(tmp_path / name)), stream)
        assertDataFrameEqual(left, spark.sql(queries[name]))
    for view in ("bid", "offer", "person"):
        spark.catalog.dropTempView(view)


@pytest.mark.parametrize(
    ("view", "names"),
    [
        ("bid", ("not in", "except all", "rank", "table", "session", "on in", "on anti", "any at all", "two values")),
        ("offer", ("in or", "any function", "limit", "session")),
        *(
            pytest.param(view, tuple(ORDINARY)[place : place + 10], marks=pytest.mark.long)
            for view in ("bid", "offer")
            for place in range(0, len(ORDINARY), 10)
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else ", ".join(value),
)
def test_ordinary_queries_are_kept_up_to_date(
    spark: SparkSession,
    env: StreamExecutionEnvironment,
    bids: DataFrame,
    tmp_path: Path,
    view: str,
    names: Sequence[str],
) -> None:
    queries = {name: ORDINARY[name].format(b=view) for name in names}

    check_remaining_rows(spark, env.set_parallelism(2), bids, tmp_path, queries)


def test_any_aggregate_of_event_time_sessions_equals_spark(
    spark: SparkSession, env: StreamExecutionEnvironment, bids: DataFrame, tmp_path: Path
) -> None:
    times = WatermarkStrategy.for_bounded_out_of_orderness("1m").with_timestamp_column("at")
    env.create_temporary_view("bid", env.from_dataframe(bids).assign_timestamps_and_watermarks(times))
    sessions = "session_window(at, '3 seconds')"
    queries = {
        "aggregates": f"SELECT bidder, {sessions}.start AS s, percentile(price, 0.5) AS p, count(DISTINCT auction) AS n"
        f" FROM bid GROUP BY bidder, {sessions}",
        "sessions": f"SELECT s.end AS e, sum(n) AS m FROM (SELECT bidder, {sessions} AS s, count(*) AS n FROM bid"
        f" GROUP BY bidder, {sessions}) GROUP BY s",
    }

    check_remaining_rows(spark, env, bids, tmp_path, queries)


OF_ALL_CHANGES = {
    "cities": "SELECT city, count(*) AS n FROM person GROUP BY city HAVING count(*) > 1",
    "inhabitants": "SELECT p.bidder, n FROM person p JOIN (SELECT city, count(*) AS n FROM person GROUP BY city) c"
    " ON c.city = p.city",
    "most": "SELECT max(n) AS n FROM (SELECT city, count(*) AS n FROM person GROUP BY city)",
    "first": "SELECT bidder, city FROM person ORDER BY city, bidder LIMIT 2",
    "first numbers": "SELECT count(*) AS n FROM person GROUP BY city ORDER BY n DESC LIMIT 1",
    "first of a rollup": "SELECT count(*) AS n, city FROM person GROUP BY ROLLUP (city) ORDER BY n DESC, city LIMIT 2",
    "offers": "SELECT city, count(*) AS n FROM bid b JOIN person p ON b.bidder = p.bidder GROUP BY city",
}


def test_changes_with_all_values_of_the_old_rows_need_no_current_rows(
    spark: SparkSession, env: StreamExecutionEnvironment, bids: DataFrame, people: DataFrame, tmp_path: Path
) -> None:
    changes = env.from_dataframe(people, partitions_per_batch=1)
    env.create_temporary_view("person", changes, primary_key="bidder", changelog_mode="all")

    plan = env.explain_sql(OF_ALL_CHANGES["inhabitants"])
    check_remaining_rows(spark, env, bids, tmp_path, OF_ALL_CHANGES)

    assert "changes by" not in plan


@pytest.fixture(params=[True, pytest.param(False, marks=pytest.mark.long)], ids=["ansi", "legacy"])
def is_ansi(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[bool]:
    spark.conf.set("spark.sql.ansi.enabled", str(request.param).lower())
    yield request.param
    spark.conf.unset("spark.sql.ansi.enabled")


def test_sums_equal_those_of_spark_despite_intermediate_overflow(
    spark: SparkSession, tmp_path: Path, is_ansi: bool
) -> None:
    queries = SUMS if is_ansi else {**SUMS, **TOO_LARGE}
    rows = spark.sparkContext.parallelize(AMOUNTS, 3).flatMap(lambda rows: rows)
    changes = spark.createDataFrame(rows, AMOUNT).withColumns(
        {"t": F.col("t").cast("tinyint"), "d": F.col("d").cast(D)}
    )
    with StreamExecutionEnvironment.get_execution_environment() as env:
        source = env.from_dataframe(changes, partitions_per_batch=1)
        env.create_temporary_view("amount", source, primary_key="id")
        env.create_temporary_view("appended", source.select("k", "v", "n"))
        streams = {name: env.sql(query) for name, query in queries.items()}
        for name, stream in streams.items():
            placed = stream.transform(partial(with_place, numbers=count()), per_batch=True)
            placed.sink_to(FileSink.parquet(str(tmp_path / name)))
        env.execute("sums")

    changes.createOrReplaceTempView("appended")
    changes.where(LEFT).createOrReplaceTempView("amount")
    for name, stream in streams.items():
        left = remaining_rows(spark.read.parquet(str(tmp_path / name)), stream)
        assertDataFrameEqual(left, spark.sql(queries[name]))


def test_an_overflow_in_a_sum_of_changing_rows_names_the_call(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1, LARGEST), (2, 1)], "id bigint, v bigint")
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.create_temporary_view("amount", env.from_dataframe(rows), primary_key="id")
        env.sql("SELECT sum(v) AS v FROM amount").sink_to(ConsoleSink())
        with pytest.raises(
            JobExecutionError, match=r"ARITHMETIC_OVERFLOW\] sum\(.*v\) is too large for its type, bigint"
        ):
            env.execute("sum")
