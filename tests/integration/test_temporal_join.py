"""Tests temporal joins: whatever faults occur, the rows equal those of a plain batch."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from flykka import (
    DataStream,
    FileSink,
    FileSource,
    JobClient,
    RestartStrategies,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from flykka.messages.attempt.answers import SnapshotWritten
from tests.integration import arrivals
from tests.integration.test_continuing import wait_checkpoint
from tests.integration.test_kill import Moment, kill_at

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

FILES, ROWS, STEP_MS, DISORDER_MS = 3, 100, 400, 20_000
BEGIN_MS = 1_704_067_200_000
TIME = pa.timestamp("us", tz="UTC")


@pytest.fixture(scope="module")
def side_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seeded orders and rates in whole seconds, some of them without a currency; the times of rates are unique."""
    folder = tmp_path_factory.mktemp("sides")
    chance = np.random.default_rng(7)
    for side, currencies in (("orders", (0, 30)), ("rates", (10, 35))):
        (folder / side).mkdir()
        for number in range(FILES):
            places = np.arange(number * ROWS, (number + 1) * ROWS)
            times = (places * STEP_MS + chance.integers(0, DISORDER_MS, ROWS)) // 1000 * 1000
            currency = chance.integers(*currencies, ROWS)
            micros = (BEGIN_MS + times) * 1000 + (places if side == "rates" else 0)
            rows = {
                "id": places,
                "currency": pa.array(currency, mask=currency == currencies[0] + 5),
                "at": pa.array(micros).cast(TIME),
            }
            pq.write_table(pa.table(rows), folder / side / f"{number}.parquet")
    return folder


def start_temporal_join(
    env: StreamExecutionEnvironment,
    folder: Path,
    output: Path,
    join: Callable[[DataStream, DataStream], DataStream],
    *,
    monitor: bool = False,
) -> JobClient:
    """Submit the join of two folders: one file per batch, a checkpoint every 500 ms, immediate restarts."""
    env.enable_checkpointing("500ms", tolerable_failures=100).set_checkpoint_dir(str(output.with_name("checkpoints")))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(delay=0))
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness("30s").with_timestamp_column("at")
    sides = []
    for side in ("orders", "rates"):
        source = FileSource.parquet(str(folder / side)).files_per_batch(1)
        source = source.monitor_continuously("50ms", until=arrivals.END) if monitor else source
        sides.append(env.from_source(source, watermarks, side, uid=side))
    join(*sides).sink_to(FileSink.parquet(str(output))).uid("output")
    return env.execute_async("join")


def left_join(orders: DataStream, rates: DataStream) -> DataStream:
    """Join every order with its rate, unless the last digits of their ids are equal."""
    joined = orders.key_by("currency").temporal_join(rates.key_by("currency")).left_outer()
    fits = joined.on("left.id % 10 <> right.id % 10")
    return fits.select("left.id", "left.at", F.col("right.id").alias("rate")).uid("join")


def inner_join(orders: DataStream, rates: DataStream) -> DataStream:
    joined = orders.key_by("currency").temporal_join(rates.key_by("currency"))
    return joined.select("left.id", "left.at", F.col("right.id").alias("rate")).uid("join")


KIND = "IF(id % 4 = 0, '-D', '+U') AS row_kind"
LEFT_JOIN = """
SELECT o.id, o.at, r.id AS rate
FROM orders AS o
LEFT JOIN rates FOR SYSTEM_TIME AS OF o.at AS r ON o.currency = r.currency AND o.id % 10 <> r.id % 10
"""


def left_join_in_sql(env: StreamExecutionEnvironment) -> Callable[[DataStream, DataStream], DataStream]:
    """Return the same join in SQL, in which every fourth rate is a deletion."""

    def join(orders: DataStream, rates: DataStream) -> DataStream:
        env.create_temporary_view("orders", orders)
        env.create_temporary_view("rates", rates.select_expr("*", KIND), primary_key="currency")
        return env.sql(LEFT_JOIN)

    return join


def newest_rates(spark: SparkSession, files: Path, *, is_outer: bool) -> DataFrame:
    orders, rates = (spark.read.parquet(str(files / side)) for side in ("orders", "rates"))
    meets = F.expr("o.currency = r.currency AND r.at <= o.at")
    met = orders.alias("o").join(rates.alias("r"), meets, "left").groupBy("o.id", "o.at")
    newest = met.agg(F.max_by("r.id", "r.at").alias("rate"))
    if not is_outer:
        return newest.where("rate IS NOT NULL")
    return newest.withColumn("rate", F.expr("IF(id % 10 <> rate % 10, rate, NULL)"))


# The examples of orders and rates cover this too.
@pytest.mark.long
def test_inner_join_rows_equal_those_of_a_batch(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], side_files: Path, tmp_path: Path
) -> None:
    start_temporal_join(environment().set_parallelism(2), side_files, tmp_path / "output", inner_join).wait(timeout=120)

    expected = newest_rates(spark, side_files, is_outer=False)
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "output")), expected)


def test_a_version_deleted_in_sql_has_no_match(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], side_files: Path, tmp_path: Path
) -> None:
    env = environment().set_parallelism(1)

    start_temporal_join(env, side_files, tmp_path / "output", left_join_in_sql(env)).wait(timeout=120)

    newest = newest_rates(spark, side_files, is_outer=True)
    expected = newest.withColumn("rate", F.expr("IF(rate % 4 = 0, NULL, rate)"))
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "output")), expected)


# The tests of connected streams kill a job with two inputs.
@pytest.mark.long
def test_a_kill_does_not_change_temporal_join_rows(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], side_files: Path, tmp_path: Path
) -> None:
    env = environment().set_parallelism(2)
    kill = kill_at(env, Moment(name="", matches=lambda said: isinstance(said, SnapshotWritten), count=3))

    start_temporal_join(env, side_files, tmp_path / "output", left_join).wait(timeout=120)

    assert kill.done
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "output")), newest_rates(spark, side_files, is_outer=True))


@pytest.mark.long
def test_a_temporal_join_resumes_from_a_savepoint_at_another_parallelism(
    spark: SparkSession, environment: Callable[..., StreamExecutionEnvironment], side_files: Path, tmp_path: Path
) -> None:
    arriving, output = tmp_path / "arriving", tmp_path / "output"
    for side in ("orders", "rates"):
        (arriving / side).mkdir(parents=True)
        for number in range(2):
            shutil.copy(side_files / side / f"{number}.parquet", arriving / side)
    client = start_temporal_join(environment().set_parallelism(2), arriving, output, left_join, monitor=True)
    wait_checkpoint(client)
    path = client.stop()
    for side in ("orders", "rates"):
        for number in range(2, FILES):
            shutil.copy(side_files / side / f"{number}.parquet", arriving / side)
        (arriving / side / arrivals.END).touch()

    env = environment().set_parallelism(3).from_checkpoint(path)
    start_temporal_join(env, arriving, output, left_join, monitor=True).wait(timeout=120)

    assertDataFrameEqual(spark.read.parquet(str(output)), newest_rates(spark, side_files, is_outer=True))
