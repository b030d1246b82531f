"""Programs with several streams, and with functions that have `open` and `close`, from the environment to the output
folders.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
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
    RestartStrategies,
    RichFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.cluster(task_managers=2, slots_per_task_manager=2),
    pytest.mark.checkpoints,
]

MINUTES = TumblingEventTimeWindows.of("1min")


def write_bids(folder: Path, first: int, files: int) -> None:
    """Write files of 600 bids each, ten bids per second from bid number `first` on. Every fifth bid has no price."""
    folder.mkdir()
    for number in range(files):
        ids = range(first + number * 600, first + (number + 1) * 600)
        table = pa.table(
            {
                "auction": [bid % 7 for bid in ids],
                "price": [bid * 31 % 101 if bid % 5 else None for bid in ids],
                "at": pa.array([bid * 100_000 for bid in ids], pa.timestamp("us", "UTC")),
            }
        )
        pq.write_table(table, folder / f"bids-{number}.parquet")


def source_of_folder(env: StreamExecutionEnvironment, folder: Path) -> DataStream:
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1s").with_timestamp_column("at")
    return env.from_source(FileSource.parquet(str(folder)).files_per_batch(1), watermarks, folder.name, uid=folder.name)


# The job of test_upgrades has windows over a union too.
@pytest.mark.long
def test_windows_over_a_union_wait_for_the_slowest_of_its_streams(
    spark: SparkSession, env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    write_bids(tmp_path / "ahead", first=60_000, files=1)
    write_bids(tmp_path / "behind", first=0, files=2)
    ahead, behind = source_of_folder(env, tmp_path / "ahead"), source_of_folder(env, tmp_path / "behind")
    (
        ahead.union(behind, behind)
        .key_by("auction")
        .window(MINUTES)
        .aggregate(F.count("*").alias("bids"), F.max("price").alias("dearest"))
        .set_parallelism(2)
        .sink_to(FileSink.parquet(str(tmp_path / "counts")))
    )
    env.enable_checkpointing("500ms")

    env.execute("union")

    first, second = (spark.read.parquet(str(tmp_path / name)) for name in ("ahead", "behind"))
    window = F.window("at", "1 minute").alias("window")
    counted = first.unionAll(second).unionAll(second).groupBy(window, "auction")
    expected = counted.agg(F.count("*").alias("bids"), F.max("price").alias("dearest")).select(
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        "auction",
        "bids",
        "dearest",
    )
    assertDataFrameEqual(spark.read.parquet(str(tmp_path / "counts")), expected)


def doubled(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for part in parts:
        yield part.assign(price=part["price"] * 2)


def test_a_stream_may_be_joined_split_and_written_to_several_sinks(
    spark: SparkSession, env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    write_bids(tmp_path / "bids", first=0, files=2)
    titles = spark.createDataFrame([(1, "one"), (2, "two")], "auction long, title string")
    stream = source_of_folder(env, tmp_path / "bids")
    titled = stream.where("price IS NOT NULL").join(titles, "auction").drop("at")
    titled.map_in_pandas(doubled, "auction long, price double, title string").sink_to(
        FileSink.parquet(str(tmp_path / "doubled"))
    )
    rest, side = stream.side_output("price > 50")
    rest.sink_to(FileSink.parquet(str(tmp_path / "rest")))
    side.sink_to(FileSink.parquet(str(tmp_path / "side")))
    rest.union(side).sink_to(FileSink.parquet(str(tmp_path / "all")))

    env.execute("parted")

    made = {name: spark.read.parquet(str(tmp_path / name)) for name in ("bids", "doubled", "rest", "side", "all")}
    expected = made["bids"].where("price IS NOT NULL").join(titles, "auction")
    assertDataFrameEqual(made["doubled"], expected.selectExpr("auction", "price * 2.0D AS price", "title"))
    assertDataFrameEqual(made["all"], made["bids"])
    assertDataFrameEqual(made["side"], made["bids"].where("price > 50"))
    assertDataFrameEqual(made["rest"], made["bids"].where("price <= 50 OR price IS NULL"))


class Unreliable(RichFunction):
    """Loses its connection at the second batch of the first attempt."""

    schema = "auction long, price long, at timestamp"

    def __init__(self) -> None:
        self.life: list[str] = []
        self.attempt = -1
        self.batches = 0

    def open(self, context: RuntimeContext) -> None:
        self.attempt = context.attempt_number
        self._note("open")

    def close(self) -> None:
        self._note("close")

    def __call__(self, rows: DataFrame) -> DataFrame:
        self.batches += 1
        self._note(f"batch {self.batches}")
        if (self.attempt, self.batches) == (0, 2):
            raise ConnectionError("the connection is lost")
        return rows

    def _note(self, event: str) -> None:
        self.life.append(f"attempt {self.attempt}: {event}")


def test_every_attempt_opens_and_closes_its_own_rich_function(
    spark: SparkSession, env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    write_bids(tmp_path / "early", first=0, files=2)
    write_bids(tmp_path / "late", first=1_200, files=1)
    function = Unreliable()
    both = source_of_folder(env, tmp_path / "early").union(source_of_folder(env, tmp_path / "late"))
    both.transform(function).sink_to(FileSink.parquet(str(tmp_path / "output")))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(delay=0)).disable_batch_coalescing()

    env.execute("rich")

    assert function.life == [
        *("attempt 0: open", "attempt 0: batch 1", "attempt 0: batch 2", "attempt 0: close"),
        *("attempt 1: open", "attempt 1: batch 1", "attempt 1: batch 2", "attempt 1: batch 3", "attempt 1: close"),
    ]
    written = spark.read.parquet(str(tmp_path / "output"))
    assertDataFrameEqual(written, spark.read.parquet(str(tmp_path / "early"), str(tmp_path / "late")))
