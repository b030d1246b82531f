"""Event time assigned in the middle of a stream: validation and results."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from flykka import (
    FileSink,
    FileSource,
    OutputTag,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flykka.actors.machines.job_graph.chaining import chains
from flykka.api.streams.program import Program
from flykka.api.streams.stream_graph_generator import Defaults, stream_graph
from flykka.errors import FlykkaError, ProgramError, StreamTypeError
from flykka.spark_bridge.operators.code_registry import CodeRegistry
from tests.flykka.programs import HOURS, bids

pytestmark = [
    pytest.mark.spark,
    pytest.mark.cluster(task_managers=2, slots_per_task_manager=2),
    pytest.mark.checkpoints("100ms"),
]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
IN_ORDER = WatermarkStrategy.for_monotonous_timestamps()


def test_a_computed_column_becomes_the_event_time(spark: SparkSession) -> None:
    program = Program()
    computed = bids(spark, program, event_time=None).with_column("then", F.timestamp_seconds("price"))

    timed = computed.assign_timestamps_and_watermarks(IN_ORDER.with_timestamp_column("then").with_quiet_period("1min"))
    timed.key_by("auction").window(HOURS).aggregate(F.count("*")).sink_to(FileSink.parquet("/counts"))

    graph = stream_graph(program.transformations, CodeRegistry(), Defaults())
    assert [[node.uid for node in chain.nodes] for chain in chains(graph)] == [
        ["source-1", "stateless-2"],
        ["timestamps-and-watermarks-3", "window-aggregate-4-local"],
        ["window-aggregate-4", "sink-5"],
    ]
    node = graph.node("timestamps-and-watermarks-3")
    assert (node.watermark_delay_ms, node.quiet_period_ms) == (0, 60_000)


def test_a_stream_lists_its_assigned_watermarks(spark: SparkSession) -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness("5s").with_quiet_period("1min")

    shown = repr(bids(spark).assign_timestamps_and_watermarks(strategy))

    description = "watermark 5.0 s behind the latest row, by the clock after 1 min 0 s without rows"
    assert f"watermarks  assign_timestamps_and_watermarks(at), {description}" in shown


def test_without_a_column_the_event_time_is_unchanged(spark: SparkSession) -> None:
    counted = bids(spark).key_by("auction").window(HOURS).aggregate(F.count("*"))

    assert "window_end -1 ms" in repr(counted.assign_timestamps_and_watermarks(IN_ORDER))
    assert "event time  none" in repr(counted.assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks()))


@pytest.mark.parametrize(
    ("strategy", "error", "text"),
    [
        (IN_ORDER, StreamTypeError, "watermarks need an event time: with_timestamp_column(...) names its column"),
        (IN_ORDER.with_timestamp_column("then"), StreamTypeError, "there is no event-time column 'then'"),
        (IN_ORDER.with_timestamp_column("price"), StreamTypeError, "'price' is of type bigint, not timestamp"),
        (
            WatermarkStrategy.for_punctuated_watermarks("is_mark").with_timestamp_column("at"),
            StreamTypeError,
            "is_mark",
        ),
        (
            IN_ORDER.with_timestamp_column("at").with_watermark_alignment("bids", "1s"),
            ProgramError,
            "with_watermark_alignment(...) delays reading, so it applies to sources only",
        ),
        ("at", ProgramError, "a watermark strategy is one such as"),
    ],
)
def test_invalid_assignments_are_refused_at_once(
    spark: SparkSession, strategy: WatermarkStrategy, error: type[FlykkaError], text: str
) -> None:
    stream = bids(spark, event_time=None)

    with pytest.raises(error) as refused:
        stream.assign_timestamps_and_watermarks(strategy)

    assert text in str(refused.value)


def write_sales(folder: Path, *files: list[float]) -> Path:
    """Write sales at these seconds, as numbers, file by file."""
    folder.mkdir()
    for number, seconds in enumerate(files):
        table = pa.table({"item": [int(second) % 3 for second in seconds], "second": pa.array(seconds, pa.float64())})
        pq.write_table(table, folder / f"sales-{number}.parquet")
    return folder


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.parametrize("parallelism", [1, pytest.param(2, marks=pytest.mark.long)])
def test_windows_over_a_computed_event_time_equal_the_batch(
    spark: SparkSession, env: StreamExecutionEnvironment, tmp_path: Path, parallelism: int
) -> None:
    sales = write_sales(tmp_path / "sales", *([n * 25 + m / 4 for m in range(100)] for n in range(3)))
    within = WatermarkStrategy.for_bounded_out_of_orderness("30s").with_timestamp_column("at")
    (
        env.from_source(FileSource.parquet(str(sales)).files_per_batch(1), name="sales")
        .with_column("at", F.col("second").cast("timestamp"))
        .assign_timestamps_and_watermarks(within)
        .key_by("item")
        .window(TumblingEventTimeWindows.of("10s"))
        .aggregate(F.count("*").alias("sold"))
        .set_parallelism(parallelism)
        .sink_to(FileSink.parquet(str(tmp_path / "sold")))
    )

    env.execute("computed times")

    rows = spark.read.parquet(str(sales)).withColumn("at", F.col("second").cast("timestamp"))
    batch = rows.groupBy(F.window("at", "10 seconds").alias("w"), "item").agg(F.count("*").alias("sold"))
    expected = batch.selectExpr("w.start window_start", "w.end window_end", "item", "sold")
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "sold")), expected)


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "late"),
    [
        pytest.param(IN_ORDER, [1, 2, 11], marks=pytest.mark.long),
        pytest.param(WatermarkStrategy.for_bounded_out_of_orderness("48s"), [1, 2], marks=pytest.mark.long),
        pytest.param(WatermarkStrategy.for_bounded_out_of_orderness("58s"), [], marks=pytest.mark.long),
        (WatermarkStrategy.for_punctuated_watermarks("second = 11"), [1, 2]),
    ],
)
def test_watermarks_follow_the_strategy(
    env: StreamExecutionEnvironment, tmp_path: Path, strategy: WatermarkStrategy, late: list[int]
) -> None:
    sales = write_sales(tmp_path / "sales", [1, 11, 25, 60], [1, 2, 11, 61])
    tag = OutputTag("late")
    rows = env.from_source(FileSource.parquet(str(sales)).files_per_batch(1), name="sales")
    timed = rows.with_column("at", F.col("second").cast("timestamp")).assign_timestamps_and_watermarks(
        strategy.with_timestamp_column("at")
    )
    windows = timed.window_all(TumblingEventTimeWindows.of("10s")).side_output_late_data(tag)
    windows.aggregate(F.count("*")).get_side_output(tag).sink_to(FileSink.parquet(str(tmp_path / "late")))

    env.execute("late")

    files = (tmp_path / "late").glob("*.parquet")
    assert sorted(second for file in files for second in pq.read_table(file)["second"].to_pylist()) == late
