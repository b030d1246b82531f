"""Finds the three products with the highest revenue in each hour: windows, and a function of all rows of a window.

    python examples/stateful/top_products.py ORDERS BEST

reads parquet files of orders (`product bigint, amount bigint, at timestamp`) and writes `window_start timestamp,
window_end timestamp, product bigint, revenue bigint, place int`. The first windows sum the revenue of each product, in
parallel. The second windows get one row per product, in one subtask.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from flykka import (
    DataStream,
    FileSink,
    FileSource,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)

HOURS = TumblingEventTimeWindows.of("1h")


def top_three(products: DataFrame) -> DataFrame:
    """Return the best rows of each window; if revenues are equal, the product with the lowest number comes first."""
    best_first = Window.partitionBy("window_start", "window_end").orderBy(F.desc("revenue"), "product")
    return products.withColumn("place", F.row_number().over(best_first)).where("place <= 3")


def best_products(orders: DataStream) -> DataStream:
    revenue = orders.key_by("product").window(HOURS).aggregate(F.sum("amount").alias("revenue")).uid("revenue")
    return revenue.window_all(HOURS).apply(top_three).uid("best")


def main(orders: str, output: str) -> None:
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.enable_checkpointing("10s").set_checkpoint_dir(f"{output}.checkpoints")
        watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1min").with_timestamp_column("at")
        rows = env.from_source(FileSource.parquet(orders), watermarks, "orders", uid="orders")
        best_products(rows).sink_to(FileSink.parquet(output)).uid("output")
        env.execute("top products")


if __name__ == "__main__":
    main(*sys.argv[1:])
