"""Bids of Nexmark, the benchmark of streaming auctions, without its other events.

They are generated from a seed into parquet files. A second has 9,200 bids on about seven hundred auctions. Event time
is ascending.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import prepared as files_of
from examples.nexmark import generator

SEED = 1
SCHEMA = "auction bigint, bidder bigint, price bigint, channel string, event_time timestamp"


def bids(first: int, rows: int, seed: int) -> pa.Table:
    epoch, place = np.divmod(np.arange(first, first + rows, dtype=np.int64), generator.BIDS_PER_EPOCH)
    behind_others = generator.EVENTS_PER_EPOCH - generator.BIDS_PER_EPOCH
    numbers = epoch * generator.EVENTS_PER_EPOCH + behind_others + place
    made = generator.bids(numbers, seed).select(["auction", "bidder", "price", "channel"])
    return made.append_column("event_time", generator.times(numbers))


def prepared(rows: int, files: int, seed: int = SEED) -> Path:
    return files_of.prepared("nexmark-bids", bids, rows, files, seed)
