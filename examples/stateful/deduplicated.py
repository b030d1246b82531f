"""Drops payments that are repeated within a day: the first payment with each id is kept.

    python examples/stateful/deduplicated.py PAYMENTS UNIQUE

reads parquet files of payments (`payment_id bigint, amount bigint, at timestamp`) and writes the remaining rows.
"""

from __future__ import annotations

import sys

from flykka import DataStream, FileSink, FileSource, StreamExecutionEnvironment, WatermarkStrategy


def unique(payments: DataStream) -> DataStream:
    """Return the payments without repetitions."""
    return payments.drop_duplicates(["payment_id"], within="1 day").uid("unique")


def main(payments: str, output: str) -> None:
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.enable_checkpointing("10s").set_checkpoint_dir(f"{output}.checkpoints")
        watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1min").with_timestamp_column("at")
        rows = env.from_source(FileSource.parquet(payments), watermarks, "payments", uid="payments")
        unique(rows).sink_to(FileSink.parquet(output)).uid("output")
        env.execute("unique payments")


if __name__ == "__main__":
    main(*sys.argv[1:])
