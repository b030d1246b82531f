"""Joins each click with the impressions of its ad in the ten minutes before; clicks without impressions are included.

    python examples/ad_clicks.py IMPRESSIONS CLICKS OUTPUT

reads parquet files of impressions (`ad bigint, page string, at timestamp`) and of clicks (`ad bigint, user bigint, at
timestamp`), and writes `ad bigint, user bigint, clicked_at timestamp, page string, seen_at timestamp`: a row for each
pair of click and impression, and a row with nulls for a click without impressions.
"""

from __future__ import annotations

import sys

from pyspark.sql import functions as F

from flykka import DataStream, FileSink, FileSource, StreamExecutionEnvironment, WatermarkStrategy


def with_impressions(clicks: DataStream, impressions: DataStream) -> DataStream:
    """Return the clicks, each joined with earlier impressions of its ad."""
    return (
        clicks.key_by("ad")
        .interval_join(impressions.key_by("ad"))
        .between("-10min", "0s")
        .left_outer()
        .select(
            "left.ad",
            "left.user",
            F.col("left.at").alias("clicked_at"),
            F.col("right.page").alias("page"),
            F.col("right.at").alias("seen_at"),
        )
        .uid("clicks with impressions")
    )


def define_job(env: StreamExecutionEnvironment, impressions: str, clicks: str, output: str) -> None:
    """Define the job from the two folders to the output folder."""
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1min").with_timestamp_column("at")
    seen, clicked = (
        env.from_source(FileSource.parquet(folder).files_per_batch(1), watermarks, name, uid=name)
        for name, folder in (("impressions", impressions), ("clicks", clicks))
    )
    with_impressions(clicked, seen).sink_to(FileSink.parquet(output)).uid("output")


def main(impressions: str, clicks: str, output: str) -> None:
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.enable_checkpointing("10s").set_checkpoint_dir(f"{output}.checkpoints")
        define_job(env, impressions, clicks, output)
        env.execute("ad clicks")


if __name__ == "__main__":
    main(*sys.argv[1:])
