"""The query whose recovery is timed: a total for each of 100,000 keys, all in one window that stays open.

The first file has a row of each key. All further files are small, and their batches must be merged with all state.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column
from pyspark.sql import functions as F

KEYS = 100_000
ROWS_PER_BATCH = 1_000
SCHEMA = "key bigint, amount bigint, at timestamp"
KEY, EVENT_TIME, WINDOW = "key", "at", "1 hour"
WATERMARK_DELAY = "1 minute"
CHECKPOINT_INTERVAL_MS = 200

_FIRST_MICROS = 1_767_225_600_000_000


def aggregates() -> tuple[Column, ...]:
    """Return the aggregates per key. (A Column needs a running session, hence a function.)"""
    return F.count("*").alias("rows"), F.sum("amount").alias("total")


def write(folder: Path, number: int) -> None:
    """Write file `number` atomically."""
    chance = np.random.default_rng(number)
    rows = KEYS if number == 0 else ROWS_PER_BATCH
    table = pa.table(
        {
            "key": np.arange(rows) if number == 0 else chance.integers(0, KEYS, rows),
            "amount": chance.integers(1, 1_000, rows),
            "at": pa.array(np.full(rows, _FIRST_MICROS + number * 1_000), pa.timestamp("us", tz="UTC")),
        }
    )
    unfinished = folder / f".totals-{number:05}.parquet"
    pq.write_table(table, unfinished)
    os.replace(unfinished, folder / f"totals-{number:05}.parquet")
