"""Impressions and clicks: seeded files of each, one file per batch, and the expected pairs."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks.comparison import WrongResultError

IMPRESSIONS, CLICKS = "impressions", "clicks"
SCHEMA = "ad long, id long, at timestamp"
WITHIN_MINUTES = 10

_SEED = 7
_FILE_MS = WITHIN_MINUTES * 60_000
"""The event time covered by a file, in ms."""

_BEGIN_MS = 1_704_067_200_000
_PER_AD = 1
"""The average number of an ad's impressions within the time of a match."""

Numbers = npt.NDArray[np.int64]


def write(folder: Path, files: int, rows: int) -> None:
    """Write `files` files of both sides, with ascending event time."""
    chance = np.random.default_rng(_SEED)
    for side in (IMPRESSIONS, CLICKS):
        (folder / side).mkdir(parents=True)
        for number in range(files):
            at_us = 1000 * (_BEGIN_MS + number * _FILE_MS) + np.arange(rows) * (1000 * _FILE_MS // rows)
            columns = {
                "ad": chance.integers(0, max(1, rows // _PER_AD), rows),
                "id": np.arange(number * rows, (number + 1) * rows),
                "at": pa.array(at_us).cast(pa.timestamp("us", tz="UTC")),
            }
            path = folder / side / f"{number:04}.parquet"
            pq.write_table(pa.table(columns), path)
            # Structured Streaming reads files by modification time, which would be equal for small files.
            os.utime(path, (number, number))


def check(who: object, output: Path, source: Path) -> int:
    """Return the number of pairs in an output. Raises `WrongResultError` unless they are the expected ones."""
    found = _read(output)
    pairs = _sorted(found["impression"].to_numpy(), found["click"].to_numpy())
    true = _sorted(*_pairs(_read(source / IMPRESSIONS), _read(source / CLICKS)))
    if not np.array_equal(pairs, true):
        raise WrongResultError(f"{who} has made {len(pairs)} pairs that are not the {len(true)} true ones")
    return len(true)


def _pairs(impressions: pa.Table, clicks: pa.Table) -> tuple[Numbers, Numbers]:
    ads, times, ids = (_column(impressions, name) for name in ("ad", "at", "id"))
    # Combines an ad and a time to one number, which increases with both.
    span = int(max(times.max(), _column(clicks, "at").max())) + 1 - 1000 * _BEGIN_MS + 60_000_000 * WITHIN_MINUTES
    order = np.lexsort((times, ads))
    places = ads[order] * span + times[order] - 1000 * _BEGIN_MS
    clicked = _column(clicks, "ad") * span + _column(clicks, "at") - 1000 * _BEGIN_MS
    first = np.searchsorted(places, clicked - 60_000_000 * WITHIN_MINUTES, side="left")
    numbers = np.searchsorted(places, clicked, side="right") - first
    before = np.repeat(np.cumsum(numbers) - numbers, numbers)
    met = np.repeat(first, numbers) + np.arange(numbers.sum()) - before
    return ids[order][met], np.repeat(_column(clicks, "id"), numbers)


def _column(rows: pa.Table, name: str) -> Numbers:
    column = rows[name]
    numbers: Numbers = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_numpy()
    return numbers


def _sorted(impressions: Numbers, clicks: Numbers) -> Numbers:
    order = np.lexsort((clicks, impressions))
    return np.stack([impressions[order], clicks[order]], axis=1)


def _read(folder: Path) -> pa.Table:
    return ds.dataset(sorted(map(str, folder.rglob("*.parquet"))), format="parquet").to_table()
