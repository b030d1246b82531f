"""Sources of a program, each type from the environment to the output."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from flykka import (
    DataGenSource,
    FileSink,
    FileSource,
    RestartStrategies,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flykka.datagen import choice, sequence, timestamps
from flykka.errors import DuplicateUidError, JobExecutionError, ProgramError, StreamTypeError
from flykka.spark_bridge.errors import SourceNotFoundError

pytestmark = pytest.mark.spark

BY_TIME = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")


@pytest.fixture
def env(spark: SparkSession) -> Iterator[StreamExecutionEnvironment]:
    """An environment on the session of the test run; asserts that it leaves no cached data."""
    before = persisted(spark)
    with StreamExecutionEnvironment.get_execution_environment() as made:
        yield made
    assert persisted(spark) == before


def persisted(spark: SparkSession) -> int:
    return len(spark.sparkContext._jsc.getPersistentRDDs())


def test_a_source_without_options_has_its_own_name_and_no_watermarks(env: StreamExecutionEnvironment) -> None:
    stream = env.from_source(DataGenSource({"id": sequence()}, number_of_rows=7))

    assert str(stream.flow.operator) == "datagen of 7 rows"
    with pytest.raises(StreamTypeError, match="no event time"):
        stream.key_by("id").window(TumblingEventTimeWindows.of("1s"))


def test_a_missing_input_is_refused_on_its_line(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match=f"nothing to read at {tmp_path}/nowhere"):
        env.from_source(FileSource.csv(tmp_path / "nowhere", schema="id int"))


def test_a_column_that_cannot_be_computed_names_the_source(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(StreamTypeError, match=r"^ids: .*`nothing`"):
        env.from_source(DataGenSource({"id": F.col("nothing")}, number_of_rows=7), name="ids")


def test_watermarks_need_an_event_time_of_the_right_type(env: StreamExecutionEnvironment, spark: SparkSession) -> None:
    local = spark.sql("SELECT timestamp_ntz'2024-01-01 00:00:00' AS at")

    with pytest.raises(StreamTypeError, match="with_timestamp_column"):
        env.from_dataframe(local, WatermarkStrategy.for_monotonous_timestamps())
    with pytest.raises(
        StreamTypeError, match="timestamp_ntz, not timestamp: a file that was written without a time zone"
    ):
        env.from_dataframe(local, BY_TIME)


@pytest.mark.parametrize(
    ("made", "wrong"), [("a list", "not a list"), ("a stream", "not a streaming one"), ("a number", "from 1, not 0")]
)
def test_only_bounded_dataframes_are_accepted(
    env: StreamExecutionEnvironment, spark: SparkSession, made: str, wrong: str
) -> None:
    frames: dict[str, object] = {
        "a list": [],
        "a stream": spark.readStream.format("rate").load(),
        "a number": spark.range(1),
    }
    frame = frames[made]

    with pytest.raises(ProgramError, match=wrong):
        env.from_dataframe(frame, partitions_per_batch=0 if made == "a number" else None)  # type: ignore[arg-type]


def test_a_refused_dataframe_leaves_the_program_unchanged(env: StreamExecutionEnvironment, spark: SparkSession) -> None:
    env.from_dataframe(spark.range(1), uid="ids")

    with pytest.raises(DuplicateUidError, match="ids"):
        env.from_dataframe(spark.range(2), uid="ids")


@pytest.mark.slow
@pytest.mark.integration
def test_a_dataframe_is_computed_once_even_if_the_job_restarts(
    env: StreamExecutionEnvironment, spark: SparkSession, tmp_path: Path
) -> None:
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, "0s"))
    failed: list[bool] = []

    def fail_once(rows: DataFrame) -> DataFrame:
        if rows.count() and not failed:
            failed.append(True)
            raise RuntimeError("once")
        return rows

    frame = spark.range(0, 100, 1, 3).withColumn("chance", F.rand())
    stream = env.from_dataframe(frame, partitions_per_batch=1)
    (kept,) = (computed for computed, _ in env._computed._kept)
    expected = kept.blocks.frame.collect()
    stream.transform(fail_once).sink_to(FileSink.parquet(tmp_path / "out"))

    env.execute()

    assert failed
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "out")), expected)


@pytest.mark.slow
@pytest.mark.integration
def test_generated_rows_are_windowed_by_their_event_time(
    env: StreamExecutionEnvironment, spark: SparkSession, tmp_path: Path
) -> None:
    fields = {"side": choice("buy", "sell"), "at": timestamps("2024-01-01", "10ms")}
    (
        env.from_source(DataGenSource(fields, number_of_rows=1_000, rows_per_batch=300), BY_TIME)
        .key_by("side")
        .window(TumblingEventTimeWindows.of("5s"))
        .aggregate(F.count("*").alias("orders"))
        .sink_to(FileSink.parquet(tmp_path / "out"))
    )

    env.execute()

    written = spark.read.parquet(str(tmp_path / "out"))
    assert written.count() == 4
    assert [row.orders for row in written.groupBy("window_start").agg(F.sum("orders").alias("orders")).collect()] == [
        500,
        500,
    ]


@pytest.mark.slow
@pytest.mark.integration
def test_a_corrupt_file_fails_the_job_and_publishes_nothing(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    env.set_restart_strategy(RestartStrategies.no_restart())
    (tmp_path / "in").mkdir()
    for name, text in {"a": "id\n1\n", "b": "id\nx\n", "c": "id\n3\n"}.items():
        (tmp_path / "in" / f"{name}.csv").write_text(text)
    source = FileSource.csv(tmp_path / "in", schema="id int", header=True)
    env.from_source(source, name="ids").sink_to(FileSink.parquet(tmp_path / "out"))

    with pytest.raises(JobExecutionError, match=r"/in/b\.csv: .*\"x\""):
        env.execute()

    assert not list((tmp_path / "out").rglob("*.parquet"))


@pytest.mark.slow
@pytest.mark.integration
def test_a_job_over_an_empty_dataframe_ends(
    env: StreamExecutionEnvironment, spark: SparkSession, tmp_path: Path
) -> None:
    env.from_dataframe(spark.createDataFrame([], "id int")).sink_to(FileSink.parquet(tmp_path / "out"))

    env.execute()

    assert not list((tmp_path / "out").rglob("*.parquet"))


def test_a_watermark_marker_condition_is_validated_on_its_line(
    env: StreamExecutionEnvironment, spark: SparkSession
) -> None:
    frame = spark.createDataFrame([], "at timestamp, is_last boolean")
    marked = WatermarkStrategy.for_punctuated_watermarks("is_last").with_timestamp_column("at")
    wrong = WatermarkStrategy.for_punctuated_watermarks("is_first").with_timestamp_column("at")

    stream = env.from_dataframe(frame, marked, uid="marked")

    assert stream.flow.operator.punctuated_watermarks
    with pytest.raises(StreamTypeError, match=r"wrong.*is_first"):
        env.from_dataframe(frame, wrong, uid="wrong")


@pytest.mark.slow
@pytest.mark.integration
def test_rows_out_of_order_fail_the_job_on_request(
    env: StreamExecutionEnvironment, spark: SparkSession, tmp_path: Path
) -> None:
    late_first = spark.range(0, 10, 1, 2).select(F.timestamp_seconds(100 - F.col("id")).alias("at"))
    env.set_checkpoint_dir(str(tmp_path / "checkpoints"))
    env.from_dataframe(
        late_first, BY_TIME.with_violation_handler("FAIL"), uid="countdown", partitions_per_batch=1
    ).sink_to(FileSink.parquet(str(tmp_path / "out")))

    with pytest.raises(JobExecutionError, match=r"MonotonyViolationError: .*event times must ascend"):
        env.execute("countdown")


@pytest.mark.slow
@pytest.mark.integration
def test_a_marker_row_makes_earlier_event_times_late(
    env: StreamExecutionEnvironment, spark: SparkSession, tmp_path: Path
) -> None:
    seconds = F.element_at(F.array(*map(F.lit, (0, 5, 1, 6))), F.col("id").cast("int") + 1)
    rows = spark.range(0, 4, 1, 2).select("id", F.timestamp_seconds(seconds).alias("at"))
    marked = WatermarkStrategy.for_punctuated_watermarks("id = 1").with_timestamp_column("at")
    env.set_checkpoint_dir(str(tmp_path / "checkpoints"))
    (
        env.from_dataframe(rows, marked, uid="rows", partitions_per_batch=1)
        .key_by(F.lit(0).alias("key"))
        .window(TumblingEventTimeWindows.of("1s"))
        .aggregate(F.count("*").alias("rows"))
        .sink_to(FileSink.parquet(str(tmp_path / "out")))
    )

    env.execute("marked")

    windows = spark.read.parquet(str(tmp_path / "out")).select(F.unix_seconds("window_start")).collect()
    assert sorted(second for (second,) in windows) == [0, 5, 6]
