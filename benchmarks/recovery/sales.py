"""The job under test: writes sales one by one, twice, and sums them per shop and hour, and per shop so far.

The job has four sinks with known results. The second copy of the sales passes through another task.

Every sale has a unique number, which shows how often it was written. Every sale is counted once in the sum of its hour,
which reveals a row that was read twice. The sums so far grow with every batch: the last sums include all sales, and
each sum occurs once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from pyspark.sql import functions as F

from flykka import FileSink, FileSource, RestartStrategies, TumblingEventTimeWindows, WatermarkStrategy
from flykka.spark_bridge.session.fast_paths import BACKGROUND_MERGES, LAZY_READING, LOCAL_RECOVERY

if TYPE_CHECKING:
    from flykka import JobClient, StreamExecutionEnvironment

FILES = 10
ROWS_PER_FILE = 400
SHOPS = 9
CHECKPOINT_INTERVAL = "100ms"
JOB_NAME = "sales"

_SECONDS_BETWEEN_SALES = 30
_SEED = 7


def table() -> pd.DataFrame:
    rows = FILES * ROWS_PER_FILE
    chance = np.random.default_rng(_SEED)
    return pd.DataFrame(
        {
            "sale": np.arange(rows, dtype="int64"),
            "shop": chance.integers(0, SHOPS, rows).astype("int64"),
            "amount": chance.integers(1, 1_000, rows).astype("int64"),
            "at": pd.to_datetime(np.arange(rows) * _SECONDS_BETWEEN_SALES, unit="s", utc=True),
        }
    )


def write(folder: Path) -> Path:
    folder.mkdir(parents=True)
    sales = table()
    for number in range(FILES):
        rows = sales.iloc[number * ROWS_PER_FILE : (number + 1) * ROWS_PER_FILE]
        rows.to_parquet(folder / f"sales-{number:02}.parquet", coerce_timestamps="us", index=False)
    return folder


PLAIN = (
    f"--conf {LOCAL_RECOVERY}=false --conf {BACKGROUND_MERGES}=false --conf {LAZY_READING}=false"
    " --conf spark.hadoop.fs.file.impl=org.apache.hadoop.fs.LocalFileSystem pyspark-shell"
)
"""Spark's start arguments that disable optimisations."""


def start(env: StreamExecutionEnvironment, sales: Path, folder: Path) -> JobClient:
    """Submit the job, which writes below `folder`; it restarts without delay or limit.

    If the other optimisations are disabled, batches are not coalesced either.
    """
    if env.spark.conf.get(LOCAL_RECOVERY, "true") == "false":
        env.disable_batch_coalescing()
    env.enable_checkpointing(CHECKPOINT_INTERVAL, tolerable_failures=1_000).set_checkpoint_dir(checkpoints(folder))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(delay=0))
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1h").with_timestamp_column("at")
    source = FileSource.parquet(str(sales)).files_per_batch(1)
    stream = env.from_source(source, watermarks, "sales", uid="sales")
    stream.sink_to(FileSink.parquet(str(each(folder)))).uid("each")
    again = env.from_source(FileSource.parquet(str(sales)), watermarks, "sales again", uid="sales-again")
    again.rebalance().sink_to(FileSink.parquet(str(each_again(folder)))).set_parallelism(2).uid("each-again")
    (
        stream.key_by("shop")
        .window(TumblingEventTimeWindows.of("1h"))
        .aggregate(F.count("*").alias("sales"), F.sum("amount").alias("total"))
        .uid("hourly")
        .set_parallelism(2)
        .sink_to(FileSink.parquet(str(hourly(folder))))
        .uid("sums")
    )
    (
        stream.key_by("shop")
        .aggregate(F.count("*").alias("sales"), F.sum("amount").alias("total"))
        .uid("so-far")
        .set_parallelism(2)
        .sink_to(FileSink.parquet(str(so_far(folder))))
        .uid("sums-so-far")
    )
    return env.execute_async(JOB_NAME)


def wait_for_end(client: JobClient, seconds: float) -> None:
    """Wait until the job has ended, however slow the machine is. Raises the errors of `JobClient.wait`.

    If the job completes no checkpoint for `seconds`, it hangs, and `TimeoutError` is raised.
    """
    completed = -1
    while True:
        try:
            client.wait(seconds)
            return
        except TimeoutError:
            before, completed = completed, client.details.checkpoints_completed
            if completed == before:
                raise


def each(folder: Path) -> Path:
    return folder / "each"


def each_again(folder: Path) -> Path:
    return folder / "each-again"


def hourly(folder: Path) -> Path:
    return folder / "hourly"


def so_far(folder: Path) -> Path:
    return folder / "so-far"


def checkpoints(folder: Path) -> Path:
    return folder / "checkpoints"
