"""The orders of an invented shop, as they arrive: revenue and largest order per city and minute, exactly once."""

from __future__ import annotations

import argparse

from pyspark.sql import functions as F

from flykka import (
    DataGenSource,
    FileSink,
    RestartStrategies,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flykka.datagen import choice, random_double, sequence, timestamps

FIELDS = {
    "order": sequence(start=1),
    "city": choice("Berlin", "Lisbon", "Osaka", "Quito"),
    "amount": random_double(5, 500),
    "ordered": timestamps("2026-01-01", step="10ms"),
}


def main() -> None:
    """Parse the options, define the job and run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--folder", default="/tmp/orders", help="for results and checkpoints, in folders of it (default /tmp/orders)"
    )
    parser.add_argument("--orders", type=int, default=500_000, metavar="N", help="how many (default 500000)")
    options = parser.parse_args()

    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.enable_checkpointing("2s").set_checkpoint_dir(f"{options.folder}/checkpoints")
        env.set_restart_strategy(RestartStrategies.fixed_delay_restart(attempts=2, delay="1s"))
        source = DataGenSource(FIELDS, number_of_rows=options.orders, rows_per_second=20_000, event_time="ordered")
        (
            env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "orders", uid="orders")
            .where("amount >= 10")
            .key_by("city")
            .window(TumblingEventTimeWindows.of("1min"))
            .aggregate(F.sum("amount").alias("revenue"), F.max("amount").alias("largest"))
            .name("revenue")
            .uid("revenue")
            .sink_to(FileSink.parquet(f"{options.folder}/revenue"))
            .uid("output")
        )
        env.execute("revenue per city")


if __name__ == "__main__":
    main()
