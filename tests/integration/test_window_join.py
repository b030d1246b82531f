"""Tests window joins and co-groups of two streams: the rows equal those of a plain Spark batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from flykka import (
    DataStream,
    FileSink,
    FileSource,
    RestartStrategies,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flykka.messages.attempt.answers import SnapshotWritten
from tests.integration.test_interval_join import side_files
from tests.integration.test_kill import Moment, kill_at

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

__all__ = ["side_files"]

TUMBLING, SLIDING = TumblingEventTimeWindows.of("10s"), SlidingEventTimeWindows.of("10s", "4s")
MOMENT = Moment(name="at a barrier", matches=lambda said: isinstance(said, SnapshotWritten), count=3)
SOME_USERS = "user IS NULL OR user BETWEEN 13 AND 18"
Windows = TumblingEventTimeWindows | SlidingEventTimeWindows


def sides(env: StreamExecutionEnvironment, folder: Path) -> tuple[DataStream, DataStream]:
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness("30s").with_timestamp_column("at")
    left, right = (
        env.from_source(FileSource.parquet(str(folder / side)).files_per_batch(1), watermarks, side, uid=side)
        for side in ("left", "right")
    )
    return left, right


def windowed(spark: SparkSession, folder: Path, windows: Windows) -> tuple[DataFrame, DataFrame]:
    """Return the rows of the two sides as a batch, once for each of their windows."""
    # Spark has no windows with gaps between them, so rows in gaps are removed.
    spans = (f"{each} milliseconds" for each in (max(windows.size_ms, windows.slide_ms), windows.slide_ms))
    start = F.window("at", *spans)["start"]
    end = start + F.expr(f"INTERVAL {windows.size_ms} MILLISECONDS")
    left, right = (
        spark.read.parquet(str(folder / side))
        .select("*", F.struct(start.alias("start"), end.alias("end")).alias("w"))
        .where("at < w.end")
        for side in ("left", "right")
    )
    return left, right


@pytest.fixture
def env(environment: Callable[..., StreamExecutionEnvironment], tmp_path: Path) -> StreamExecutionEnvironment:
    made = environment().set_checkpoint_dir(str(tmp_path / "checkpoints"))
    made.set_restart_strategy(RestartStrategies.fixed_delay_restart(delay=0))
    return made.enable_checkpointing("500ms", tolerable_failures=100)


@pytest.mark.parametrize(
    ("windows", "kind", "kills"),
    [
        (TUMBLING, "full", False),
        pytest.param(SLIDING, "full", False, marks=pytest.mark.long),
        pytest.param(SLIDING, "full", True, marks=pytest.mark.long),
        pytest.param(TUMBLING, "inner", True, marks=pytest.mark.long),
        pytest.param(TUMBLING, "left", True, marks=pytest.mark.long),
        pytest.param(SlidingEventTimeWindows.of("4s", "10s"), "full", True, marks=pytest.mark.long),
    ],
)
def test_a_window_join_equals_that_of_a_batch_even_with_a_kill(
    spark: SparkSession,
    env: StreamExecutionEnvironment,
    side_files: Path,
    tmp_path: Path,
    windows: Windows,
    kind: str,
    kills: bool,
) -> None:
    kill = kill_at(env.set_parallelism(2), MOMENT) if kills else None
    left, right = sides(env, side_files)
    join = left.join(right).where("user").equal_to("user").window(windows)
    join = join if kind == "inner" else getattr(join, f"{kind}_outer")()
    pairs = join.select(F.col("left.id").alias("one"), F.col("right.id").alias("other")).uid("join")
    pairs.sink_to(FileSink.parquet(str(tmp_path / "output"))).uid("output")

    env.execute("window join")

    one, other = windowed(spark, side_files, windows)
    met = one.alias("l").join(other.alias("r"), F.expr("l.user = r.user AND l.w = r.w"), kind)
    bounds = "coalesce(l.w, r.w).start AS window_start", "coalesce(l.w, r.w).end AS window_end"
    assert kill is None or kill.done
    assertDataFrameEqual(
        spark.read.parquet(str(tmp_path / "output")), met.selectExpr(*bounds, "l.id AS one", "r.id AS other")
    )


def join_totals(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    """Return the row counts of both sides, and the bounds of the window."""
    some = left if len(left) else right
    return pd.DataFrame(
        {
            "user": some["user"][:1],
            "window_end": some["window_end"][:1],
            "ones": [len(left)],
            "others": [len(right)],
            "total": [left["id"].sum() + right["id"].sum()],
        }
    )


@pytest.mark.parametrize(
    ("windows", "kills"),
    [
        (TUMBLING, False),
        pytest.param(TUMBLING, True, marks=pytest.mark.long),
        pytest.param(SLIDING, True, marks=pytest.mark.long),
    ],
)
def test_a_function_receives_both_sides_of_a_key_and_window_once(
    spark: SparkSession,
    env: StreamExecutionEnvironment,
    side_files: Path,
    tmp_path: Path,
    windows: Windows,
    kills: bool,
) -> None:
    kill = kill_at(env.set_parallelism(2), MOMENT) if kills else None
    # A function takes some time for each key and window.
    left, right = (side.where(SOME_USERS) for side in sides(env, side_files))
    output = "user bigint, window_end timestamp, ones bigint, others bigint, total bigint"
    groups = left.co_group(right).where("user").equal_to("user").window(windows).apply(join_totals, output)
    groups.uid("groups").sink_to(FileSink.parquet(str(tmp_path / "output"))).uid("output")

    env.execute("co-group")

    one, other = (side.where(SOME_USERS) for side in windowed(spark, side_files, windows))
    both = one.withColumn("side", F.lit(1)).union(other.withColumn("side", F.lit(2)))
    true = both.groupBy("user", "w.end").agg(
        F.count_if(F.col("side") == 1).alias("ones"),
        F.count_if(F.col("side") == 2).alias("others"),
        F.sum("id").alias("total"),
    )
    assert kill is None or kill.done
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "output")), true.withColumnRenamed("end", "window_end"))
