"""The answer of a Python worker of Spark that writes rows to a target: how many they were. For `mapInArrow`."""

from __future__ import annotations

import pyarrow as pa

ROWS = "rows bigint"
"""The column of the answer, as DDL."""


def number_of(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"rows": pa.array([rows], pa.int64())})
