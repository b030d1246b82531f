"""The input of each work: seeded parquet files, one per batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

TIME = pa.timestamp("us", tz="UTC")
_SEED = 7
BEGIN_MS = 1_704_067_200_000
"""The first event time in ms. Structured Streaming's watermark starts in 1970, so earlier rows would be late."""

SPAN_MS = 50 * 60 * 1000
"""The event time covered by all files, in ms: less than the hour within which duplicates are dropped."""


def write_values(folder: Path, files: int, rows: int, keys: int) -> None:
    """Write rows with random keys (`k`) and a number (`v`)."""
    chance = np.random.default_rng(_SEED)
    for path in _paths(folder, files):
        k, v = chance.integers(0, keys, rows), chance.integers(0, 1_000_000, rows)
        pq.write_table(pa.table({"k": k, "v": v}), path)


def write_every_key(folder: Path, files: int, rows: int, keys: int) -> None:
    """Write rows like `write_values`, but with every key (`k`) equally often in each file, give or take one."""
    chance = np.random.default_rng(_SEED)
    for path in _paths(folder, files):
        pq.write_table(pa.table({"k": chance.permutation(rows) % keys, "v": chance.integers(0, 1_000_000, rows)}), path)


def write_events(folder: Path, files: int, rows: int, keys: int) -> None:
    """Write rows with random keys (`k`) and ascending event time (`at`); the first file has as many keys as fit."""
    chance = np.random.default_rng(_SEED)
    for number, path in enumerate(_paths(folder, files)):
        k = chance.integers(0, keys, rows) if number else chance.permutation(rows) % keys
        pq.write_table(pa.table({"k": k, "at": _times(number, files, rows)}), path)


def write_ids(folder: Path, files: int, rows: int, keys: int) -> None:
    """Write rows with new ids (`k`), as many as there are keys, and with ids from earlier files."""
    chance = np.random.default_rng(_SEED)
    new = -(-keys // files)
    before = pa.table({"k": np.zeros(0, dtype=np.int64), "at": pa.array([], TIME)})
    for number, path in enumerate(_paths(folder, files)):
        ids = number * new + chance.permutation(min(new, keys - number * new))
        fresh = pa.table({"k": ids, "at": _times(number, files, len(ids))})
        again = before.take(chance.integers(0, max(1, before.num_rows), max(0, rows - len(ids)) if number else 0))
        pq.write_table(pa.concat_tables([fresh, again]), path)
        before = fresh


def write_distinct(folder: Path, files: int, rows: int, keys: int) -> None:
    """Write rows with unique keys (`k`) and a number (`v`)."""
    chance = np.random.default_rng(_SEED)
    for number, path in enumerate(_paths(folder, files)):
        # The odd factor maps the numbers one to one to numbers that are spread over the complete range.
        k = (np.arange(number * rows, (number + 1) * rows) * 2_654_435_761) % (1 << 40)
        pq.write_table(pa.table({"k": k, "v": chance.integers(0, 1_000_000, rows)}), path)


def _paths(folder: Path, files: int) -> Iterator[Path]:
    folder.mkdir(parents=True)
    return (folder / f"{number:04}.parquet" for number in range(files))


def _times(number: int, files: int, rows: int) -> pa.Array:
    step = 1000 * SPAN_MS // files
    return pa.array(1000 * BEGIN_MS + number * step + np.arange(rows) * step // max(1, rows)).cast(TIME)
