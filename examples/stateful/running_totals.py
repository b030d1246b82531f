"""Computes the running total of each user.

    python examples/stateful/running_totals.py PAYMENTS TOTALS

reads parquet files of payments (`user bigint, amount bigint, at timestamp`) and writes, with every batch, the totals of
its users (`user bigint, payments bigint, total bigint, largest bigint`). The newest row of each user is the current
one.
"""

from __future__ import annotations

import sys

from pyspark.sql import functions as F

from flykka import DataStream, FileSink, FileSource, StreamExecutionEnvironment, WatermarkStrategy


def totals(payments: DataStream) -> DataStream:
    return (
        payments.key_by("user")
        .aggregate(F.count("*").alias("payments"), F.sum("amount").alias("total"), F.max("amount").alias("largest"))
        .uid("totals")
    )


def main(payments: str, output: str) -> None:
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.enable_checkpointing("10s").set_checkpoint_dir(f"{output}.checkpoints")
        source = FileSource.parquet(payments)
        rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "payments", uid="payments")
        totals(rows).sink_to(FileSink.parquet(output)).uid("output")
        env.execute("running totals")


if __name__ == "__main__":
    main(*sys.argv[1:])
