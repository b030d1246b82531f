"""Compares the output of an engine with that of the batch, row by row, without Spark, because Spark is a contestant."""

from __future__ import annotations

from datetime import timedelta
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

TIME = pa.timestamp("us", tz="UTC")
_BIDS = pa.schema(
    {"window_start": TIME, "window_end": TIME, "auction": pa.int64(), "bids": pa.int64(), "highest_price": pa.int64()}
)
_LEFT_OPEN = timedelta(seconds=2)
"""The watermark is a second behind the last bid, so only the last two windows stay open."""


class WrongResultError(Exception):
    """An engine's result differs from that of the batch, so its speed is meaningless."""


def result(output: Path, schema: pa.Schema = _BIDS) -> pa.Table:
    """Read the rows of an output folder, sorted by window and key: the first and the third column."""
    parts = [pq.ParquetFile(path).read(schema.names) for path in sorted(output.glob("*.parquet"))]
    # Spark writes timestamps as INT96 by default, which are read as nanoseconds without a time zone.
    rows = pa.concat_tables([schema.empty_table(), *(part.cast(schema) for part in parts)])
    return rows.sort_by([(schema.names[place], "ascending") for place in (0, 2)])


def check(who: object, found: pa.Table, expected: pa.Table) -> None:
    """Raise `WrongResultError` with the first difference, unless both have the same rows equally often."""
    if found.equals(expected):
        return
    both = min(found.num_rows, expected.num_rows)
    differs = [
        pc.not_equal(found[name].slice(0, both), expected[name].slice(0, both)) for name in expected.schema.names
    ]
    place = pc.index(reduce(pc.or_, differs), True).as_py()
    first = both if place < 0 else place
    raise WrongResultError(
        f"{who} wrote {found.num_rows} rows and the batch {expected.num_rows}; they part at row {first}: "
        f"{_row(found, first)}, the batch {_row(expected, first)}"
    )


def check_closed_windows(who: object, found: pa.Table, expected: pa.Table, left_open: timedelta = _LEFT_OPEN) -> None:
    """Call `check` for an engine that never emits the windows that are open at the end of its input."""
    last = pc.max(expected["window_start"]).as_py()
    closed = expected.filter(pc.less_equal(expected["window_start"], pa.scalar(last - left_open, TIME)))
    check(who, found, closed)


def _row(rows: pa.Table, place: int) -> str:
    return str(rows.slice(place, 1).to_pylist())
