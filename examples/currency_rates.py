"""Converts orders to euros, at the exchange rate that was valid at the time of the order.

    python examples/currency_rates.py RATES ORDERS OUTPUT

reads parquet files of rates (`currency string, rate double, at timestamp`), each of which is valid until the next rate
of its currency, and of orders (`order_id bigint, currency string, amount double, at timestamp`). It writes `order_id
bigint, at timestamp, euros double`: a row for each order, with null if its currency had no rate yet.
"""

from __future__ import annotations

import sys

from pyspark.sql import functions as F

from flykka import DataStream, FileSink, FileSource, StreamExecutionEnvironment, WatermarkStrategy


def in_euros(orders: DataStream, rates: DataStream) -> DataStream:
    """Return the orders, each converted at the rate of its time."""
    return (
        orders.key_by("currency")
        .temporal_join(rates.key_by("currency"))
        .left_outer()
        .select("left.order_id", "left.at", F.expr("left.amount * right.rate").alias("euros"))
        .uid("orders at their rates")
    )


def define_job(env: StreamExecutionEnvironment, rates: str, orders: str, output: str) -> None:
    """Define the job from the two folders to the output folder."""
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1min").with_timestamp_column("at")
    known, made = (
        env.from_source(FileSource.parquet(folder).files_per_batch(1), watermarks, name, uid=name)
        for name, folder in (("rates", rates), ("orders", orders))
    )
    in_euros(made, known).sink_to(FileSink.parquet(output)).uid("output")


def main(rates: str, orders: str, output: str) -> None:
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.enable_checkpointing("10s").set_checkpoint_dir(f"{output}.checkpoints")
        define_job(env, rates, orders, output)
        env.execute("currency rates")


if __name__ == "__main__":
    main(*sys.argv[1:])
