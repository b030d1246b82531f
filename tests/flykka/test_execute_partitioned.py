"""Jobs with partitioned rows and unchained operators, from the environment to the output folders."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flykka import (
    DataGenSource,
    FileSink,
    OutputTag,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flykka.datagen import sequence

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow, pytest.mark.checkpoints]


def test_every_partitioner_delivers_every_row_as_often_as_documented(
    spark: SparkSession, env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    env.set_parallelism(2)
    numbers = env.from_source(DataGenSource({"n": sequence()}, number_of_rows=40, rows_per_batch=10), uid="numbers")
    (
        numbers.rescale()
        .where("n >= 0")
        .shuffle()
        .where("n >= 0")
        .set_parallelism(1)
        .broadcast()
        .select("n")
        .global_()
        .select("n")
        .sink_to(FileSink.parquet(tmp_path / "out").mark_success())
    )

    env.execute("partitioned")

    counted = spark.read.parquet(str(tmp_path / "out")).groupBy("n").count().collect()
    assert {row["n"]: row["count"] for row in counted} == dict.fromkeys(range(40), 2)
    assert (tmp_path / "out" / "_SUCCESS").exists()


def test_a_job_without_chains_has_the_same_output(
    spark: SparkSession, env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    env.disable_operator_chaining().disable_auto_generated_uids()
    at = F.timestamp_seconds(F.when(F.col("index") == 15, 0).otherwise(F.col("index") * 10))
    source = DataGenSource({"n": F.col("index"), "at": at}, number_of_rows=20, rows_per_batch=5)
    watermarks = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
    late = OutputTag("late")
    rows = env.from_source(source, watermarks, uid="rows").where("n >= 0").uid("all")
    windows = TumblingEventTimeWindows.of("1min")
    keyed = rows.key_by(F.lit(1).alias("key")).window(windows)
    keyed.aggregate(F.count("*").alias("rows")).uid("counts").sink_to(FileSink.json(tmp_path / "out")).uid("out")
    with_late = keyed.side_output_late_data(late).aggregate(F.count("*").alias("rows")).uid("kept")
    with_late.get_side_output(late).uid("late").sink_to(FileSink.json(tmp_path / "late")).uid("late-out")

    vertices = env.get_job_graph().vertices
    env.execute("unchained")

    assert [len(vertex.operators) for vertex in vertices].count(2) == 1
    assert sum(row["rows"] for row in spark.read.json(str(tmp_path / "out")).collect()) == 19
    assert [row["n"] for row in spark.read.json(str(tmp_path / "late")).collect()] == [15]
