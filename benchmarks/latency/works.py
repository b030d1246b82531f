"""The works: what is computed of the files, and which rows of the output hold a file.

stateless: rows that are selected and computed, one by one
windows: counts per key in windows of a second
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    """The works, by the names that the results have."""

    STATELESS = "stateless"
    WINDOWS = "windows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Output that readers were shown at a time, in seconds since the epoch: some files of rows."""

    at: float
    files: tuple[Path, ...]


def committed_files(
    work: WorkName, feed: Feed, numbers: Iterable[int], output: Iterable[Committed]
) -> dict[int, float]:
    """The time at which all rows of each of these files were to be read, for those whose rows were.

    Raises:
        WrongResultError: rows of a file came twice, or are not what they have to be.
    """
    if work is WorkName.STATELESS:
        return _whole("file", {number: number for number in numbers}, ROWS_PER_FILE, _of_files(output))
    of_window: dict[int, int] = {}
    for number in range(feed.first, feed.first + feed.files):
        start_ms = _window(feed, number)
        of_window[start_ms] = of_window.get(start_ms, 0) + ROWS_PER_FILE
    windows = {number: _window(feed, number) for number in numbers}
    return _whole("window", windows, of_window, _of_windows(output))


def _window(feed: Feed, number: int) -> int:
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


def _whole(
    what: str,
    wanted: Mapping[int, int],
    rows_of: int | Mapping[int, int],
    found: Iterable[tuple[float, Mapping[int, int]]],
) -> dict[int, float]:
    """The time at which all rows were there of what each number stands for."""
    rows: dict[int, int] = {}
    last: dict[int, float] = {}
    for at, counts in found:
        for key, count in counts.items():
            rows[key] = rows.get(key, 0) + count
            last[key] = max(last.get(key, at), at)
    made: dict[int, float] = {}
    for number, key in wanted.items():
        whole = rows_of if isinstance(rows_of, int) else rows_of[key]
        if rows.get(key, 0) > whole:
            raise WrongResultError(f"{what} {key} has {rows[key]} rows in the output, and {whole} are true")
        if rows.get(key) == whole:
            made[number] = last[key]
    return made
