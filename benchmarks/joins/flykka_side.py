"""The join as users of flykka write it, with exactly-once checkpoints every second."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import functions as F

from benchmarks.joins.rows import CLICKS, IMPRESSIONS, SCHEMA, WITHIN_MINUTES
from flykka import FileSink, FileSource, StreamExecutionEnvironment, WatermarkStrategy


class FlykkaSide:
    def __init__(self, parallelism: int) -> None:
        self._env = StreamExecutionEnvironment.get_execution_environment("local[*]")
        self._env.set_parallelism(parallelism).enable_checkpointing("1s", max_concurrent=2)

    def run(self, source: Path, place: Path) -> None:
        """Join two folders, one file per batch, into `place`/output."""
        self._env.set_checkpoint_dir(str(place / "checkpoints"))
        watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1s").with_timestamp_column("at")
        impressions, clicks = (
            self._env.from_source(
                FileSource.parquet(str(source / side), schema=SCHEMA).files_per_batch(1), watermarks, side
            ).set_parallelism(1)
            for side in (IMPRESSIONS, CLICKS)
        )
        pairs = (
            clicks.key_by("ad")
            .interval_join(impressions.key_by("ad"))
            .between(f"-{WITHIN_MINUTES}min", "0s")
            .select("left.ad", F.col("right.id").alias("impression"), F.col("left.id").alias("click"))
        )
        pairs.sink_to(FileSink.parquet(str(place / "output")))
        self._env.execute("joins")

    def close(self) -> None:
        self._env.close()
