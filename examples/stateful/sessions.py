"""Finds the visits of each user: sessions that end after half an hour without a click.

    python examples/stateful/sessions.py CLICKS VISITS

reads parquet files of clicks (`user bigint, at timestamp`) and writes a row `user bigint, clicks bigint, began
timestamp, ended timestamp` for each visit that has ended.
"""

from __future__ import annotations

import sys

from pyspark.sql import functions as F

from flykka import (
    DataStream,
    EventTimeSessionWindows,
    FileSink,
    FileSource,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)


def visits(clicks: DataStream) -> DataStream:
    counted = F.count("*").alias("clicks"), F.min("at").alias("began"), F.max("at").alias("ended")
    sessions = clicks.key_by("user").window(EventTimeSessionWindows.with_gap("30min")).aggregate(*counted).uid("visits")
    return sessions.select("user", "clicks", "began", "ended").uid("columns")


def main(clicks: str, output: str) -> None:
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.enable_checkpointing("10s").set_checkpoint_dir(f"{output}.checkpoints")
        watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1min").with_timestamp_column("at")
        rows = env.from_source(FileSource.parquet(clicks), watermarks, "clicks", uid="clicks")
        visits(rows).sink_to(FileSink.parquet(output)).uid("output")
        env.execute("visits")


if __name__ == "__main__":
    main(*sys.argv[1:])
