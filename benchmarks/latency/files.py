"""The files of the benchmark: written beforehand, and moved into the folder of a source when they are due.

A file has a number, and all its rows have the event time at which the file is due. The real arrival time is that of the
rename, which changes the inode.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.comparison import TIME

ROWS_PER_FILE = 1_000
KEYS = 10
SCHEMA = "file long, k long, at timestamp"
BEGIN_MS = 1_704_067_200_000
"""The event time of the first file in ms; Structured Streaming treats rows of 1970 as late."""

_NS_PER_S = 1_000_000_000
_PREPARED = "prepared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """Files that arrive at a fixed rate, at each of the sources in turn."""

    files: int
    files_per_s: float
    sources: int = 1
    first: int = 0

    def time_ms(self, number: int) -> int:
        return BEGIN_MS + round(1000 * number / self.files_per_s)

    def source(self, place: Path, number: int) -> Path:
        return place / f"source-{number % self.sources}"

    def file(self, place: Path, number: int) -> Path:
        return self.source(place, number) / _name(number)

    def prepare(self, place: Path) -> None:
        prepared = place / _PREPARED
        for folder in (prepared, *(self.source(place, number) for number in range(self.sources))):
            folder.mkdir(parents=True, exist_ok=True)
        keys = pa.array(np.arange(ROWS_PER_FILE) % KEYS)
        for number in range(self.first, self.first + self.files):
            times = pa.array(np.full(ROWS_PER_FILE, 1000 * self.time_ms(number))).cast(TIME)
            rows = pa.table({"file": np.full(ROWS_PER_FILE, number), "k": keys, "at": times})
            pq.write_table(rows, prepared / _name(number))

    def run(self, place: Path) -> None:
        """Move each file to its source when it is due."""
        begun = time.monotonic()
        for number in range(self.first, self.first + self.files):
            left = begun + (number - self.first) / self.files_per_s - time.monotonic()
            if left > 0:
                time.sleep(left)
            self._move(place, number)

    def put(self, place: Path) -> None:
        for number in range(self.first, self.first + self.files):
            self._move(place, number)

    def arrivals(self, place: Path) -> dict[int, float]:
        """Return the arrival time of each file, in seconds since the epoch."""
        numbers = range(self.first, self.first + self.files)
        return {number: changed(self.file(place, number)) for number in numbers}

    def _move(self, place: Path, number: int) -> None:
        (place / _PREPARED / _name(number)).rename(self.file(place, number))


def changed(path: Path) -> float:
    """Return the time at which a file was renamed, in seconds since the epoch."""
    return path.stat().st_ctime_ns / _NS_PER_S


def _name(number: int) -> str:
    return f"{number:06}.parquet"
