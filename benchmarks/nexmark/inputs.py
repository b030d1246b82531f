"""The events that all engines read, in parquet files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import prepared as files_of
from examples.nexmark import generator

SEED = 1


def events(first: int, rows: int, seed: int) -> pa.Table:
    return generator.events(np.arange(first, first + rows, dtype=np.int64), seed)


def prepared(rows: int, files: int) -> Path:
    return files_of.prepared("nexmark-events", events, rows, files, SEED)
