"""The benchmark's computations over the files, and the mapping of output rows to input files.

- stateless: rows that are selected and computed, one by one
- windows: counts per key in windows of a second
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.comparison import TIME, WrongResultError
from benchmarks.latency.files import ROWS_PER_FILE, Feed

WINDOW_MS = 1_000


class WorkName(StrEnum):
    STATELESS = "stateless"
    WINDOWS = "windows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Files of output rows, and when they became visible to readers, in seconds since the epoch."""

    at: float
    files: tuple[Path, ...]


def committed_files(
    work: WorkName, feed: Feed, numbers: Iterable[int], output: Iterable[Committed]
) -> dict[int, float]:
    """Return the time at which all rows of each of these files were visible, for files that are complete.

    Raises:
        WrongResultError: rows of a file are duplicated or wrong.
    """
    ledger = Ledger(work, output)
    if work is WorkName.STATELESS:
        return ledger.times({number: number for number in numbers}, ROWS_PER_FILE)
    windows = {number: window_of(feed, number) for number in numbers}
    return ledger.times(windows, rows_of_windows(feed))


class Ledger:
    def __init__(self, work: WorkName, output: Iterable[Committed] = ()) -> None:
        self._what, self._count = _COUNTED[work]
        self._rows: dict[int, int] = {}
        self._last: dict[int, float] = {}
        self.add(output)

    def add(self, output: Iterable[Committed]) -> None:
        """Count the rows of more output files, which may be deleted afterwards."""
        for at, counts in self._count(output):
            for key, count in counts.items():
                self._rows[key] = self._rows.get(key, 0) + count
                self._last[key] = max(self._last.get(key, at), at)

    @property
    def keys(self) -> Set[int]:
        """The numbers of the files, or the starts of the windows in ms, for which there are rows."""
        return self._rows.keys()

    def times(self, wanted: Mapping[int, int], rows_of: int | Mapping[int, int]) -> dict[int, float]:
        """Return the time at which the rows of each file or window were complete, if they are.

        Raises:
            WrongResultError: there are more rows than expected.
        """
        made: dict[int, float] = {}
        for number, key in wanted.items():
            whole = rows_of if isinstance(rows_of, int) else rows_of[key]
            if self._rows.get(key, 0) > whole:
                raise WrongResultError(
                    f"{self._what} {key} has {self._rows[key]} rows in the output, and {whole} are true"
                )
            if self._rows.get(key) == whole:
                made[number] = self._last[key]
        return made


def rows_of_windows(feed: Feed) -> dict[int, int]:
    starts = Counter(window_of(feed, number) for number in range(feed.first, feed.first + feed.files))
    return {start_ms: files * ROWS_PER_FILE for start_ms, files in starts.items()}


def window_of(feed: Feed, number: int) -> int:
    return feed.time_ms(number) // WINDOW_MS * WINDOW_MS


def _of_files(output: Iterable[Committed]) -> Iterable[tuple[float, Mapping[int, int]]]:
    for each, rows in _read(output, ["file"]):
        counted = rows.group_by("file").aggregate([([], "count_all")])
        yield each.at, dict(zip(counted["file"].to_pylist(), counted["count_all"].to_pylist(), strict=True))


def _of_windows(output: Iterable[Committed]) -> Iterable[tuple[float, Mapping[int, int]]]:
    for each, rows in _read(output, ["window_start", "n"]):
        starts_ms = pc.divide(rows["window_start"].cast(TIME).cast(pa.int64()), 1000)
        counted = pa.table({"start": starts_ms, "n": rows["n"]}).group_by("start").aggregate([("n", "sum")])
        yield each.at, dict(zip(counted["start"].to_pylist(), counted["n_sum"].to_pylist(), strict=True))


def _read(output: Iterable[Committed], columns: list[str]) -> Iterable[tuple[Committed, pa.Table]]:
    for each in output:
        yield each, pa.concat_tables([pq.ParquetFile(path).read(columns) for path in each.files])


_COUNTED: dict[WorkName, tuple[str, Callable[[Iterable[Committed]], Iterable[tuple[float, Mapping[int, int]]]]]] = {
    WorkName.STATELESS: ("file", _of_files),
    WorkName.WINDOWS: ("window", _of_windows),
}
