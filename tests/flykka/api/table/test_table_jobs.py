"""Jobs from tables into tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from flykka import JobClient, RestartStrategies, StreamExecutionEnvironment
from flykka.errors import JobExecutionError, SqlError

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

PATIENCE_S = 60.0


@pytest.fixture
def env(spark: SparkSession, tmp_path: Path) -> Iterator[StreamExecutionEnvironment]:
    rows = [(n % 7, n / 4, ("app", "web")[n % 2], 1_767_225_600 + n) for n in range(300)]
    made = spark.createDataFrame(rows, "auction bigint, price double, channel string, at bigint")
    made.withColumn("at", F.timestamp_seconds("at")).write.option("header", True).csv(str(tmp_path / "bids"))
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.set_checkpoint_dir(str(tmp_path / "checkpoints"))
        env.execute_sql(
            "CREATE TABLE bid (auction BIGINT, price DOUBLE, channel STRING, at TIMESTAMP,"
            " WATERMARK FOR at AS at - INTERVAL 5 MINUTES)"
            f" USING csv OPTIONS (path '{tmp_path}/bids', header true)"
        )
        yield env


@pytest.fixture
def bids(spark: SparkSession, env: StreamExecutionEnvironment, tmp_path: Path) -> DataFrame:
    schema = "auction bigint, price double, channel string, at timestamp"
    return spark.read.schema(schema).option("header", True).csv(str(tmp_path / "bids"))


def execute_statement(env: StreamExecutionEnvironment, statement: str) -> None:
    client = env.execute_sql(statement)
    assert isinstance(client, JobClient)
    client.wait(timeout=PATIENCE_S)


def test_inserts_run_as_successive_jobs_over_the_same_tables_and_views(
    spark: SparkSession, env: StreamExecutionEnvironment, bids: DataFrame, tmp_path: Path
) -> None:
    env.execute_sql(
        f"CREATE TABLE minutes (start TIMESTAMP, auction INT, n BIGINT) USING parquet PARTITIONED BY (auction)"
        f" OPTIONS (path '{tmp_path}/minutes')"
    )
    env.execute_sql(f"CREATE TABLE dear USING json OPTIONS (path '{tmp_path}/dear')")
    env.execute_sql("CREATE TEMPORARY VIEW web AS SELECT * FROM bid WHERE channel = 'web'")

    execute_statement(
        env,
        "INSERT INTO minutes SELECT window.start, auction, count(*) FROM web GROUP BY auction, window(at, '1 minute')",
    )
    execute_statement(env, "INSERT INTO dear SELECT auction, price FROM web WHERE price > 50")

    web = bids.where("channel = 'web'")
    counted = web.groupBy(F.window("at", "1 minute").start.alias("start"), "auction").agg(F.count("*").alias("n"))
    rows = spark.read.parquet(str(tmp_path / "minutes")).select("start", "auction", "n")
    assertDataFrameEqual(rows, counted.withColumn("auction", F.col("auction").cast("int")))
    dear = spark.read.schema("auction bigint, price double").json(str(tmp_path / "dear"))
    assertDataFrameEqual(dear, web.where("price > 50").select("auction", "price"))


def test_a_statement_set_writes_upserts_and_rows_in_one_job(
    spark: SparkSession,
    env: StreamExecutionEnvironment,
    bids: DataFrame,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    env.execute_sql(
        "CREATE TABLE totals (auction BIGINT, n BIGINT, price DOUBLE, PRIMARY KEY (auction) NOT ENFORCED)"
        f" USING delta OPTIONS (path '{tmp_path}/totals')"
    )
    env.execute_sql("CREATE TABLE shown (channel STRING, n BIGINT) USING print OPTIONS (limit 1)")
    env.execute_sql("SET 'job_name' = 'totals of bids'")

    client = env.execute_sql("""
        EXECUTE STATEMENT SET BEGIN
          INSERT INTO totals (price, auction, n) SELECT sum(price), auction, count(*) FROM bid GROUP BY auction;
          INSERT INTO shown SELECT channel, count(*) FROM bid GROUP BY channel;
        END
    """)

    assert isinstance(client, JobClient)
    assert client.job_name == "totals of bids"
    client.wait(timeout=PATIENCE_S)
    totals = spark.createDataFrame(DeltaTable(str(tmp_path / "totals")).to_pyarrow_dataset().to_table().to_pandas())
    wanted = bids.groupBy("auction").agg(F.count("*").alias("n"), F.sum("price").alias("price"))
    assertDataFrameEqual(totals.select("auction", "n", "price"), wanted)
    assert "shown: console, batch 1: 2 rows" in capsys.readouterr().out


def test_tables_without_a_key_keep_current_rows_or_append_rows(
    spark: SparkSession, env: StreamExecutionEnvironment, bids: DataFrame, tmp_path: Path
) -> None:
    for table in ("numbers", "prices"):
        env.execute_sql(f"CREATE TABLE {table} (v DOUBLE) USING delta OPTIONS (path '{tmp_path}/{table}')")
    env.set_parallelism(2)

    execute_statement(env, "INSERT INTO numbers SELECT n FROM (SELECT count(*) AS n FROM bid GROUP BY auction)")
    for _ in range(2):
        execute_statement(env, "INSERT INTO prices SELECT price FROM bid")

    def values(table: str) -> list[float]:
        return sorted(DeltaTable(str(tmp_path / table)).to_pyarrow_table()["v"].to_pylist())

    assert values("numbers") == sorted(row["count"] for row in bids.groupBy("auction").count().collect())
    assert values("prices") == sorted([row.price for row in bids.collect()] * 2)


def test_a_refused_statement_is_not_part_of_the_next_job(
    spark: SparkSession, env: StreamExecutionEnvironment, bids: DataFrame, tmp_path: Path
) -> None:
    env.execute_sql(f"CREATE TABLE good USING parquet OPTIONS (path '{tmp_path}/good')")
    with pytest.raises(SqlError, match="`nope` cannot be found"):
        env.execute_sql(
            "EXECUTE STATEMENT SET BEGIN INSERT INTO good SELECT 0 AS price FROM bid; INSERT INTO good SELECT * FROM"
            " nope; END"
        )

    execute_statement(env, "INSERT INTO good SELECT price FROM bid")

    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "good")), bids.select("price"))


def test_strings_are_stored_in_and_read_from_columns_of_limited_length(
    spark: SparkSession, env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    columns = "id BIGINT, name VARCHAR(3), padded CHAR(5)"
    env.execute_sql(f"CREATE TABLE names ({columns}) USING parquet OPTIONS (path '{tmp_path}/names')")
    env.execute_sql(f"CREATE TABLE again (name STRING, padded STRING) USING parquet OPTIONS (path '{tmp_path}/again')")

    execute_statement(
        env, "INSERT INTO names SELECT auction, channel, channel AS padded FROM bid WHERE channel = 'web'"
    )
    execute_statement(env, "INSERT INTO again SELECT name, padded FROM names WHERE id = 1")

    assert set(map(tuple, spark.read.parquet(str(tmp_path / "again")).collect())) == {("web", "web  ")}


def test_a_string_longer_than_its_column_is_refused(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    env.execute_sql(f"CREATE TABLE names (name VARCHAR(2)) USING parquet OPTIONS (path '{tmp_path}/names')")
    env.set_restart_strategy(RestartStrategies.no_restart())

    with pytest.raises(JobExecutionError, match=r"(?i)exceeds? (char/varchar type )?length limitation"):
        execute_statement(env, "INSERT INTO names SELECT channel FROM bid")
