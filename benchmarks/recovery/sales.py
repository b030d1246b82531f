"""The job under kills: sales, written down one by one and summed up per shop and hour. Two sinks, one truth.

Every sale has a number of its own, so that of each it can be said how often it was written; and every sale is counted
once in the sum of its hour, where a row that was read twice cannot hide.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from pyspark.sql import functions as F

from flykka import FileSink, FileSource, RestartStrategies, TumblingEventTimeWindows, WatermarkStrategy

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
    """All sales, in the order of their time."""
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
    """The input files, each a batch; the folder."""
    folder.mkdir(parents=True)
    sales = table()
    for number in range(FILES):
        rows = sales.iloc[number * ROWS_PER_FILE : (number + 1) * ROWS_PER_FILE]
        rows.to_parquet(folder / f"sales-{number:02}.parquet", coerce_timestamps="us", index=False)
    return folder


def start(env: StreamExecutionEnvironment, sales: Path, folder: Path) -> JobClient:
    """Submit the job, which writes below `folder`; it restarts without end and at once."""
    env.enable_checkpointing(CHECKPOINT_INTERVAL, tolerable_failures=1_000).set_checkpoint_dir(checkpoints(folder))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(delay=0))
    watermarks = WatermarkStrategy.for_bounded_out_of_orderness("1h").with_timestamp_column("at")
    source = FileSource.parquet(str(sales)).files_per_batch(1)
    stream = env.from_source(source, watermarks, "sales", uid="sales")
    stream.sink_to(FileSink.parquet(str(each(folder)))).uid("each")
    (
        stream.key_by("shop")
        .window(TumblingEventTimeWindows.of("1h"))
        .aggregate(F.count("*").alias("sales"), F.sum("amount").alias("total"))
        .uid("hourly")
        .set_parallelism(2)
        .sink_to(FileSink.parquet(str(hourly(folder))))
        .uid("sums")
    )
    return env.execute_async(JOB_NAME)


def each(folder: Path) -> Path:
    """The folder of every sale."""
    return folder / "each"


def hourly(folder: Path) -> Path:
    """The folder of the sums."""
    return folder / "hourly"


def checkpoints(folder: Path) -> Path:
    """The folder of the checkpoints."""
    return folder / "checkpoints"
